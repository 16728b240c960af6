// What the store of a directory of files promises beyond what programs for UMap can see of it.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>

#include "store/failing_disk.hpp"
#include "store/temporary_directory.hpp"
#include "umap_interface/directory_store.hpp"

namespace tiermap::umap_interface {
namespace {

TEST(DirectoryStoreTest, EveryoneIsToldOfAFailureWhoFlushesMeanwhile) {
  const TemporaryDirectory directory;
  constexpr std::uint64_t file_bytes = 4096;
  const std::shared_ptr<DirectoryStore> store =
      DirectoryStore::open_or_create(directory / "store", 2 * file_bytes, file_bytes, file_bytes);
  const std::string content(2 * file_bytes, 'b');
  ASSERT_EQ(store->write(content.data(), content.size(), 0), static_cast<std::int64_t>(content.size()));
  ASSERT_EQ(store->flush(), 0);
  EXPECT_EQ(flush_twice_on_a_failing_disk(*store), (std::array<int, 2>{-EIO, -EIO}));
  EXPECT_EQ(store->flush(), -EIO);
}

}  // namespace
}  // namespace tiermap::umap_interface
