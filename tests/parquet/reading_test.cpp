// Columns of Parquet files as rows and records: what pyarrow wrote is read, whatever the encoding, from any place, by
// any number of threads, in little memory.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "parquet/parquet_files.hpp"
#include "store/memory_store.hpp"
#include "store/reference_check.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

using ParquetReadingTest = ParquetTest;

class ParquetEncodingTest : public ParquetTest, public testing::WithParamInterface<const char*> {};

TEST_P(ParquetEncodingTest, IsReadAsItWasWritten) {
  std::vector<char> expected = coordinates();
  const auto store = open_store(copied_url(GetParam(), "columns=x,y,z"), OpenMode::read_only);
  EXPECT_FALSE(store->writable());
  EXPECT_EQ(store->write("x", 1, 0), -EROFS);
  expect_equal(*store, expected);
  random_work(*store, expected, 0, expected.size(), 40, 1);
  const auto records = open_store(url(GetParam(), "columns=flag,id,x"), OpenMode::read_only);
  expect_equal(*records, packed_records());
}

INSTANTIATE_TEST_SUITE_P(Files, ParquetEncodingTest,
                         testing::Values("points.parquet", "indexed.parquet", "plain.parquet", "gzip.parquet",
                                         "required.parquet"),
                         [](const auto& file) {
                           return std::string(file.param).substr(0, std::strlen(file.param) - 8);
                         });

TEST_F(ParquetReadingTest, SaysWhatItsElementsAre) {
  const auto rows = *open_store(copied_url("points.parquet", "columns=x,y,z"), OpenMode::read_only)->element_layout();
  EXPECT_EQ(rows.bytes, 4U);
  EXPECT_EQ(rows.row_bytes, 12U);
  EXPECT_EQ(rows.kind, 'f');
  EXPECT_EQ(rows.shape, (std::vector<std::uint64_t>{point_rows, 3}));
  const auto one = *open_store(url("points.parquet", "columns=id"), OpenMode::read_only)->element_layout();
  EXPECT_EQ(one.type, "int64");
  EXPECT_EQ(one.shape, std::vector<std::uint64_t>{point_rows});
  const auto records = *open_store(url("points.parquet", "columns=flag,id,x"), OpenMode::read_only)->element_layout();
  EXPECT_EQ(records.kind, '\0');
  EXPECT_EQ(records.bytes, 13U);
  EXPECT_EQ(records.type, "{flag:bool, id:int64, x:float32}");
  ASSERT_EQ(records.fields.size(), 3U);
  EXPECT_EQ(records.fields[2].name, "x");
  EXPECT_EQ(records.fields[2].offset, 9U);
}

TEST_F(ParquetReadingTest, RecordsMayLieAsCLaysThemOut) {
  struct Record {
    bool flag;
    std::int64_t id;
    float x;
  };
  const std::string where = copied_url("points.parquet", "columns=flag,id,x");
  auto records = Vector<Record>::open_read_only(where + "&align=on");
  ASSERT_EQ(records.size(), point_rows);
  for (std::size_t row = 0; row < records.size(); row += 997) {
    EXPECT_EQ(records[row].id, static_cast<std::int64_t>(3 * row));
    EXPECT_EQ(records[row].flag, row % 3 == 0);
    EXPECT_EQ(records[row].x, static_cast<float>(row));
  }
  try {
    Vector<Record>::open_read_only(where);
    ADD_FAILURE() << "13 bytes are not 24";
  } catch (const StoreError& error) {
    expect_said(error.what(), {"{flag:bool, id:int64, x:float32}", "of 13 bytes", "24 bytes"});
  }
  EXPECT_THROW(Vector<double>::open_read_only(url("points.parquet", "columns=x")), StoreError);
  EXPECT_THROW(Vector<std::int32_t>::open_read_only(url("points.parquet", "columns=x")), StoreError);
  EXPECT_EQ(Vector<float>::open_read_only(url("points.parquet", "columns=x,y")).size(), 2 * point_rows);
}

/// What a column of types.parquet holds, by its row.
template <typename Value>
void expect_column(const std::string& url, const char* type, Value (*value_of)(std::int64_t row)) {
  const auto store = open_store(url, OpenMode::read_only);
  EXPECT_EQ(store->element_layout()->type, type) << url;
  ASSERT_EQ(store->size_bytes(), 5000 * sizeof(Value)) << url;
  std::vector<Value> values(5000);
  ASSERT_EQ(store->read(values.data(), 5000 * sizeof(Value), 0), static_cast<std::int64_t>(5000 * sizeof(Value)));
  for (std::size_t row = 0; row < values.size(); ++row) {
    ASSERT_EQ(values[row], value_of(static_cast<std::int64_t>(row))) << url << " " << row;
  }
}

template <typename Value>
Value same(std::int64_t row) {
  return static_cast<Value>(row);
}

TEST_F(ParquetReadingTest, EveryTypeOfAFixedSize) {
  const auto column = [this](const char* name) { return url("types.parquet", std::string("columns=") + name); };
  copy("types.parquet");
  expect_column(column("i1"), "int8", same<std::int8_t>);
  expect_column(column("i2"), "int16", same<std::int16_t>);
  expect_column(column("i4"), "int32", same<std::int32_t>);
  expect_column(column("i8"), "int64", same<std::int64_t>);
  expect_column(column("u1"), "uint8", same<std::uint8_t>);
  expect_column(column("u2"), "uint16", same<std::uint16_t>);
  expect_column(column("u4"), "uint32", same<std::uint32_t>);
  expect_column(column("u8"), "uint64", same<std::uint64_t>);
  expect_column(column("f4"), "float32", same<float>);
  expect_column(column("f8"), "float64", same<double>);
  expect_column<std::uint64_t>(column("high"), "uint64", [](std::int64_t row) {
    return (std::uint64_t{1} << 63) + static_cast<std::uint64_t>(row);
  });
  expect_column<std::int8_t>(column("low"), "int8", [](std::int64_t row) { return static_cast<std::int8_t>(-row); });
  expect_column<std::uint8_t>(column("truth"), "bool", [](std::int64_t row) { return std::uint8_t(row % 2); });
  expect_column(column("date"), "date", same<std::int32_t>);
  expect_column(column("stamp"), "timestamp[us]", same<std::int64_t>);
  expect_column(column("time"), "time[ms]", same<std::int32_t>);
  expect_column(column("inside.a"), "int32", same<std::int32_t>);
  expect_column(column("inside.b"), "float64", same<double>);
  expect_column<std::uint16_t>(column("f2"), "float16", [](std::int64_t row) {
    // Whole numbers up to 2,048, and then even ones, and then multiples of 4 have a place there.
    const double value = std::nearbyint(static_cast<double>(row) / (row <= 2048   ? 1
                                                                    : row <= 4096 ? 2
                                                                                  : 4)) *
                         (row <= 2048   ? 1
                          : row <= 4096 ? 2
                                        : 4);
    int exponent = 0;
    const double mantissa = std::frexp(value, &exponent);
    return value == 0 ? std::uint16_t{0}
                      : static_cast<std::uint16_t>((exponent + 14) << 10 | (int(mantissa * 2048) & 1023));
  });
  expect_column<std::array<char, 5>>(column("fixed"), "fixed[5]", [](std::int64_t row) {
    std::array<char, 5> text;
    for (std::size_t digit = 5; digit-- > 0; row /= 10) {
      text[digit] = static_cast<char>('0' + row % 10);
    }
    return text;
  });
}

/// pyarrow's usual decimals are in bytes, of which the first is the most significant: as numbers they would be wrong.
TEST_F(ParquetReadingTest, DecimalsInBytesAreNoNumbers) {
  const std::string money = copied_url("types.parquet", "columns=money");
  for (const std::string& said :
       {refusal_of_call<StoreError>(EINVAL, [&] { Vector<std::int32_t>::open_read_only(money); }),
        refusal_of_call<StoreError>(EINVAL, [&] { Vector<float>::open_read_only(money); })}) {
    expect_said(said, {"decimal of fixed[4], the most significant byte first"});
  }
  const auto bytes = Vector<std::array<unsigned char, 4>>::open_read_only(money);
  EXPECT_EQ(bytes.size(), open_store(money, OpenMode::read_only)->size_bytes() / 4);
}

TEST_F(ParquetReadingTest, ManyFilesAreOneVector) {
  for (const char* name : {"part-0.parquet", "part-1.parquet", "part-2.parquet", "part-3.parquet"}) {
    copy(name);
  }
  std::vector<char> expected = coordinates();
  const auto store = open_store(url("part-*.parquet", "columns=x,y,z"), OpenMode::read_only);
  expect_equal(*store, expected);
  random_work(*store, expected, 0, expected.size(), 40, 2);
  expect_equal(*open_store(url("part-[0]*", "columns=flag,id,x"), OpenMode::read_only), packed_records(40'000));
}

TEST_F(ParquetReadingTest, FilesWithoutRowsAreEmptyStores) {
  EXPECT_EQ(open_store(copied_url("empty.parquet", "columns=x,y"), OpenMode::read_only)->size_bytes(), 0U);
  EXPECT_EQ(Vector<float>::open_read_only(url("empty.parquet", "columns=x,y")).size(), 0U);
}

TEST_F(ParquetReadingTest, FilesMayLieInAnyStore) {
  const std::string path = copy("points.parquet");
  const std::vector<char> expected = coordinates();
  const std::string concat = "concat:" + directory_.encoded() + "/points.parquet@0+1000001," + directory_.encoded() +
                             "/points.parquet@1000001";
  expect_equal(*open_store("parquet:?columns=x,y,z&store=" + concat, OpenMode::read_only), expected);
  const std::string content = read_file(path);
  const std::string sparse = "sparse:" + directory_.encoded() + "/sparse?segment=1MiB";
  open_store(sparse, OpenMode::create, content.size())->write(content.data(), content.size(), 0);
  expect_equal(*open_store("parquet:?columns=x,y,z&store=" + sparse, OpenMode::read_only), expected);
  expect_said(refusal("parquet:?columns=x&store=" + sparse, EROFS, OpenMode::read_write), {"open it read-only"});
  expect_said(refusal("parquet:/a?columns=x&store=" + sparse, EINVAL), {"a file and a store", "parquet:?store=URL"});
  expect_said(refusal("parquet:?columns=x&store=memory:4KiB", EINVAL), {"memory:4KiB is no Parquet file"});
  expect_said(refusal("parquet:?columns=x", EINVAL), {"there is no path"});
}

TEST_F(ParquetReadingTest, NullsAreRefusedOrWhatTheUrlSays) {
  copy("nulls.parquet");
  expect_said(refusal(url("nulls.parquet", "columns=none,some"), EINVAL),
              {"column some has 143 nulls in row group 1", "nulls=0 or nulls=nan"});
  EXPECT_EQ(open_store(url("nulls.parquet", "columns=none"), OpenMode::read_only)->size_bytes(), 16'000U);
  auto numbers = Vector<double>::open_read_only(url("nulls.parquet", "columns=some&nulls=nan"));
  auto wholes = Vector<std::int64_t>::open_read_only(url("nulls.parquet", "columns=whole&nulls=-7"));
  for (std::size_t row = 0; row < numbers.size(); ++row) {
    const bool null = row % 7 == 0 && row >= 1000;
    ASSERT_TRUE(null ? std::isnan(numbers[row]) : numbers[row] == static_cast<double>(row)) << row;
    ASSERT_EQ(wholes[row], null ? -7 : static_cast<std::int64_t>(row)) << row;
  }
  expect_said(refusal(url("nulls.parquet", "columns=whole&nulls=nan"), EINVAL),
              {"column whole holds int64", "nulls cannot be nan"});
  // A file without statistics does not say so beforehand.
  const auto store = open_store(copied_url("unknown-nulls.parquet", "columns=some"), OpenMode::read_only);
  std::vector<char> buffer(8000);
  EXPECT_EQ(store->read(buffer.data(), 8000, 0), 8000);
  testing::internal::CaptureStderr();
  EXPECT_EQ(store->read(buffer.data(), 8000, 8000), -EIO);
  EXPECT_EQ(store->read(buffer.data(), 8000, 8000), -EIO);
  const std::string said = testing::internal::GetCapturedStderr();
  expect_said(said, {"unknown-nulls.parquet: column some of row group 1 cannot be read: it has nulls"});
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

TEST_F(ParquetReadingTest, ThreadsReadBesideEachOtherInLittleMemory) {
  const std::vector<char> expected = coordinates();
  const std::string where = copied_url("points.parquet", "columns=x,y,z&decoded=");
  for (const char* decoded : {"120000", "250KiB", "64MiB"}) {
    const auto store = open_store(where + decoded, OpenMode::read_only);
    std::vector<std::thread> workers;
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      workers.emplace_back([&, seed] {
        std::vector<char> same = expected;
        random_work(*store, same, 0, expected.size(), 25, 10 + seed);
        expect_equal(*store, same);
      });
    }
    for (std::thread& worker : workers) {
      worker.join();
    }
  }
}

TEST_F(ParquetReadingTest, AVectorIsReadInATenthOfItsMemory) {
  using Point = std::array<float, 3>;
  VectorOptions options;
  options.budget_bytes = 128 << 10;
  options.page_size_bytes = 4 << 10;
  auto points = Vector<Point>::open_read_only(copied_url("points.parquet", "columns=x,y,z&decoded=120000"), options);
  ASSERT_EQ(points.size(), point_rows);
  double sum = 0;
  points.read().for_each([&](const Point& point) { sum += double(point[0]) + double(point[1]) + double(point[2]); });
  EXPECT_EQ(sum, static_cast<double>(point_rows - 1) * static_cast<double>(point_rows) / 4);
}

}  // namespace
}  // namespace tiermap
