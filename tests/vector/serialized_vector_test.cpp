// Vectors of elements that are more than their bytes: what was stored is there again, whatever its length and however
// often it was changed; what is not used any more is left behind by a copy; what cannot be is refused.
#include "tiermap/serialized_vector.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "store/refusal.hpp"
#include "store/temporary_directory.hpp"
#include "vector/text_serializer.hpp"

namespace tiermap {
namespace {

using Texts = SerializedVector<std::string, TextSerializer>;

class SerializedVectorTest : public testing::Test {
 protected:
  static SerializedVectorOptions small() { return {.vector = {.budget_bytes = 256 << 10, .page_size_bytes = 4096}}; }
  static void expect_same(const Texts& texts, const std::vector<std::string>& expected) {
    ASSERT_EQ(texts.size(), expected.size());
    for (std::uint64_t index = 0; index < expected.size(); ++index) {
      ASSERT_EQ(texts[index], expected[index]) << index;
    }
  }
  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "texts";
};

TEST_F(SerializedVectorTest, RandomWorkMatchesAnArray) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  SCOPED_TRACE(seed);
  std::vector<std::string> expected;
  const auto any_text = [&] {
    std::string text(random() % 10 == 0 ? random() % 20'000 : random() % 40, 'a');
    for (char& letter : text) {
      letter = static_cast<char>('a' + random() % 26);
    }
    return text;
  };
  Texts::create(path_, small()).close();
  for (int opening = 0; opening < 4; ++opening) {
    Texts texts = Texts::open(path_, small());
    expect_same(texts, expected);
    for (int step = 0; step < 2000; ++step) {
      const std::uint64_t choice = random() % 10;
      if (choice < 6 || expected.empty()) {
        expected.push_back(any_text());
        ASSERT_EQ(texts.append(expected.back()), expected.size() - 1);
      } else if (choice < 9) {
        const std::uint64_t index = random() % expected.size();
        expected[index] = any_text();
        texts.set(index, expected[index]);
        ASSERT_EQ(texts.at(index), expected[index]);
      } else if (step % 50 == 0) {
        expected.resize(random() % (expected.size() + 1));
        texts.truncate(expected.size());
      }
    }
    if (opening % 2 == 0) {
      texts.sync();
    }
    texts.close();
  }
  const Texts texts = Texts::open_read_only(path_, small());
  expect_same(texts, expected);
  std::uint64_t index = 0;
  texts.for_each([&](const std::string& text) { ASSERT_EQ(text, expected[index++]); });
  EXPECT_EQ(index, expected.size());
}

TEST_F(SerializedVectorTest, ACopyHasNothingThatIsNotUsed) {
  Texts texts = Texts::create(path_, small());
  texts.append("short");
  texts.append("");
  texts.append("a text");
  EXPECT_EQ(texts.unused_bytes(), 0U);
  texts.set(0, "no longer short");  // A record of its own.
  EXPECT_EQ(texts.unused_bytes(), 5U);
  texts.set(2, "less");  // In place.
  EXPECT_EQ(texts.unused_bytes(), 7U);
  texts.set(2, "");
  texts.set(1, "now there is something");
  Texts copy = Texts::create(directory_ / "copy", small());
  texts.copy_to(copy);
  expect_same(copy, {"no longer short", "now there is something", ""});
  EXPECT_EQ(copy.unused_bytes(), 0U);
  copy.close();
  EXPECT_EQ(std::filesystem::file_size(directory_ / "copy"), 37U);
  EXPECT_EQ(std::filesystem::file_size(directory_ / "copy.index"), 3U * 16);
}

TEST_F(SerializedVectorTest, ManyThreadsAppend) {
  Texts texts = Texts::temporary(small());
  constexpr int threads = 4;
  constexpr int each = 5000;
  std::vector<std::thread> workers;
  for (int thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] {
      for (int step = 0; step < each; ++step) {
        const std::string text =
            std::to_string(thread) + ":" + std::to_string(step) + std::string(static_cast<std::size_t>(step) % 50, 'x');
        ASSERT_EQ(texts[texts.append(text)], text);
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  std::vector<std::string> all;
  texts.for_each([&](const std::string& text) { all.push_back(text); });
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all.size(), static_cast<std::size_t>(threads * each));
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
  EXPECT_EQ(texts.unused_bytes(), 0U);
}

/// Says all of what the record is, and not only what is to be added.
struct AssigningSerializer : TextSerializer {
  void write(const std::string& text, std::vector<std::byte>& bytes) const {
    bytes.resize(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
  }
};

TEST_F(SerializedVectorTest, ASerializerThatAssignsSpoilsNoOtherRecords) {
  using Assigned = SerializedVector<std::string, AssigningSerializer>;
  Assigned texts = Assigned::create(path_, small());
  const std::vector<std::string> expected = {"longest", "", "short", "longer", "x"};
  auto adding = texts.append();
  for (const std::string& text : expected) {
    adding.push_back(text);
  }
  adding.commit();
  texts.append("alone");
  ASSERT_EQ(texts.size(), expected.size() + 1);
  for (std::uint64_t index = 0; index < expected.size(); ++index) {
    EXPECT_EQ(texts[index], expected[index]) << index;
  }
  EXPECT_EQ(texts[expected.size()], "alone");
  EXPECT_EQ(texts.unused_bytes(), 0U);
}

/// One that counts, and has a state of its own.
struct ListSerializer {
  std::uint32_t scale = 1;
  void write(const std::vector<std::uint32_t>& list, std::vector<std::byte>& bytes) const {
    for (const std::uint32_t number : list) {
      const std::uint32_t scaled = number * scale;
      const auto* const first = reinterpret_cast<const std::byte*>(&scaled);
      bytes.insert(bytes.end(), first, first + sizeof scaled);
    }
  }
  std::vector<std::uint32_t> read(std::span<const std::byte> bytes) const {
    if (bytes.size() % sizeof(std::uint32_t) != 0) {
      throw std::runtime_error("no list");
    }
    std::vector<std::uint32_t> list(bytes.size() / sizeof(std::uint32_t));
    if (!list.empty()) {
      std::memcpy(list.data(), bytes.data(), bytes.size());
    }
    for (std::uint32_t& number : list) {
      number /= scale;
    }
    return list;
  }
};

TEST_F(SerializedVectorTest, SerializersMayHaveAStateAndThrow) {
  using Lists = SerializedVector<std::vector<std::uint32_t>, ListSerializer>;
  Lists::create(path_, small(), {.scale = 3}).close();
  Lists lists = Lists::open(path_, small(), {.scale = 3});
  lists.append({1, 2, 3});
  lists.append({});
  EXPECT_EQ(lists[0], (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_TRUE(lists[1].empty());
  lists.close();
  EXPECT_EQ((Lists::open_read_only(path_, small())[0]), (std::vector<std::uint32_t>{3, 6, 9}));
  Texts::open(path_, small()).append("odd");
  const Lists wrong = Lists::open_read_only(path_, small());
  EXPECT_THROW(wrong[2], std::runtime_error);
}

TEST_F(SerializedVectorTest, WhatCannotBeIsRefused) {
  Texts texts = Texts::create(path_, small());
  texts.append("one");
  EXPECT_NE(refusal_of_call<OptionError>(ERANGE, [&] { texts.at(1); }).find('1'), std::string::npos);
  EXPECT_THROW(texts.set(1, "two"), OptionError);
  texts.bound_memory(128 << 10);
  texts.close();
  // An index that is another's.
  Texts other = Texts::create(directory_ / "other", small());
  for (int step = 0; step < 10; ++step) {
    other.append("a longer text");
  }
  other.close();
  const Texts mixed = Texts::open_read_only(path_, {.index_url = directory_ / "other.index"});
  EXPECT_NE(refusal_of_call<StoreError>(EINVAL, [&] { mixed.at(9); }).find("no record for element 9"),
            std::string::npos);
  // Nothing is made where not both can be.
  write_file(directory_ / "third.index", "");
  EXPECT_THROW(Texts::create(directory_ / "third", small()), StoreError);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "third"));
  EXPECT_NE(refusal_of_call<OptionError>(EINVAL, [&] { Texts::create("memory:1MiB"); }).find("say index_url"),
            std::string::npos);
  EXPECT_EQ(default_index_url("file:/a%2Cb?direct=off"), "file:/a%2Cb.index?direct=off");
  Cache cache;
  Texts shared = Texts::open(path_, {.vector = {.cache = &cache}});
  EXPECT_EQ(shared[0], "one");
  EXPECT_THROW(shared.bound_memory(1 << 20), OptionError);
  shared.destroy();
  EXPECT_FALSE(std::filesystem::exists(path_) || std::filesystem::exists(path_ + ".index"));
}

TEST_F(SerializedVectorTest, OneThatIsOpenForReadingIsNotSet) {
  Texts::create(path_, small()).append("one");
  Texts texts = Texts::open_read_only(path_, small());
  for (const std::string text : {"", "two", "a longer text"}) {
    expect_said(refusal_of_call<OptionError>(EROFS, [&] { texts.set(0, text); }), {"open for reading alone"});
  }
  EXPECT_EQ(texts[0], "one");
}

TEST_F(SerializedVectorTest, BothAreRemovedOrNothingIs) {
  const auto records = [&] { return std::filesystem::exists(path_); };
  const std::string sparse = "sparse:" + directory_.encoded() + "/index?segment=1MiB&capacity=64MiB";
  Texts beside = Texts::create(path_, {.index_url = sparse, .vector = small().vector});
  refusal_of_call<OptionError>(ENOTSUP, [&] { beside.destroy(); });
  EXPECT_TRUE(records());
  beside.close();
  // The records are gone already where the index cannot be removed yet.
  const std::string index = directory_ / "list";
  Texts texts = Texts::create(directory_ / "more", {.index_url = index, .vector = small().vector});
  std::filesystem::rename(index, index + ".away");
  std::filesystem::create_directory(index);
  EXPECT_THROW(texts.destroy(), StoreError);
  std::filesystem::remove(index);
  std::filesystem::rename(index + ".away", index);
  texts.destroy();
  EXPECT_FALSE(std::filesystem::exists(index) || std::filesystem::exists(directory_ / "more"));
}

}  // namespace
}  // namespace tiermap
