// A file system that refuses O_DIRECT: the stores over files go through the kernel's page cache, and hold what was
// written to them all the same.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernel_mode/refusals.hpp"
#include "store/file_descriptor.hpp"
#include "store/overlay_store.hpp"
#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t store_bytes = 3'000'001;  // Ends in the middle of a block.

class RefusedDirect : public testing::Test {
 protected:
  /// Runs the work in a thread of its own, for which open() with O_DIRECT fails as on such a file system.
  void without_direct(const std::function<void()>& work) const {
    bool filtered = false;
    write_file(directory_ / "any", "any");
    std::thread([&] {
      constexpr auto flag = static_cast<std::uint32_t>(O_DIRECT);
      filtered = Refusals().refuse_if(SYS_openat, 2, flag, flag, EINVAL).install();
      if (filtered) {
        const FileDescriptor direct(::open((directory_ / "any").c_str(), O_RDONLY | O_DIRECT));
        EXPECT_FALSE(direct.valid()) << "O_DIRECT is not refused: nothing is tested";
        work();
      }
    }).join();
    if (!filtered) {
      GTEST_SKIP() << "no seccomp filters here";
    }
  }

  /// Random work, and that no part of the store is handed out for direct input or output.
  static void work_on(Store& store, std::vector<char>& expected) {
    random_work(store, expected, 0, expected.size(), 600, 1);
    expect_equal(store, expected);
    EXPECT_EQ(store.flush(), 0);
    expect_equal(store, expected);
    int located = 0;
    for (std::uint64_t offset = 0; offset < expected.size(); offset += 65536) {
      for (const bool writing : {false, true}) {
        Extent extent;
        if (writing ? store.locate_write(offset, 4096, extent) : store.locate_read(offset, 4096, extent)) {
          EXPECT_TRUE(extent.hole || (::fcntl(extent.file_descriptor, F_GETFL) & O_DIRECT) == 0) << offset;
          ++located;
        }
      }
    }
    EXPECT_GT(located, 0);
  }

  /// Works on what the URL names, and looks at it once more with O_DIRECT.
  void expect_to_work(const std::string& url, OpenMode mode) const {
    std::vector<char> expected(store_bytes);
    without_direct([&] {
      const auto store = open_store(url, mode, store_bytes);
      work_on(*store, expected);
      // A sparse store goes by 4 KiB whatever the files are opened with.
      EXPECT_EQ(store->direct_alignment(), url.starts_with("sparse") ? 4096U : 1U);
    });
    if (!IsSkipped()) {
      expect_equal(*open_store(url, OpenMode::read_only), expected);
    }
  }

  const TemporaryDirectory directory_;
};

TEST_F(RefusedDirect, file) {
  expect_to_work("file://" + directory_.encoded() + "/file", OpenMode::create);
}

TEST_F(RefusedDirect, sparse) {
  expect_to_work("sparse://" + directory_.encoded() + "/sparse?segment=64KiB", OpenMode::create);
}

TEST_F(RefusedDirect, concat) {
  const std::string cut = directory_.encoded() + "/cut";
  write_file(directory_ / "whole", std::string(1'048'576, '\0'));
  write_file(directory_ / "cut", std::string(8192 + store_bytes - 1'048'576, '\0'));
  expect_to_work("concat://" + directory_.encoded() + "/whole," + cut + "@8192+777777," + cut + "@785969",
                 OpenMode::read_write);
}

TEST_F(RefusedDirect, overlay) {
  without_direct([&] {
    const std::string url = "file://" + directory_.encoded() + "/base";
    const std::vector<char> base(store_bytes, 1);
    ASSERT_EQ(open_store(url, OpenMode::create, store_bytes)->write(base.data(), base.size(), 0),
              static_cast<std::int64_t>(store_bytes));
    std::vector<char> expected = base;
    OverlayStore store(open_store(url, OpenMode::read_only), store_bytes, directory_.path());
    work_on(store, expected);
    EXPECT_EQ(store.direct_alignment(), 1U);
    expect_equal(*open_store(url, OpenMode::read_only), base);
  });
}

}  // namespace
}  // namespace tiermap
