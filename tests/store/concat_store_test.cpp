// Many files as one: order, parts, files cut later, overlaps.
#include "store/concat_store.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::string text_of(Store& store) {
  std::string text(store.size_bytes() + 10, '?');
  const std::int64_t got = store.read(text.data(), text.size(), 0);
  EXPECT_GE(got, 0);
  text.resize(static_cast<std::size_t>(std::max<std::int64_t>(got, 0)));
  return text;
}

TEST(ConcatStore, files_follow_one_another_and_empty_ones_do_not_count) {
  const TemporaryDirectory directory;
  write_file(directory / "a", "one");
  write_file(directory / "b", "");
  write_file(directory / "c", "three");
  ConcatStore store({{directory / "a"}, {directory / "b"}, {directory / "c"}, {directory / "c", 1, true, 2}}, false,
                    "n", {});
  EXPECT_EQ(text_of(store), "onethreehr");
  EXPECT_EQ(store.write("x", 1, 0), -EROFS);
  EXPECT_EQ(store.name(), "n");
}

TEST(ConcatStore, a_pattern_takes_files_in_the_order_of_their_names) {
  const TemporaryDirectory directory;
  for (const char* name : {"b.bin", "a.bin", "C.bin", "a10.bin", "a2.bin", "other"}) {
    write_file(directory / name, std::string(name) + ";");
  }
  const auto store = open_store("file://" + directory.encoded() + "/*.bin", OpenMode::read_only);
  EXPECT_EQ(text_of(*store), "C.bin;a.bin;a10.bin;a2.bin;b.bin;");
  const auto list = open_store("concat://" + directory.encoded() + "/other@1+3," + directory.encoded() + "/a*.bin",
                               OpenMode::read_only);
  EXPECT_EQ(text_of(*list), "thea.bin;a10.bin;a2.bin;");
}

TEST(ConcatStore, writes_land_in_the_right_files) {
  const TemporaryDirectory directory;
  write_file(directory / "a", "aaaa");
  write_file(directory / "b", "bbbb");
  ConcatStore store({{directory / "a"}, {directory / "b", 1, true, 2}}, true, "n", {});
  EXPECT_EQ(store.write("123456789", 9, 3), 3);  // As much as fits.
  EXPECT_EQ(store.write("x", 1, 6), -ENOSPC);
  EXPECT_EQ(store.flush(), 0);
  EXPECT_EQ(read_file(directory / "a"), "aaa1");
  EXPECT_EQ(read_file(directory / "b"), "b23b");
}

TEST(ConcatStore, a_file_that_is_cut_later_leaves_its_neighbours_in_place) {
  const TemporaryDirectory directory;
  write_file(directory / "a", std::string(8192, 'a'));
  write_file(directory / "b", std::string(8192, 'b'));
  ConcatStore store({{directory / "a"}, {directory / "b"}}, false, "n", {});
  std::filesystem::resize_file(directory / "a", 5000);
  std::vector<char> expected(16384, 'b');
  std::fill_n(expected.begin(), 5000, 'a');
  std::fill_n(expected.begin() + 5000, 3192, 0);
  expect_equal(store, expected);
  EXPECT_EQ(text_of(store), std::string(expected.begin(), expected.end()));
}

// Wherever in its file a part begins: pages that are read in place are SIGBUS then.
TEST(ConcatStore, pages_of_which_a_cut_file_has_nothing_cannot_be_read) {
  const TemporaryDirectory directory;
  write_file(directory / "a", std::string(100 + 3 * 4096, 'a'));
  write_file(directory / "b", std::string(4096, 'b'));
  ConcatStore store({{directory / "a", 100, false, 0}, {directory / "b"}}, false, "n", {});
  std::filesystem::resize_file(directory / "a", 100 + 5000);
  std::string page(4096, '?');
  ASSERT_EQ(store.read(page.data(), page.size(), 4096), 4096);
  EXPECT_EQ(page, std::string(904, 'a') + std::string(3192, '\0'));
  EXPECT_EQ(store.read(page.data(), page.size(), 8192), -EIO);
  ASSERT_EQ(store.read(page.data(), page.size(), 12288), 4096);
  EXPECT_EQ(page, std::string(4096, 'b'));
  // Larger pages begin with what there is.
  std::string pages(8192, '?');
  ASSERT_EQ(store.read(pages.data(), pages.size(), 4096), 8192);
  EXPECT_EQ(pages, std::string(904, 'a') + std::string(7288, '\0'));
}

TEST(ConcatStore, aligned_pieces_have_extents_and_others_do_not) {
  const TemporaryDirectory directory;
  write_file(directory / "a", std::string(16384, 'a'));
  write_file(directory / "b", std::string(16384, 'b'));
  ConcatStore store({{directory / "a"}, {directory / "b", 100, false, 0}}, false, "n", {});
  Extent extent;
  ASSERT_TRUE(store.locate_read(8192, 16384, extent));
  EXPECT_EQ(extent.offset, 8192U);
  EXPECT_EQ(extent.bytes, 8192U);
  EXPECT_EQ(store.locate_read(16384, 4096, extent), store.direct_alignment() == 1);
}

TEST(ConcatStore, parts_that_cannot_be_are_refused) {
  const TemporaryDirectory directory;
  write_file(directory / "a", "0123456789");
  const std::string a = directory / "a";
  EXPECT_THROW(ConcatStore({{a, 11, false, 0}}, false, "n", {}), StoreError);
  EXPECT_THROW(ConcatStore({{a, 5, true, 6}}, false, "n", {}), StoreError);
  EXPECT_THROW(ConcatStore({{a, 10, false, 0}}, false, "n", {}), StoreError);  // All empty.
  EXPECT_THROW(ConcatStore({{directory / "missing"}}, false, "n", {}), StoreError);
  EXPECT_NO_THROW(ConcatStore({{a, 0, true, 6}, {a, 5, true, 5}}, false, "n", {}));
  EXPECT_THROW(ConcatStore({{a, 5, true, 5}, {a, 0, true, 6}}, true, "n", {}), StoreError);
  EXPECT_NO_THROW(ConcatStore({{a, 5, true, 5}, {a, 0, true, 5}}, true, "n", {}));
}

}  // namespace
}  // namespace tiermap
