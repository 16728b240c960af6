// A table of C functions as a store: defaults of what is NULL, checks of what is returned, and the documented examples.
#include "store/callback_store.hpp"

#include <gtest/gtest.h>

#include "store/memory_store.hpp"
#include "store/own_store_example.h"
#include "store/own_store_example.hpp"
#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

tiermap_store_functions least_functions() {
  tiermap_store_functions functions = {};
  functions.struct_bytes = sizeof(functions);
  functions.size = [](void*) { return std::int64_t{4096}; };
  functions.read = [](void*, void* buffer, std::size_t bytes, std::uint64_t) {
    std::memset(buffer, 'r', bytes);
    return static_cast<std::int64_t>(bytes);
  };
  return functions;
}

TEST(CallbackStore, what_is_null_takes_its_default) {
  CallbackStore store(least_functions());
  EXPECT_FALSE(store.writable());
  EXPECT_FALSE(store.growable());
  EXPECT_EQ(store.write("x", 1, 0), -EROFS);
  EXPECT_EQ(store.flush(), 0);
  EXPECT_EQ(store.resize(1), -ENOTSUP);
  EXPECT_EQ(store.name(), "functions");
  EXPECT_FALSE(store.reads_in_signal_handler());
  EXPECT_EQ(store.max_reads_in_flight(), 0U);
  Extent extent;
  EXPECT_FALSE(store.locate_read(0, 4096, extent));
  EXPECT_FALSE(store.locate_write(0, 4096, extent));
  EXPECT_EQ(store.direct_alignment(), 1U);
}

TEST(CallbackStore, members_are_passed_on) {
  tiermap_store_functions functions = least_functions();
  functions.flags = TIERMAP_STORE_GROWABLE | TIERMAP_STORE_READS_IN_SIGNAL_HANDLER;
  functions.name = "mine";
  functions.max_reads_in_flight = 3;
  functions.max_writes_in_flight = 2;
  functions.write = [](void*, const void*, std::size_t bytes, std::uint64_t) {
    return static_cast<std::int64_t>(bytes);
  };
  functions.flush = [](void*) { return -ENOSPC; };
  functions.resize = [](void*, std::uint64_t bytes) { return bytes == 7 ? 0 : -EFBIG; };
  CallbackStore store(functions);
  EXPECT_TRUE(store.growable());
  EXPECT_TRUE(store.reads_in_signal_handler());
  EXPECT_EQ(store.name(), "mine");
  EXPECT_EQ(store.max_reads_in_flight(), 3U);
  EXPECT_EQ(store.max_writes_in_flight(), 2U);
  EXPECT_EQ(store.write("xy", 2, 0), 2);
  EXPECT_EQ(store.flush(), -ENOSPC);
  EXPECT_EQ(store.resize(7), 0);
  EXPECT_EQ(store.resize(8), -EFBIG);
}

TEST(CallbackStore, a_count_beyond_what_was_asked_is_an_error) {
  tiermap_store_functions functions = least_functions();
  functions.read = [](void*, void*, std::size_t bytes, std::uint64_t) { return static_cast<std::int64_t>(bytes) + 1; };
  functions.flush = [](void*) { return 5; };
  functions.size = [](void*) { return std::int64_t{-EIO}; };
  CallbackStore store(functions);
  char byte = 0;
  EXPECT_EQ(store.read(&byte, 1, 0), -EIO);
  EXPECT_EQ(store.flush(), -EIO);
  EXPECT_EQ(store.size_bytes(), 0U);
}

TEST(CallbackStore, destroy_is_called_once_and_not_for_a_table_that_was_refused) {
  int destroyed = 0;
  tiermap_store_functions functions = least_functions();
  functions.context = &destroyed;
  functions.destroy = [](void* context) { ++*static_cast<int*>(context); };
  {
    CallbackStore store(functions);
  }
  EXPECT_EQ(destroyed, 1);
  tiermap_store_functions bad = functions;
  bad.read = nullptr;
  EXPECT_THROW(CallbackStore{bad}, OptionError);
  bad = functions;
  bad.size = nullptr;
  EXPECT_THROW(CallbackStore{bad}, OptionError);
  bad = functions;
  bad.struct_bytes = 8;
  EXPECT_THROW(CallbackStore{bad}, OptionError);
  bad = functions;
  bad.flags = 1U << 30;
  EXPECT_THROW(CallbackStore{bad}, OptionError);
  EXPECT_EQ(destroyed, 1);
}

TEST(OwnStoreExample, the_c_table_is_a_store) {
  tiermap_store_functions functions = {};
  ASSERT_EQ(squares_store(100'000, &functions), 0);
  CallbackStore store(functions);
  EXPECT_EQ(store.size_bytes(), 800'000U);
  std::vector<char> expected(800'000);
  for (std::uint64_t index = 0; index < 100'000; ++index) {
    const std::uint64_t square = index * index;
    std::memcpy(expected.data() + index * 8, &square, 8);
  }
  expect_equal(store, expected);
  std::uint64_t middle = 0;
  EXPECT_EQ(store.read(reinterpret_cast<char*>(&middle) + 3, 5, 80'003), 5);  // Any offset and length.
  std::uint64_t square = 10'000ULL * 10'000ULL;
  EXPECT_EQ(std::memcmp(reinterpret_cast<char*>(&middle) + 3, reinterpret_cast<char*>(&square) + 3, 5), 0);
}

TEST(OwnStoreExample, the_class_is_a_store) {
  auto inner = std::make_shared<MemoryStore>(300'001);
  ScrambledStore store(inner, 0x5b);
  const std::vector<char> zeros(300'001, 0);
  ASSERT_EQ(store.write(zeros.data(), zeros.size(), 0), 300'001);
  char byte = 0;
  ASSERT_EQ(inner->read(&byte, 1, 1000), 1);
  EXPECT_EQ(byte, 0x5b);  // Not as it was written.
  std::vector<char> expected = zeros;
  random_work(store, expected, 0, expected.size(), 200, 8);
  expect_equal(store, expected);
  EXPECT_EQ(store.flush(), 0);
}

/// The part of `text` from the first #include of a system header on.
std::string body_of(const std::string& text) {
  return text.substr(text.find("#include <"));
}

TEST(OwnStoreExample, the_document_shows_what_is_compiled_here) {
  const std::string folder = TIERMAP_SOURCE_FOLDER;
  const std::string document = read_file(folder + "/docs/how-to/own-store.md");
  const std::string example = body_of(read_file(folder + "/tests/store/own_store_example.hpp"));
  const std::string in_c = read_file(folder + "/tests/store/own_store_example.c");
  ASSERT_GT(example.size(), 1000U);
  EXPECT_NE(document.find(example), std::string::npos) << "the C++ example differs";
  const std::string functions = in_c.substr(in_c.find("struct squares {"));
  EXPECT_NE(document.find(functions), std::string::npos) << "the C example differs";
}

}  // namespace
}  // namespace tiermap
