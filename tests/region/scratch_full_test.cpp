// A private copy whose scratch file finds no room: SIGBUS or an error says so, and no change is lost.
#include <sys/mount.h>

#include <cerrno>
#include <cstdlib>
#include <optional>

#include "region/engine_fixture.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;
constexpr std::uint64_t block = 4 * kib;
constexpr std::uint64_t store_bytes = 6 * mib;
constexpr std::uint64_t room_bytes = 1 * mib;  ///< For the scratch file, at most.

/// Each test with its scratch files on a disk of 8 MiB, of which 7 are taken by something else.
class ScratchFull : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped()) {
      return;
    }
    mounted_ = ::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, "size=8m") == 0;
    if (!mounted_) {
      GTEST_SKIP() << "mounting a small tmpfs is not permitted: " << std::strerror(errno);
    }
    write_file(directory_ / "other", std::string(8 * mib - room_bytes, 'o'));
    if (const char* value = std::getenv("TMPDIR")) {
      before_ = value;
    }
    ::setenv("TMPDIR", directory_.path().c_str(), 1);
  }
  void TearDown() override {
    if (mounted_) {
      before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR");
      EXPECT_EQ(::umount(directory_.path().c_str()), 0);
    }
  }

  void make_room() const { std::filesystem::remove(directory_ / "other"); }

  Region map(Cache& cache) const {
    RegionOptions options = read_write(page);
    options.sharing = Sharing::private_copy;
    return cache.map(store_, options);
  }

  /// Changes a byte of each block from the start of the region to `end`, or until that raises a signal, which it
  /// returns; `done` is how far it came.
  static int change(const Region& region, std::uint64_t end, std::uint64_t& done) {
    int number = 0;
    for (done = 0; done < end && number == 0; done += number == 0 ? block : 0) {
      number = signal_raised_by([&] { poke(region.data() + done + 3, std::byte{0}); });
    }
    return number;
  }
  /// The changes up to there, and nothing else.
  static void expect_changed(const Region& region, std::uint64_t end) {
    for (std::uint64_t offset = 0; offset < region.size(); offset += block) {
      ASSERT_EQ(touch(region.data() + offset + 3), offset < end ? std::byte{0} : known_byte(offset + 3)) << offset;
      ASSERT_EQ(touch(region.data() + offset + 4), known_byte(offset + 4)) << offset;
    }
  }
  static int error_of_sync(Region& region) {
    try {
      region.sync();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("free the cause"), std::string::npos) << error.what();
      return error.code().value();
    }
    return 0;
  }

  const TemporaryDirectory directory_;
  const std::shared_ptr<MemoryStore> store_ = known_store(store_bytes);
  bool mounted_ = false;
  std::optional<std::string> before_;
};
INSTANTIATE_TEST_SUITE_P(Engines, ScratchFull, every_engine, engine_name);

TEST_P(ScratchFull, SyncSaysSoAndWhatWasChangedStaysInMemory) {
  Cache cache(cache_options(8 * mib));
  Region region = map(cache);
  std::uint64_t done = 0;
  ASSERT_EQ(change(region, 3 * mib, done), 0);
  EXPECT_EQ(error_of_sync(region), ENOSPC);
  EXPECT_EQ(error_of_sync(region), ENOSPC);
  expect_changed(region, done);
  make_room();
  EXPECT_EQ(error_of_sync(region), 0);
  EXPECT_EQ(region.statistics().dirty_bytes, 0U);
  region.advise(Advice::dont_need);
  expect_changed(region, done);
  region.unmap();
  EXPECT_TRUE(is_known(read_store(*store_, 0, store_bytes), 0));
}

TEST_P(ScratchFull, MemoryThatIsFullTooIsSigbus) {
  Cache cache(cache_options(1 * mib));
  Region region = map(cache);
  std::uint64_t done = 0;
  EXPECT_EQ(change(region, store_bytes, done), SIGBUS);
  EXPECT_GT(done, 1 * mib) << "nothing has gone to the scratch file";
  EXPECT_EQ(error_of_sync(region), ENOSPC);
  make_room();
  EXPECT_EQ(error_of_sync(region), 0);
  EXPECT_TRUE(comes_to_be([&] { return signal_raised_by([&] { touch(region.data() + done); }) == 0; }))
      << "there is room again, and still the access fails";
  expect_changed(region, done);
  region.unmap();
  EXPECT_TRUE(is_known(read_store(*store_, 0, store_bytes), 0));
}

// What is dropped with the region wants no room first.
TEST_P(ScratchFull, UnmapNeedsNoRoom) {
  Cache cache(cache_options(8 * mib));
  Region region = map(cache);
  std::uint64_t done = 0;
  ASSERT_EQ(change(region, 3 * mib, done), 0);
  region.unmap();
  EXPECT_EQ(cache.statistics()[Counter::write_backs], 0U);
  EXPECT_EQ(cache.statistics().dirty_bytes, 0U);
  region = map(cache);
  expect_changed(region, 0);
}

}  // namespace
}  // namespace tiermap
