// A disk that fills up is an error that says so, and what was there before stays as it was.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cstring>
#include <filesystem>

#include "store/file_store.hpp"
#include "store/memory_store.hpp"
#include "store/overlay_store.hpp"
#include "store/reference_check.hpp"
#include "store/sparse_store.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t wanted = 4 << 20;

/// Each test on a tmpfs of 1 MiB.
class DiskFull : public testing::Test {
 protected:
  void SetUp() override {
    mounted_ = ::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, "size=1m") == 0;
    if (!mounted_) {
      GTEST_SKIP() << "mounting a small tmpfs is not permitted: " << std::strerror(errno);
    }
  }
  void TearDown() override {
    if (mounted_) {
      EXPECT_EQ(::umount(directory_.path().c_str()), 0);
    }
  }

  /// Writes until the disk is full; what was taken is read back, and the next write names the reason.
  void fill(Store& store) {
    const AlignedBuffer data = aligned_buffer(wanted);
    std::memset(data.get(), 9, wanted);
    std::int64_t done = 0;
    std::int64_t put = 1;
    while (put > 0) {
      put = store.write(data.get(), 65536, static_cast<std::uint64_t>(done));
      done += std::max<std::int64_t>(put, 0);
      ASSERT_LT(done, static_cast<std::int64_t>(wanted));
    }
    EXPECT_EQ(put, -ENOSPC);
    EXPECT_GT(done, 500'000);
    std::vector<char> back(static_cast<std::size_t>(done));
    EXPECT_EQ(store.read(back.data(), back.size(), 0), done);
    EXPECT_EQ(back, std::vector<char>(back.size(), 9));
  }

  const TemporaryDirectory directory_;
  bool mounted_ = false;
};

TEST_F(DiskFull, file) {
  fill(*FileStore::open(directory_ / "file", OpenMode::create, wanted, FileOptions()));
}

TEST_F(DiskFull, sparse) {
  SparseOptions options;
  options.segment_bytes = 128 << 10;
  const auto store = SparseStore::open(directory_ / "sparse", OpenMode::create, wanted, options);
  fill(*store);
}

TEST_F(DiskFull, private_changes_leave_the_base_in_sight) {
  const auto base = std::make_shared<MemoryStore>(wanted);
  const std::vector<char> ones(wanted, 1);
  ASSERT_EQ(base->write(ones.data(), wanted, 0), static_cast<std::int64_t>(wanted));
  OverlayStore store(base, wanted, directory_.path());
  fill(store);
  char last = 0;
  EXPECT_EQ(store.write("xy", 2, wanted - 2), -ENOSPC);
  EXPECT_EQ(store.read(&last, 1, wanted - 1), 1);
  EXPECT_EQ(last, 1);  // A block that did not fit is still the base's.
}

TEST_F(DiskFull, a_sparse_store_that_cannot_be_created_leaves_nothing) {
  {
    const auto file = FileStore::open(directory_ / "file", OpenMode::create, wanted, FileOptions());
    const std::vector<char> data(wanted, 9);
    EXPECT_LT(file->write(data.data(), data.size(), 0), static_cast<std::int64_t>(wanted));
  }
  try {
    SparseStore::open(directory_ / "sparse", OpenMode::create, wanted, SparseOptions());
    FAIL() << "created on a full disk";
  } catch (const StoreError& error) {
    EXPECT_EQ(error.code().value(), ENOSPC) << error.what();
    EXPECT_NE(std::string(error.what()).find("free some space"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(std::filesystem::exists(directory_ / "sparse"));
}

}  // namespace
}  // namespace tiermap
