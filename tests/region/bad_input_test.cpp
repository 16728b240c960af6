// Bad input: one line that names the value and the remedy, and nothing mapped, created or changed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "config/size.hpp"
#include "platform/address_range.hpp"
#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

/// What the call throws: its errno, after checking that the message is one line which names the value, and after it
/// what to do about it.
template <typename Call>
int refusal(Call&& call, const std::string& value, const std::string& remedy) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    const std::size_t named = message.find(value);
    EXPECT_NE(named, std::string::npos) << "\"" << message << "\" does not name " << value;
    if (named != std::string::npos) {
      EXPECT_NE(message.find(remedy, named + value.size()), std::string::npos)
          << "\"" << message << "\" does not go on to say " << remedy;
    }
    return error.code().value();
  }
  ADD_FAILURE() << "nothing was thrown where " << value << " was to be refused";
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
    const int error = refusal([&] { cache_.map(directory_ / "new", read_write(size, 100)); },
                              "page size " + format_size(size), "choose 4KiB to 64MiB, a power of two");
    EXPECT_EQ(error, EINVAL) << size;
  }
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, BudgetsUnderTheLeast) {
  for (const std::uint64_t budget : {0U, 1U, 4095U, 8192U, 16'384U}) {
    EXPECT_EQ(refusal([&] { const Cache cache(cache_options(budget)); }, "buffer size " + format_size(budget),
                      "choose 20KiB to 128TiB"),
              EINVAL);
  }
  const std::uint64_t least = cache_.minimum_budget_bytes();
  if (least > 20 * kib) {  // Where all pages are copied, or the kernel's.
    EXPECT_EQ(refusal([&] { const Cache cache(cache_options(20 * kib)); }, "20480", "give at least "), EINVAL);
  } else {
    const Cache smallest(cache_options(20 * kib));
  }
  EXPECT_EQ(refusal([&] { cache_.set_budget_bytes(least - 1); }, std::to_string(least - 1),
                    "give at least " + std::to_string(least)),
            EINVAL);
  EXPECT_EQ(cache_.budget_bytes(), 1 * mib);
  cache_.set_budget_bytes(least);
}

TEST_P(BadInputTest, PagesTooLargeForTheBudget) {
  EXPECT_EQ(
      refusal([&] { cache_.map(directory_ / "new", read_write(1 * mib, 100)); }, "pages of 1MiB", "give at least "),
      EINVAL);
  EXPECT_EQ(entries(directory_.path()), 0U) << "a file was made for a region that cannot be mapped";
}

TEST_P(BadInputTest, UnalignedOffset) {
  RegionOptions options = read_write(page, 100);
  options.offset = 100;
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "new", options); }, "offset 100", "4096: round it down"), EINVAL);
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, UnalignedAddress) {
  RegionOptions options = read_write(page, 100);
  options.address = reinterpret_cast<void*>(0x10000001000);
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "new", options); }, "address 0x10000001000",
                    "16KiB: align it to the page size"),
            EINVAL);
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, AddressThatIsTaken) {
  const Region first = cache_.map(known_store(8 * page), read_only(page));
  RegionOptions options = read_write(page, 4 * page);
  options.address = first.data();
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "new", options); }, "65536 bytes at " + hexadecimal(first.data()),
                    "something is mapped there already, choose another address"),
            EEXIST);
  EXPECT_EQ(entries(directory_.path()), 0U) << "a file was made for a region that cannot be mapped";
  EXPECT_TRUE(is_known(bytes_of(first), 0));
}

TEST_P(BadInputTest, OffsetPastTheEnd) {
  write_known_file(directory_ / "small", 5000);
  RegionOptions options = read_only(page);
  options.offset = 8192;
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "small", options); }, "5000 bytes, none at offset 8192",
                    "a smaller offset"),
            EINVAL);
}

TEST_P(BadInputTest, ReserveUnderTheLength) {
  RegionOptions options = read_write(page, 10 * page);
  options.reserve_bytes = page;
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "new", options); }, "reserve of 16KiB", "160KiB: make it larger"),
            EINVAL);
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, LengthsAndOffsetsBeyondAnything) {
  const auto refused = [&](auto member, std::uint64_t value, const char* name) {
    RegionOptions options = read_only(page, page);
    options.*member = value;
    EXPECT_EQ(refusal([&] { cache_.map(known_store(page), options); }, std::string(name) + " of " + format_size(value),
                      "64TiB: map a part"),
              EINVAL);
  };
  refused(&RegionOptions::length, ~std::uint64_t{0}, "length");
  refused(&RegionOptions::length, (std::uint64_t{64} << 40) + 1, "length");
  refused(&RegionOptions::reserve_bytes, std::uint64_t{65} << 40, "reserve");
  refused(&RegionOptions::offset, ~std::uint64_t{4095}, "offset");
}

TEST_P(BadInputTest, ValuesThatHaveNoName) {
  const auto refused = [&](auto member, auto value, const char* named) {
    RegionOptions options = read_write(page, 100);
    options.*member = value;
    EXPECT_EQ(refusal([&] { cache_.map(directory_ / "new", options); }, named, "set it to one of its enumerators"),
              EINVAL);
  };
  refused(&RegionOptions::access, static_cast<Access>(2), "access 2");
  refused(&RegionOptions::sharing, static_cast<Sharing>(77), "sharing 77");
  refused(&RegionOptions::advice, static_cast<Advice>(255), "advice 255");
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, MissingFile) {
  const std::string path = directory_ / "missing";
  EXPECT_EQ(refusal([&] { cache_.map(path, read_only(page)); }, path, "check the path, and that its folder is there"),
            ENOENT);
  EXPECT_EQ(refusal([&] { cache_.map(path, read_write(page)); }, path, "check the path, and that its folder is there"),
            ENOENT);
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, EmptyFile) {
  write_file(directory_ / "empty", "");
  EXPECT_EQ(refusal([&] { cache_.map(directory_ / "empty", read_only(page)); }, directory_ / "empty has 0 bytes",
                    "give a length"),
            EINVAL);
}

TEST_P(BadInputTest, DirectoryAndFifo) {
  EXPECT_EQ(refusal([&] { cache_.map(directory_.path(), read_only(page)); }, directory_.path(), "name a file"), EISDIR);
  const std::string fifo = directory_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(refusal([&] { cache_.map(fifo, read_only(page)); }, fifo, "name a regular file"), EINVAL);
}

TEST_P(BadInputTest, UnknownScheme) {
  refusal([&] { cache_.map("gopher:///x", read_only(page)); }, "gopher:///x", "choose among concat, csv, file");
  refusal([&] { cache_.map("file://" + (directory_ / "new") + "?colour=red", read_write(page, 100)); },
          "'colour' is unknown", "choose among direct");
  EXPECT_EQ(entries(directory_.path()), 0U);
}

TEST_P(BadInputTest, AStoreThatCannotBeWritten) {
  const auto store = std::make_shared<MemoryStore>(8 * page, false);
  EXPECT_EQ(refusal([&] { cache_.map(store, read_write(page)); }, "memory", "map it read_only"), EACCES);
}

TEST_P(BadInputTest, AStoreThatCannotGrow) {
  const auto store = known_store(8 * page);
  EXPECT_EQ(refusal([&] { cache_.map(store, read_write(page, 9 * page)); }, "131072 bytes and cannot grow to 147456",
                    "map less"),
            EINVAL);
}

TEST_P(BadInputTest, NoStoreAtAll) {
  EXPECT_EQ(
      refusal([&] { cache_.map(std::shared_ptr<Store>(), read_only(page)); }, "store is a null pointer", "give one"),
      EINVAL);
}

TEST_P(BadInputTest, UnknownPolicy) {
  CacheOptions options = cache_options(1 * mib);
  options.policy = "belady";
  EXPECT_EQ(
      refusal([&] { const Cache cache(options); }, "policy 'belady'", "choose fifo, lru, hot-fifo, segmented-fifo"),
      EINVAL);
}

TEST_P(BadInputTest, NumbersOutOfRange) {
  const auto refused = [&](auto member, std::uint32_t value, const std::string& name, const std::string& remedy) {
    CacheOptions options = cache_options(1 * mib);
    options.*member = value;
    EXPECT_EQ(refusal([&] { const Cache cache(options); }, name + " " + std::to_string(value), remedy), EINVAL);
  };
  for (const std::uint32_t none_or_too_many : {0U, 257U}) {
    refused(&CacheOptions::fillers, none_or_too_many, "fillers", "choose 1 to 256");
    refused(&CacheOptions::evictors, none_or_too_many, "evictors", "choose 1 to 256");
    refused(&CacheOptions::managers, none_or_too_many, "managers", "choose 1 to 64");
    refused(&CacheOptions::shards, none_or_too_many, "shards", "choose 1 to 64");
  }
  refused(&CacheOptions::max_fault_events, 0, "max fault events", "choose 1 to 1024");
  refused(&CacheOptions::max_fault_events, 1025, "max fault events", "choose 1 to 1024");
  refused(&CacheOptions::hot_share_percent, 76, "hot share", "choose 0 to 75");
  refused(&CacheOptions::unmapped_share_percent, 76, "unmapped share", "choose 0 to 75");
  refused(&CacheOptions::high_watermark_percent, 0, "high watermark", "choose 1 to 100");
  refused(&CacheOptions::high_watermark_percent, 101, "high watermark", "choose 1 to 100");
  refused(&CacheOptions::low_watermark_percent, 101, "low watermark", "choose 0 to 100");
  refused(&CacheOptions::low_watermark_percent, 99, "low watermark", "high watermark 95 (default): choose at most 95");
  refused(&CacheOptions::spin_microseconds, 1001, "spin", "choose 0 to 1000");
  refused(&CacheOptions::adapt_history_periods, 0, "adapt history", "choose 1 to 100");
  refused(&CacheOptions::adapt_forecast_periods, 101, "adapt forecast", "choose 1 to 100");
  refused(&CacheOptions::adapt_period_milliseconds, 9, "adapt period", "choose 10 to 60000");
}

TEST_P(BadInputTest, ARefusedMappingLeavesTheCacheAsItWas) {
  const Region region = cache_.map(known_store(4 * page), read_only(page));
  for (int round = 0; round < 10; ++round) {
    refusal([&] { cache_.map(known_store(4 * page), read_only(1 * mib)); }, "pages of 1MiB",
            "choose a smaller page size");
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

// The last page asks for more than the file ever had.
TEST_P(BadInputTest, SoDoesThePageWithTheEndThatTheFileHad) {
  const std::string path = directory_ / "shrinks";
  for (const std::uint64_t bytes : {16 * page - 1, 15 * page + 1, 15 * page + 5000}) {
    write_known_file(path, bytes);
    const Region region = cache_.map(path, read_only(page));
    ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(page)), 0);
    EXPECT_EQ(signal_raised_by([&] { touch(region.data() + bytes - 1); }), SIGBUS) << bytes;
    EXPECT_EQ(touch(region.data()), known_byte(0));
  }
}

}  // namespace
}  // namespace tiermap
