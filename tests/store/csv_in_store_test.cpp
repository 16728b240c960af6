// Text that lies in another store: the same numbers as from a file, wherever a read begins, by few and large reads.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "store/csv/table.hpp"
#include "store/opening_refusal.hpp"
#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/store.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

/// Counts what is read of it.
class CountedText final : public Store {
 public:
  explicit CountedText(std::string content) : content_(std::move(content)) {}
  std::uint64_t size_bytes() const override { return content_.size(); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    ++reads;
    const std::size_t count =
        std::min<std::uint64_t>(bytes, content_.size() - std::min<std::uint64_t>(offset, content_.size()));
    std::memcpy(buffer, content_.data() + offset, count);
    read_bytes += count;
    return static_cast<std::int64_t>(count);
  }

  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;

 private:
  const std::string content_;
};

std::string text_of_rows(std::size_t rows, std::string_view line_end) {
  std::string text = "name,x,y" + std::string(line_end);
  std::mt19937 random(3);
  for (std::size_t row = 0; row < rows; ++row) {
    text += "\"row, " + std::to_string(row) + "\"," + std::to_string(random() % 100'000) + "," +
            std::to_string(random() % 1000) + ".5" + std::string(line_end);
  }
  return text;
}

CsvForm two_columns() {
  CsvForm form;
  form.columns = "x,y";
  form.number = find_csv_number("float64");
  return form;
}

TEST(CsvInStore, RowsAreReadByOneRangeEach) {
  for (const std::string_view line_end : {"\n", "\r\n", "\r"}) {
    const auto store = std::make_shared<CountedText>(text_of_rows(300'000, line_end));
    const CsvText text(store);
    const CsvTable table("table.csv", text, two_columns());
    ASSERT_EQ(table.rows(), 300'000U);
    EXPECT_LE(store->reads, store->size_bytes() / (4 << 20) + 5);
    EXPECT_LT(store->read_bytes, store->size_bytes() + 100);
    std::vector<double> numbers(2 * 20'000);
    store->reads = 0;
    store->read_bytes = 0;
    ASSERT_EQ(table.read_rows(text, 123'456, 20'000, reinterpret_cast<std::byte*>(numbers.data())), 0);
    EXPECT_EQ(store->reads, 1U);
    EXPECT_LT(store->read_bytes, 20'200U * 40);
  }
}

TEST(CsvInStore, RowsOfAnyLengthAreReadAsTheyWereFound) {
  std::string text;
  std::mt19937 random(5);
  for (int row = 0; row < 300; ++row) {
    text += std::string(random() % (row % 7 == 0 ? 1'000'000 : 50), ' ') + std::to_string(row) + "\n";
  }
  const auto store = std::make_shared<CountedText>(text);
  const CsvText source(store);
  CsvForm form;
  form.number = find_csv_number("int32");
  const CsvTable table("table.csv", source, form);
  std::vector<std::int32_t> numbers(300);
  for (std::uint64_t first = 0; first < 300; first += 13) {
    for (const std::uint64_t count : {std::uint64_t{1}, 300 - first}) {
      ASSERT_EQ(table.read_rows(source, first, count, reinterpret_cast<std::byte*>(numbers.data())), 0);
      EXPECT_EQ(numbers[0], static_cast<std::int32_t>(first));
      EXPECT_EQ(numbers[count - 1], static_cast<std::int32_t>(first + count - 1));
    }
  }
}

// Also where it is in memory as a whole.
TEST(CsvInStore, ARowIsTooLongWhereverItLies) {
  CsvForm form;
  form.number = find_csv_number("int32");
  for (const std::size_t before : {0U, 1'000U, 600'000U, 1'040'000U}) {
    for (const std::size_t bytes : {std::size_t{1} << 20U, (std::size_t{1} << 20U) + 1}) {
      const std::string text = std::string(before, '\n') + std::string(bytes - 2, ' ') + "5\n6\n";
      const CsvText source(std::make_shared<CountedText>(text));
      const TemporaryDirectory directory;
      write_file(directory / "table.csv", text);
      const std::string url = "csv:" + directory.encoded() + "/table.csv";
      if (bytes > std::size_t{1} << 20U) {
        EXPECT_THROW(CsvTable("table.csv", source, form), StoreError) << before;
        EXPECT_THROW(open_store(url, OpenMode::read_only), StoreError) << before;
      } else {
        EXPECT_EQ(CsvTable("table.csv", source, form).rows(), 2U) << before;
        EXPECT_EQ(open_store(url, OpenMode::read_only)->size_bytes(), 16U) << before;
      }
    }
  }
}

TEST(CsvInStore, TheSameNumbersAsFromAFile) {
  const TemporaryDirectory directory;
  write_file(directory / "table.csv", text_of_rows(50'000, "\r\n"));
  const std::string options = "?columns=y,x&type=float32&missing=0";
  const auto local = open_store("csv:" + directory.encoded() + "/table.csv" + options, OpenMode::read_only);
  std::vector<char> expected(local->size_bytes());
  ASSERT_EQ(local->read(expected.data(), expected.size(), 0), static_cast<std::int64_t>(expected.size()));
  const std::string url = "csv:file://" + directory.encoded() + "/table.csv" + options + "&max_reads=3";
  const auto store = open_store(url, OpenMode::read_only);
  expect_equal(*store, expected);
  EXPECT_EQ(store->max_reads_in_flight(), 3U);
  EXPECT_EQ(store->name(), url);
  EXPECT_EQ(store->element_layout()->shape, local->element_layout()->shape);
  std::vector<char> piece(1000);
  for (const std::uint64_t offset : {1U, 7U, 4096U, 399'001U}) {
    ASSERT_EQ(store->read(piece.data(), 999, offset), 999);
    EXPECT_EQ(std::memcmp(piece.data(), expected.data() + offset, 999), 0);
  }
  VectorOptions options_of_vector;
  options_of_vector.budget_bytes = 256 << 10;
  options_of_vector.page_size_bytes = 16 << 10;
  const auto vector = Vector<float>::open_read_only(url, options_of_vector);
  EXPECT_TRUE(std::equal(vector.begin(), vector.end(), reinterpret_cast<const float*>(expected.data())));
  expect_said(refusal_of_opening(url, EROFS, OpenMode::read_write), {"text files in another store are only read"});
  expect_said(refusal_of_opening(url + "&color=red", EINVAL), {"option 'color' is unknown to file"});
  expect_said(refusal_of_opening("csv:file://" + directory.encoded() + "/table.csv?columns=z", ENOENT),
              {"has no column z: choose among name, x, y"});
}

}  // namespace
}  // namespace tiermap
