// Of several flushes at once the kernel tells one of a failure: none of them may say that all is well, nor may a later
// one.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>

#include "store/failing_disk.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

class FlushError : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<Store> make_store() {
    const std::string kind = GetParam();
    write_file(directory_ / "first", std::string(8192, 'a'));
    write_file(directory_ / "second", std::string(8192, 'a'));
    if (kind == "sparse") {
      return open_store("sparse://" + directory_.encoded() + "/sparse", OpenMode::create, 16384);
    }
    const std::string first = directory_.encoded() + "/first";
    return open_store(kind == "file" ? "file://" + first : "concat://" + first + "," + directory_.encoded() + "/second",
                      OpenMode::read_write);
  }

  TemporaryDirectory directory_;
};

TEST_P(FlushError, EveryoneIsToldWhoFlushesMeanwhile) {
  const std::shared_ptr<Store> store = make_store();
  const std::string content(4096, 'b');
  ASSERT_EQ(store->write(content.data(), content.size(), 0), 4096);
  ASSERT_EQ(store->write(content.data(), content.size(), 4096), 4096);
  ASSERT_EQ(store->flush(), 0);
  const std::array<int, 2> results = flush_twice_on_a_failing_disk(*store);
  EXPECT_EQ(results, (std::array<int, 2>{-EIO, -EIO}));
  EXPECT_EQ(store->flush(), -EIO);
}

INSTANTIATE_TEST_SUITE_P(Stores, FlushError, testing::Values("file", "sparse", "concat"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace tiermap
