// Columns of text as an array of numbers: whatever is between the fields and at the ends of lines, wherever a read
// begins; and what is wrong in a file is named with its line and column.
#include <gtest/gtest.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "store/csv/row_index.hpp"
#include "store/opening_refusal.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/store.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

class CsvTest : public testing::Test {
 protected:
  void write(const std::string& text) const { write_file(path_, text); }
  std::string url(const std::string& options = "") const {
    return "csv:" + directory_.encoded() + "/data.csv" + options;
  }
  std::unique_ptr<Store> open(const std::string& options = "") const {
    return open_store(url(options), OpenMode::read_only);
  }
  template <typename Number = double>
  std::vector<Number> numbers(const std::string& options = "") const {
    const auto vector = Vector<Number>::open_read_only(url(options));
    return {vector.begin(), vector.end()};
  }
  std::string refusal(const std::string& options, int error_number, OpenMode mode = OpenMode::read_only) const {
    return refusal_of_opening(url(options), error_number, mode);
  }
  void expect_refused(const std::string& text, const std::string& options, std::initializer_list<const char*> parts,
                      int error_number = EINVAL) const {
    write(text);
    const std::string message = refusal(options, error_number);
    for (const char* part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
    }
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "data.csv";
};

using Numbers = std::vector<double>;

TEST_F(CsvTest, ColumnsAreChosenByNameAndByNumber) {
  write("x,y,name,mass\n1,2,one,0.5\n3,4,two,1e3\n-5,+6,\"a, \"\"b\"\"\nc\",.25\n");
  EXPECT_EQ(numbers("?columns=x,y,mass"), (Numbers{1, 2, 0.5, 3, 4, 1000, -5, 6, 0.25}));
  EXPECT_EQ(numbers("?columns=mass,0"), (Numbers{0.5, 1, 1000, 3, 0.25, -5}));
  EXPECT_EQ(numbers<std::int16_t>("?columns=y&type=int16"), (std::vector<std::int16_t>{2, 4, 6}));
  const ElementLayout layout = *open("?columns=x,y&type=float32")->element_layout();
  EXPECT_EQ(layout.shape, (std::vector<std::uint64_t>{3, 2}));
  EXPECT_EQ(layout.row_bytes, 8U);
  EXPECT_EQ(open("?columns=x")->element_layout()->shape, (std::vector<std::uint64_t>{3}));
  using Row = std::array<float, 2>;
  EXPECT_EQ((Vector<Row>::open_read_only(url("?columns=x,y&type=float32"))[2]), (Row{-5, 6}));
  EXPECT_THROW(Vector<float>::open_read_only(url("?columns=x")), StoreError);
}

TEST_F(CsvTest, TheFirstLineIsNamesUnlessItIsNumbers) {
  write("1,2\n3,4\n");
  EXPECT_EQ(numbers(), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(numbers("?header=on"), (Numbers{3, 4}));
  EXPECT_EQ(numbers("?header=on&columns=2"), (Numbers{4}));  // That is the name of the second one.
  write("\xef\xbb\xbf\"first \"\"one\"\"\",b\n3,4\n");
  EXPECT_EQ(numbers("?columns=first \"one\""), (Numbers{3}));
  EXPECT_NE(refusal("?header=off", EINVAL).find("line 1 has in column 0"), std::string::npos);
  write("a,b\n");
  EXPECT_EQ(open()->size_bytes(), 0U);
}

TEST_F(CsvTest, LinesEndInAnyWay) {
  write("a;b\r\n1;2\n3;4\r5;6\r\n\n\r\n\"7\";\"8\" \n9; 10 ");
  EXPECT_EQ(numbers("?delimiter=%3B"), (Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  write("1\t2\r3\t4\r");
  EXPECT_EQ(numbers("?delimiter=tab"), (Numbers{1, 2, 3, 4}));
}

TEST_F(CsvTest, NumbersOfAllTypes) {
  write("x\n0\n255\n");
  EXPECT_EQ(numbers<std::uint8_t>("?type=uint8"), (std::vector<std::uint8_t>{0, 255}));
  EXPECT_EQ(numbers<std::uint64_t>("?type=uint64")[1], 255U);
  expect_refused("x\n256\n", "?type=uint8", {"line 2 has in column x '256', which is no uint8"});
  expect_refused("x\n1.5\n", "?type=int32", {"'1.5', which is no int32"});
  expect_refused("x\n1e39\n", "?type=float32", {"'1e39', which is no float32"});
  write("x\n1e-50\n-1e-400\nnan\n-inf\n0.1\n");
  const std::vector<float> small = numbers<float>("?type=float32");
  EXPECT_EQ(small[0], 0);
  EXPECT_EQ(small[4], 0.1F);
  EXPECT_TRUE(std::isnan(small[2]) && std::isinf(small[3]));
}

TEST_F(CsvTest, MissingNumbersAreRefusedOrFilled) {
  expect_refused("x,y\n1,2\n3,\n", "", {"data.csv: line 3 has in column y no number", "missing=nan"});
  expect_refused("x,y\n1,2\n3,NA\n", "?type=int32", {"line 3", "missing=0"});
  expect_refused("x,y\n1,2\n3\n", "", {"line 3 has 1 fields, and the first one has 2", "delimiter="});
  expect_refused("x,y\n1,2\n3\n", "?missing=none", {"missing 'none' is no float64"});
  write("x,y\n1,2\n3,\n,4\nnull,N/A\n5\n");
  EXPECT_EQ(numbers("?missing=-1"), (Numbers{1, 2, 3, -1, -1, 4, -1, -1, 5, -1}));
  EXPECT_TRUE(std::isnan(numbers("?missing=nan")[3]));
}

TEST_F(CsvTest, WhatIsWrongIsNamedWithLineAndColumn) {
  expect_refused("x,y\n1,2\n\n\"3\",\"a\nb\"\n5,six\n", "?columns=y", {"line 4 has in column y 'a?b'"});
  expect_refused("x,y\n\"1\n\",2\n5,six\n", "?columns=y", {"line 4 has in column y 'six', which is no float64"});
  expect_refused("1,2\n3,4x\n", "", {"line 2 has in column 1 '4x'"});
  expect_refused("1,2\n3,\"4\"x\n", "", {"line 2 has in column 1 '\"4\"x'"});
  expect_refused("1,2\n3,4,5\n", "", {"line 2 has 3 fields"});
  expect_refused("x,y\n1,2\n", "?columns=z", {"has no column z: choose among x, y"}, ENOENT);
  expect_refused("x,y\n1,2\n", "?columns=2", {"has no column 2"}, ENOENT);
  expect_refused("x,x\n1,2\n", "?columns=x", {"more than one column x", "by its number"});
  expect_refused("a\n1\n\"2\n3\n", "", {"line 3 begins a row without an end", "quotes"});
  expect_refused("1\n" + std::string(2 << 20, '7'), "", {"line 2 begins a row without an end within 1 MiB"});
  expect_refused("", "", {"has no rows"});
  expect_refused("\x1f\x8b...", "", {"gunzip"});
  expect_refused("\xff\xfe...", "", {"UTF-16"});
  expect_refused("1\n", "?type=float16", {"type 'float16' is unknown: choose among float32"});
  expect_refused("1\n", "?delimiter=ab", {"'ab' is not one character"});
  expect_refused("1\n", "?delimiter=\"", {"is not one character"});
  expect_refused("1\n", "?columns=", {"columns names none", "leave the option out for all"});
  expect_refused("1\n", "?header=yes", {"'yes' is neither on nor off"});
  expect_refused("1\n", "?rows=3", {"option 'rows' is unknown to csv: choose among max_reads, columns"});
  EXPECT_NE(refusal("", EROFS, OpenMode::read_write).find("open it read-only"), std::string::npos);
  std::filesystem::remove(path_);
  EXPECT_NE(refusal("", ENOENT).find("data.csv cannot be opened"), std::string::npos);
}

/// Rows of three columns, in lines of all kinds, and what is in the first and the last one.
std::string random_text(std::uint64_t rows, std::uint64_t seed, std::vector<double>& expected) {
  std::mt19937_64 random(seed);
  std::string text = "x,remark,y\n";
  for (std::uint64_t row = 0; row < rows; ++row) {
    const double x = std::ldexp(static_cast<double>(random() % 100'000) - 50'000, static_cast<int>(random() % 60) - 30);
    const double y = static_cast<double>(random());
    expected.insert(expected.end(), {x, y});
    const auto add = [&](double number) {
      std::array<char, 40> digits{};
      const bool quoted = random() % 4 == 0;
      const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
      text += (quoted ? "\"" : "") + std::string(digits.data(), static_cast<std::size_t>(end - digits.data())) +
              (quoted ? "\"" : "");
    };
    add(x);
    text += random() % 5 == 0 ? ",\"a \"\"long, long\"\"\nremark\"," : "," + std::string(random() % 30, 'r') + ",";
    add(y);
    const char* const ends[] = {"\n", "\r\n", "\r", "\n\n"};
    text += ends[random() % std::size(ends)];
  }
  return text;
}

TEST_F(CsvTest, AnyPieceIsReadByManyThreads) {
  const std::uint64_t seed = std::random_device{}();
  std::vector<double> expected;
  write(random_text(20'000, seed, expected));
  const std::unique_ptr<Store> store = open("?columns=x,y");
  ASSERT_EQ(store->size_bytes(), expected.size() * sizeof(double));
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(seed + thread);
      for (int round = 0; round < 300; ++round) {
        const std::uint64_t offset = random() % (store->size_bytes() + 10);
        const std::uint64_t bytes = random() % (round % 2 == 0 ? 40 : 20'000);
        const std::uint64_t there = std::min(bytes, store->size_bytes() - std::min(offset, store->size_bytes()));
        std::vector<char> piece(bytes);
        ASSERT_EQ(store->read(piece.data(), bytes, offset), static_cast<std::int64_t>(there)) << seed;
        ASSERT_EQ(std::memcmp(piece.data(), reinterpret_cast<const char*>(expected.data()) + offset, there), 0)
            << seed << " at " << offset;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const auto vector =
      Vector<double>::open_read_only(url("?columns=x,y"), {.budget_bytes = 128 << 10, .page_size_bytes = 4096});
  EXPECT_TRUE(std::equal(vector.begin(), vector.end(), expected.begin(), expected.end())) << seed;
}

TEST_F(CsvTest, AFileThatChangesIsNoticed) {
  write("x\n1\n2\n");
  const std::unique_ptr<Store> store = open();
  double number = 0;
  EXPECT_EQ(store->read(&number, 8, 8), 8);
  EXPECT_EQ(number, 2);
  EXPECT_EQ(store->write(&number, 8, 0), -EROFS);
  write("x\n1\n2\n3\n");
  EXPECT_EQ(store->read(&number, 8, 8), -ESTALE);
  write("x\n7\n8\n");  // As long as it was.
  EXPECT_EQ(store->read(&number, 8, 8), -ESTALE);
  write("x\n");
  EXPECT_EQ(store->read(&number, 8, 8), -ESTALE);
  EXPECT_EQ(open()->size_bytes(), 0U);
}

TEST(RowIndex, KnowsAPlaceBeforeEachRowInBoundedMemory) {
  constexpr std::uint64_t most = 10;
  constexpr std::uint64_t rows = 100'000;
  RowIndex index(most);
  for (std::uint64_t row = 0; row < rows; ++row) {
    index.add(3 * row + 5);
    ASSERT_LE(index.places(), most);
    ASSERT_EQ(index.before(row).second, 3 * index.before(row).first + 5) << row;
  }
  EXPECT_EQ(index.rows(), rows);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const auto [known, offset] = index.before(row);
    ASSERT_LE(known, row);
    ASSERT_LE(row - known, rows / (most / 2)) << row;
    ASSERT_EQ(offset, 3 * known + 5);
  }
}

}  // namespace
}  // namespace tiermap
