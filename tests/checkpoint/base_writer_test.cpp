// Writes in flight side by side, and the parts of a store that are holes.
#include "heap/base_writer.hpp"

#include <fcntl.h>

#include "checkpoint/model.hpp"
#include "heap/data_ranges.hpp"
#include "store/file_store.hpp"
#include "store/sparse_store.hpp"
#include "store/temporary_directory.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t store_bytes = 3'000'001;

class BaseWriterTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Store> make() {
    if (!GetParam()) {
      return FileStore::open(directory_ / "base", OpenMode::create, store_bytes, FileOptions());
    }
    SparseOptions options;
    options.segment_bytes = 256 << 10;
    return SparseStore::open(directory_ / "base", OpenMode::create, store_bytes, options);
  }
  const TemporaryDirectory directory_;
};

TEST_P(BaseWriterTest, writes_what_it_is_given) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::unique_ptr<Store> store = make();
  std::vector<char> expected(store_bytes, 0);
  const AlignedBuffer buffer = aligned_buffer(store_bytes + 4096);
  BaseWriter writer(*store);
  for (int round = 0; round < 6; ++round) {
    for (std::uint64_t at = random() % 3 * 4096; at < store_bytes;) {
      const std::uint64_t most = random() % 20 == 0 ? 400 : 4;
      const std::uint64_t bytes = std::min((1 + random() % most) * 4096, store_bytes - at);
      const std::uint64_t value = random();
      for (std::uint64_t index = 0; index < bytes; ++index) {
        expected[at + index] = buffer.get()[at + index] = static_cast<char>(value >> index % 50);
      }
      writer.write(reinterpret_cast<const std::byte*>(buffer.get()) + at, bytes, at);
      at += bytes + random() % 10 * 4096;
    }
    ASSERT_EQ(writer.finish(), 0);
    ASSERT_EQ(content_of(*store), expected) << "round " << round;
  }
}

TEST_P(BaseWriterTest, tells_data_from_holes) {
  const std::unique_ptr<Store> store = make();
  const AlignedBuffer buffer = aligned_buffer(64 << 10);
  std::memset(buffer.get(), 1, 64 << 10);
  const auto range = [&](std::uint64_t begin, std::uint64_t end) {
    const DataRange found = first_data(*store, begin, end);
    return std::pair(found.begin, found.end);
  };
  constexpr std::uint64_t first = 512 << 10;
  constexpr std::uint64_t second = 1792 << 10;
  const auto nothing = std::pair<std::uint64_t, std::uint64_t>(2 << 20, 2 << 20);
  EXPECT_EQ(range(0, 2 << 20), nothing);
  ASSERT_EQ(engine_write(*store, buffer.get(), 64 << 10, first), 0);
  ASSERT_EQ(engine_write(*store, buffer.get(), 64 << 10, second), 0);
  EXPECT_EQ(range(0, 2 << 20), std::pair(first, first + (64 << 10)));
  EXPECT_EQ(range(first + 8192, 2 << 20), std::pair(first + 8192, first + (64 << 10)));
  EXPECT_EQ(range(first + 8192, first + 12288), std::pair(first + 8192, first + 12288));
  EXPECT_EQ(range(first + (64 << 10), 2 << 20), std::pair(second, second + (64 << 10)));
  ASSERT_EQ(store->punch(first, 64 << 10), 0);
  EXPECT_EQ(range(0, 2 << 20), std::pair(second, second + (64 << 10)));
  EXPECT_EQ(range(second + (64 << 10), 2 << 20), nothing);
}

INSTANTIATE_TEST_SUITE_P(Bases, BaseWriterTest, testing::Bool(), [](const testing::TestParamInfo<bool>& information) {
  return std::string(information.param ? "sparse" : "file");
});

/// Says that its bytes are in a file which takes none, and counts what it is asked itself.
class Misplaced final : public Store {
 public:
  std::uint64_t size_bytes() const override { return 1 << 20; }
  bool writable() const override { return true; }
  std::int64_t read(void*, std::size_t, std::uint64_t) override { return -EIO; }
  std::int64_t write(const void*, std::size_t bytes, std::uint64_t) override {
    ++writes;
    return writes > taken ? -ENOSPC : static_cast<std::int64_t>(bytes);
  }
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override {
    extent = {file.get(), offset, bytes, false};
    return true;
  }
  FileDescriptor file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  int writes = 0;
  int taken = 0;
};

TEST(BaseWriterErrors, what_fails_in_flight_is_asked_of_the_store) {
  const AlignedBuffer buffer = aligned_buffer(4096);
  for (const int taken : {0, 3, 8}) {
    Misplaced store;
    store.taken = taken;
    BaseWriter writer(store);
    for (std::uint64_t block = 0; block < 8; ++block) {
      writer.write(reinterpret_cast<const std::byte*>(buffer.get()), 4096, block * 8192);
    }
    EXPECT_EQ(writer.finish(), taken == 8 ? 0 : -ENOSPC);
    EXPECT_EQ(store.writes, taken == 8 ? 8 : taken + 1);
    EXPECT_EQ(writer.finish(), taken == 8 ? 0 : -ENOSPC) << "after a failure nothing more is begun";
  }
}

}  // namespace
}  // namespace tiermap
