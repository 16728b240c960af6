// Bad input: one line that names the value and the remedy, and nothing mapped, created or changed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

/// What the call throws: its errno, after checking that the message is one line which holds all of `named`.
template <typename Call>
int refusal(Call&& call, std::initializer_list<const char*> named) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_FALSE(message.empty());
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const char* const part : named) {
      EXPECT_NE(message.find(part), std::string::npos) << "\"" << message << "\" does not name " << part;
    }
    return error.code().value();
  }
  ADD_FAILURE() << "nothing was thrown";
  return 0;
}

std::size_t entries(const std::string& directory) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator()));
}

class BadInputTest : public EngineTest {
 protected:
  TemporaryDirectory directory_ = shared_memory_directory();
  Cache cache_{cache_options(1 * mib)};
};
INSTANTIATE_TEST_SUITE_P(Engines, BadInputTest, every_engine, engine_name);

TEST_P(BadInputTest, PageSizes) {
  for (const std::uint64_t size : {0ULL, 1ULL, 2048ULL, 5000ULL, 12'288ULL, 128ULL << 20, ~0ULL}) {
    const int error = refusal([&] { cache_.map(directory_ / "new", read_write(size, 100)); }, {"page size"});
    EXPECT_EQ(error, EINVAL) << size;
  }
  refusal([&] { cache_.map(directory_ / "new", read_write(5000, 100)); }, {"5000", "4KiB", "64MiB"});
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, BudgetsUnderTheLeast) {
  for (const std::uint64_t budget : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{5000}, 8 * kib}) {
    EXPECT_EQ(refusal([&] { const Cache cache(cache_options(budget)); }, {std::to_string(budget).c_str()}), EINVAL)
        << budget;
  }
  const std::uint64_t least = cache_.minimum_budget_bytes();
  EXPECT_EQ(refusal([&] { cache_.set_budget_bytes(least - 1); },
                    {std::to_string(least - 1).c_str(), std::to_string(least).c_str()}),
            EINVAL);
  EXPECT_EQ(cache_.budget_bytes(), 1 * mib);
  cache_.set_budget_bytes(least);
}

TEST_P(BadInputTest, PagesTooLargeForTheBudget) {
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "new", read_write(1 * mib, 100)); }, {"1MiB", "give at least"}),
            EINVAL);
  EXPECT_EQ(entries(directory_.path()), 0U) << "a file was made for a region that cannot be mapped";
}

TEST_P(BadInputTest, UnalignedOffset) {
  RegionOptions options = read_write(page, 100);
  options.offset = 100;
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "new", options); }, {"offset 100", "4096"}), EINVAL);
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, UnalignedAddress) {
  RegionOptions options = read_write(page, 100);
  options.address = reinterpret_cast<void*>(0x10000001000);
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "new", options); }, {"address", "16KiB"}), EINVAL);
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, AddressThatIsTaken) {
  const Region first = cache_.map(known_store(8 * page), read_only(page));
  RegionOptions options = read_write(page, 4 * page);
  options.address = first.data();
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "new", options); }, {"mapped"}), EEXIST);
  EXPECT_EQ(entries(directory_.path()), 0U) << "a file was made for a region that cannot be mapped";
  EXPECT_TRUE(is_known(bytes_of(first), 0));
}

TEST_P(BadInputTest, OffsetPastTheEnd) {
  write_known_file(directory_ / "small", 5000);
  RegionOptions options = read_only(page);
  options.offset = 8192;
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "small", options); }, {"5000", "8192"}), EINVAL);
}

TEST_P(BadInputTest, ReserveUnderTheLength) {
  RegionOptions options = read_write(page, 10 * page);
  options.reserve_bytes = page;
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "new", options); }, {"16KiB", "160KiB"}), EINVAL);
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, LengthsAndOffsetsBeyondAnything) {
  RegionOptions options = read_only(page, ~std::uint64_t{0});
  EXPECT_EQ(refusal([&] { cache_.map(known_store(page), options); }, {"64TiB"}), EINVAL);
  options = read_only(page, page);
  options.offset = ~std::uint64_t{4095};
  EXPECT_EQ(refusal([&] { cache_.map(known_store(page), options); }, {"64TiB"}), EINVAL);
}

TEST_P(BadInputTest, MissingFile) {
  const std::string path = directory_ / "missing";
  EXPECT_EQ(refusal([&] { cache_.map(path, read_only(page)); }, {path.c_str()}), ENOENT);
  EXPECT_EQ(refusal([&] { cache_.map(path, read_write(page)); }, {path.c_str()}), ENOENT);
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, EmptyFile) {
  write_file(directory_ / "empty", "");
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "empty", read_only(page)); }, {"empty", "length"}), EINVAL);
}

TEST_P(BadInputTest, DirectoryAndFifo) {
  EXPECT_EQ(refusal([&] { cache_.map(directory_.path(), read_only(page)); }, {directory_.path().c_str()}), EISDIR);
  const std::string fifo = directory_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  refusal([&] { cache_.map(fifo, read_only(page)); }, {fifo.c_str()});
}

TEST_P(BadInputTest, UnknownScheme) {
  refusal([&] { cache_.map("gopher:///x", read_only(page)); }, {"gopher"});
  refusal([&] { cache_.map("file://" + (directory_ / "new") + "?colour=red", read_write(page, 100)); }, {"colour"});
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, AStoreThatCannotBeWritten) {
  const auto store = std::make_shared<MemoryStore>(8 * page, false);
  EXPECT_EQ(refusal([&] { cache_.map(store, read_write(page)); }, {"memory", "read_only"}), EACCES);
}

TEST_P(BadInputTest, AStoreThatCannotGrow) {
  const auto store = known_store(8 * page);
  EXPECT_EQ(refusal([&] { cache_.map(store, read_write(page, 9 * page)); }, {"cannot grow"}), EINVAL);
}

TEST_P(BadInputTest, NoStoreAtAll) {
  EXPECT_EQ(refusal([&] { cache_.map(std::shared_ptr<Store>(), read_only(page)); }, {"store"}), EINVAL);
}

TEST_P(BadInputTest, UnknownPolicy) {
  CacheOptions options = cache_options(1 * mib);
  options.policy = "belady";
  EXPECT_EQ(refusal([&] { const Cache cache(options); }, {"belady", "segmented-fifo"}), EINVAL);
}

TEST_P(BadInputTest, NumbersOutOfRange) {
  const auto refused = [&](auto member, auto value, const char* named) {
    CacheOptions options = cache_options(1 * mib);
    options.*member = value;
    EXPECT_EQ(refusal([&] { const Cache cache(options); }, {named}), EINVAL);
  };
  refused(&CacheOptions::fillers, 0U, "fillers");
  refused(&CacheOptions::fillers, 257U, "257");
  refused(&CacheOptions::evictors, 0U, "evictors");
  refused(&CacheOptions::managers, 65U, "65");
  refused(&CacheOptions::max_fault_events, 1025U, "1025");
  refused(&CacheOptions::shards, 0U, "shards");
  refused(&CacheOptions::hot_share_percent, 76U, "76");
  refused(&CacheOptions::high_watermark_percent, 0U, "atermark");
  refused(&CacheOptions::low_watermark_percent, 99U, "99");
  refused(&CacheOptions::spin_microseconds, 1001U, "1001");
}

TEST_P(BadInputTest, ARefusedMappingLeavesTheCacheAsItWas) {
  const Region region = cache_.map(known_store(4 * page), read_only(page));
  for (int round = 0; round < 10; ++round) {
    refusal([&] { cache_.map(known_store(4 * page), read_only(1 * mib)); }, {"page"});
  }
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  const Region another = cache_.map(known_store(4 * page), read_only(page));
  EXPECT_TRUE(is_known(bytes_of(another), 0));
}

TEST_P(BadInputTest, AFileThatShrinksWhileItIsMappedRaisesSigbusBehindItsEnd) {
  const std::string path = directory_ / "shrinks";
  write_known_file(path, 16 * page);
  const Region region = cache_.map(path, read_only(page));
  EXPECT_EQ(touch(region.data()), known_byte(0));
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(4 * page + 5)), 0);
  EXPECT_EQ(signal_raised_by([&] { touch(region.data() + 12 * page); }), SIGBUS);
  EXPECT_EQ(touch(region.data() + 2 * page), known_byte(2 * page));
  EXPECT_EQ(touch(region.data() + 4 * page + 4), known_byte(4 * page + 4));
  EXPECT_EQ(touch(region.data() + 4 * page + 5), std::byte{0}) << "what is left of the page with the end";
}

}  // namespace
}  // namespace tiermap
