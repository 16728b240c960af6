// The table of names by itself: types that another compiler made, room, and what was saved and damaged.
#include "heap/object_names.hpp"

#include <gtest/gtest.h>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t capacity = 1 << 20;

void add(ObjectNames& names, const std::string& name, const HeapType& type) {
  names.begin(HeapObjectKey(name), type, 2, false, [] { return std::uint64_t{65536}; });
  names.end(HeapObjectKey(name), type, true);
}

TEST(ObjectNames, another_compiler_may_call_a_type_otherwise) {
  ObjectNames names("here", 1000, capacity);
  add(names, "it", {"3Old", 8, 8, "gcc 3"});
  EXPECT_EQ(names.find(HeapObjectKey("it"), {"3New", 8, 8, "clang 90"}).offset, 65536U);
  names.find(HeapObjectKey("it"), {"3New", 8, 8, "clang 90"});
  ASSERT_EQ(names.warnings().size(), 1U);
  EXPECT_NE(names.warnings()[0].find("was made by gcc 3 as Old, and clang 90 calls it New"), std::string::npos);
  EXPECT_THROW(names.find(HeapObjectKey("it"), {"3New", 8, 8, "gcc 3"}), OptionError);
  EXPECT_THROW(names.find(HeapObjectKey("it"), {"3New", 16, 8, "clang 90"}), OptionError);
  EXPECT_THROW(names.find(HeapObjectKey("it"), {"3New", 8, 4, "clang 90"}), OptionError);
}

TEST(ObjectNames, one_that_is_being_made_is_not_there_yet) {
  ObjectNames names("here", 1000, capacity);
  const HeapType type{"i", 4, 4, "gcc"};
  names.begin(HeapObjectKey("it"), type, 1, true, [] { return std::uint64_t{65536}; });
  EXPECT_EQ(names.find(HeapObjectKey("it"), type).count, 0U);
  EXPECT_EQ(names.take(HeapObjectKey("it"), type).count, 0U);
  EXPECT_TRUE(names.save().empty());
  EXPECT_THROW(names.begin(HeapObjectKey("it"), type, 1, true, [] { return std::uint64_t{0}; }), OptionError);
  names.end(HeapObjectKey("it"), type, false);
  EXPECT_TRUE(names.list().empty());
}

TEST(ObjectNames, have_room_for_so_much) {
  ObjectNames names("here", 200, capacity);
  const HeapType type{"i", 4, 4, "gcc"};
  add(names, "first", type);
  names.describe(HeapObjectKey("first"), type, std::string(100, 'x'));
  try {
    names.describe(HeapObjectKey("first"), type, std::string(200, 'x'));
    ADD_FAILURE() << "200 bytes more than there are";
  } catch (const HeapFullError& error) {
    EXPECT_NE(std::string(error.what()).find("200 more find no room"), std::string::npos) << error.what();
  }
  EXPECT_THROW(add(names, "second", type), HeapFullError);
  EXPECT_EQ(names.list().size(), 1U);
  EXPECT_LE(names.save().size(), 200U);
  names.take(HeapObjectKey("first"), type);
  EXPECT_NO_THROW(add(names, "second", type));
}

TEST(ObjectNames, damage_never_crashes) {
  ObjectNames names("here", 1000, capacity);
  add(names, "first", {"i", 4, 4, "gcc"});
  add(names, "second", {"d", 8, 8, "gcc"});
  const std::vector<std::byte> saved = names.save();
  {
    ObjectNames again("here", 1000, capacity);
    again.load(saved);
    EXPECT_EQ(again.save(), saved);
  }
  for (std::size_t at = 0; at < saved.size(); ++at) {
    for (const std::uint8_t value : std::array<std::uint8_t, 4>{0x00, 0x01, 0x80, 0xff}) {
      std::vector<std::byte> changed = saved;
      changed[at] = std::byte{value};
      ObjectNames found("here", 1000, capacity);
      try {
        found.load(changed);
      } catch (const StoreError& error) {
        EXPECT_NE(std::string(error.what()).find("is damaged"), std::string::npos);
      }
    }
    ObjectNames cut("here", 1000, capacity);
    if (at != 0 && at != saved.size() / 2) {
      try {
        cut.load(std::span(saved).first(at));
      } catch (const StoreError&) {
      }
    }
  }
}

}  // namespace
}  // namespace tiermap
