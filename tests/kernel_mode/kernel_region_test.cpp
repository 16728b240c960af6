// Every operation of a region in fault mode kernel, against the file read behind its back and against a plain array.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernel_mode/kernel_cache.hpp"
#include "platform/file_cache.hpp"
#include "region/raised_signal.hpp"

namespace tiermap {
namespace {

using KernelRegionTest = KernelModeTest;

std::string pattern(std::size_t bytes) {
  std::string text(bytes, '\0');
  std::mt19937 random(7);
  for (char& character : text) {
    character = static_cast<char>(random());
  }
  return text;
}

template <typename Body>
int error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.code().value();
  }
  return 0;
}

TEST_F(KernelRegionTest, SaysThatItIsTheKernels) {
  Cache cache(kernel_options(mebibyte));
  EXPECT_EQ(cache.fault_mode(), FaultMode::kernel);
  EXPECT_FALSE(cache.fault_mode_reason().empty());
}

TEST_F(KernelRegionTest, ReadsPartsOfAFileAndZerosPastItsEnd) {
  const std::string content = pattern(3 * 4096 + 100);
  write_file(path(), content);
  Cache cache(kernel_options(mebibyte));
  RegionOptions options;
  options.offset = 4096;
  options.length = 5 * 4096;
  options.page_size_bytes = 8192;
  const Region region = cache.map(path(), options);
  ASSERT_EQ(region.size(), 5 * 4096U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data()) % 8192, 0U);
  EXPECT_EQ(std::memcmp(region.data(), content.data() + 4096, 2 * 4096 + 100), 0);
  for (std::size_t byte = 2 * 4096 + 100; byte < region.size(); ++byte) {
    ASSERT_EQ(region.data()[byte], std::byte{0}) << byte;
  }
}

TEST_F(KernelRegionTest, BehavesLikeAnArrayFarLargerThanItsBudget) {
  constexpr std::size_t words = 2 * mebibyte;  // 16 MiB.
  std::vector<std::uint64_t> model(words);
  Cache cache(kernel_options(2 * mebibyte));
  RegionOptions options = writable(words * sizeof(std::uint64_t));
  options.advice = Advice::random;
  Region region = cache.map(path(), options);
  const auto mapped = region.as_span<std::uint64_t>();
  std::mt19937_64 random(42);
  for (int step = 0; step < 12000; ++step) {
    const std::size_t word = random() % words;
    const std::uint64_t page = word * 8 / 65536 * 65536;
    switch (random() % 400) {
      case 0:
        region.sync({page, 65536});
        break;
      case 1:
        region.advise(Advice::dont_need, {page, 65536});
        break;
      case 2:
        region.prefetch(ByteRange{page, 65536}).wait();
        break;
      case 3:
        region.flush({page, 65536});
        break;
      default:
        if (random() % 2 == 0) {
          mapped[word] = model[word] = random();
        } else {
          ASSERT_EQ(mapped[word], model[word]) << word;
        }
    }
  }
  EXPECT_GT(cache.statistics()[Counter::evictions], 0U);
  region.sync();
  region.unmap();
  const std::string content = read_file(path());
  ASSERT_EQ(content.size(), words * 8);
  EXPECT_EQ(std::memcmp(content.data(), model.data(), content.size()), 0);
}

TEST_F(KernelRegionTest, GrowsItsFileAtOnceAndWithResize) {
  Cache cache(kernel_options(mebibyte));
  RegionOptions options = writable(100000);
  options.reserve_bytes = mebibyte;
  Region region = cache.map(path(), options);
  EXPECT_EQ(std::filesystem::file_size(path()), 100000U);
  region.data()[99999] = std::byte{9};
  region.resize(300001);
  EXPECT_EQ(std::filesystem::file_size(path()), 300001U);
  EXPECT_EQ(region.data()[200000], std::byte{0});
  region.data()[300000] = std::byte{8};
  region.resize(50000);
  EXPECT_EQ(region.size(), 50000U);
  EXPECT_EQ(std::filesystem::file_size(path()), 300001U);
  region.resize(300001);
  EXPECT_EQ(region.data()[99999], std::byte{9});
  EXPECT_EQ(region.data()[300000], std::byte{8});
  region.unmap();
  EXPECT_EQ(read_file(path()).at(99999), 9);
}

TEST_F(KernelRegionTest, GrowingCutsOffNothingThatOthersHaveAdded) {
  Cache cache(kernel_options(mebibyte));
  RegionOptions options = writable(100000);
  options.reserve_bytes = mebibyte;
  Region region = cache.map(path(), options);
  const std::shared_ptr<Store> opened_before = open_store(path(), OpenMode::read_write);
  Region further = cache.map(path(), writable(mebibyte + 5));
  further.data()[mebibyte + 4] = std::byte{9};
  const auto expect_all = [&] {
    ASSERT_EQ(std::filesystem::file_size(path()), mebibyte + 5);
    EXPECT_EQ(read_file(path()).back(), 9);
  };
  region.resize(300001);
  expect_all();
  region.data()[300000] = std::byte{8};
  const Region of_store = cache.map(opened_before, writable(400001));
  expect_all();
  EXPECT_EQ(of_store.data()[300000], std::byte{8});
  // What ends in the same page as the file, but behind it, makes it longer still.
  options.reserve_bytes = 2 * mebibyte;
  Region longer = cache.map(opened_before, options);
  longer.resize(mebibyte + 6);
  EXPECT_EQ(std::filesystem::file_size(path()), mebibyte + 6);
  EXPECT_EQ(longer.data()[mebibyte + 4], std::byte{9});
}

TEST_F(KernelRegionTest, PrivateCopiesNeverReachTheFileAndKeepTheirWrites) {
  const std::string content = pattern(8 * mebibyte);
  write_file(path(), content);
  Cache cache(kernel_options(2 * mebibyte));
  RegionOptions options = writable(9 * mebibyte);
  options.sharing = Sharing::private_copy;
  Region region = cache.map(path(), options);
  std::string model = content + std::string(mebibyte, '\0');
  for (std::size_t at = 0; at < model.size(); at += 40961) {
    model[at] = 'w';
    region.data()[at] = std::byte{'w'};
  }
  // Reading it all makes the budget's thread look for what can go; the sum keeps the compiler from leaving it out.
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(std::memcmp(region.data(), model.data(), model.size()), 0);
    region.advise(Advice::dont_need);
  }
  region.sync();
  EXPECT_EQ(read_file(path()), content);
  region.discard({0, mebibyte});
  EXPECT_EQ(std::memcmp(region.data(), content.data(), mebibyte), 0);
  region.unmap();
  EXPECT_EQ(read_file(path()), content);
}

TEST_F(KernelRegionTest, DiscardsWhatIsWrittenBackAndRefusesWhatIsNot) {
  Cache cache(kernel_options(2 * mebibyte));
  Region region = cache.map(path(), writable(mebibyte));
  const int file = ::open(path().c_str(), O_RDONLY);
  const bool can_tell = file_cache_state(file, 0, 4096) != CacheState::unknown;
  ::close(file);
  region.data()[5] = std::byte{1};
  EXPECT_EQ(error_of([&] { region.discard({0, 65536}); }), ENOTSUP);
  EXPECT_EQ(region.data()[5], std::byte{1});
  region.sync();
  EXPECT_EQ(error_of([&] { region.discard({0, 65536}); }), can_tell ? 0 : ENOTSUP);
  EXPECT_EQ(region.data()[5], std::byte{1});
}

TEST_F(KernelRegionTest, PinsWithinTheBudget) {
  write_file(path(), pattern(8 * mebibyte));
  Cache cache(kernel_options(4 * mebibyte));
  RegionOptions options;
  options.page_size_bytes = 65536;
  Region region = cache.map(path(), options);
  region.pin({0, mebibyte});
  region.pin({0, 65536});
  EXPECT_EQ(error_of([&] { region.pin({mebibyte, 3 * mebibyte}); }), ENOMEM);
  EXPECT_EQ(error_of([&] { region.unpin({mebibyte, 65536}); }), EINVAL);
  region.advise(Advice::dont_need);
  unsigned char resident[16] = {};
  ASSERT_EQ(::mincore(region.data(), 65536, resident), 0);
  for (const unsigned char page : resident) {
    EXPECT_TRUE(page & 1);
  }
  region.unpin({0, 65536});
  region.unpin({0, mebibyte});
  EXPECT_EQ(error_of([&] { region.unpin({0, 65536}); }), EINVAL);
  region.pin({4 * mebibyte, 3 * mebibyte});
  region.unpin({4 * mebibyte, 3 * mebibyte});
}

TEST_F(KernelRegionTest, PrefetchIsHonestAboutWhatItFetched) {
  write_file(path(), pattern(8 * mebibyte));
  Cache cache(kernel_options(2 * mebibyte));
  RegionOptions options;
  options.page_size_bytes = 65536;
  Region region = cache.map(path(), options);
  const ByteRange two[] = {{0, 65536}, {4 * mebibyte, 65536}};
  const Prefetch prefetch = region.prefetch(two);
  EXPECT_EQ(prefetch.wait(), 2U);
  EXPECT_TRUE(prefetch.done());
  EXPECT_EQ(region.prefetch(std::span<const ByteRange>()).wait(), 0U);
  // What the budget does not hold is given up: 90 % of 2 MiB are 28 whole pages.
  EXPECT_EQ(region.prefetch(ByteRange{0, region.size()}).wait(), 28U);
}

TEST_F(KernelRegionTest, RefusesWhatItCannotMapAndChangesNothing) {
  Cache cache(kernel_options(mebibyte));
  const std::string sparse = "sparse://" + directory_.encoded() + "/sparse?segment=1MiB";
  EXPECT_EQ(error_of([&] { cache.map(open_store("memory:1MiB", OpenMode::read_write)); }), EINVAL);
  EXPECT_EQ(error_of([&] { cache.map(sparse, writable(8 * mebibyte)); }), EINVAL);
  write_file(path(), std::string(4096, 'x'));
  RegionOptions manual = writable(8192);
  manual.manual_flush = true;
  EXPECT_EQ(error_of([&] { cache.map(path(), manual); }), EINVAL);
  const Region first = cache.map(path());
  RegionOptions taken = writable(8192);
  taken.address = first.data();
  EXPECT_EQ(error_of([&] { cache.map(path(), taken); }), EEXIST);
  EXPECT_EQ(std::filesystem::file_size(path()), 4096U);
  const std::string fresh = path() + ".new";
  EXPECT_EQ(error_of([&] { cache.map(fresh, taken); }), EEXIST);
  EXPECT_EQ(error_of([&] { cache.map(fresh, manual); }), EINVAL);
  EXPECT_FALSE(std::filesystem::exists(fresh));
}

TEST_F(KernelRegionTest, RefusesNewStoresItCannotMapAndMakesNone) {
  Cache cache(kernel_options(mebibyte));
  RegionOptions options;
  options.access = Access::read_write;
  options.length = 4096;
  EXPECT_EQ(error_of([&] { cache.map("sparse:" + path(), options); }), EINVAL);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(KernelRegionTest, WritingToAReadOnlyRegionIsASegmentationFault) {
  write_file(path(), std::string(4096, 'x'));
  Cache cache(kernel_options(mebibyte));
  const Region region = cache.map(path());
  EXPECT_EQ(signal_raised_by([&] { *const_cast<volatile std::byte*>(region.data()) = std::byte{1}; }), SIGSEGV);
  EXPECT_EQ(read_file(path()), std::string(4096, 'x'));
}

}  // namespace
}  // namespace tiermap
