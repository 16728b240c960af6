// Parquet files and names that are wrong: one line that says what and what to do.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <thread>

#include "parquet/parquet_files.hpp"
#include "store/file_descriptor.hpp"
#include "store/parquet/assembly.hpp"
#include "store/parquet/compact_thrift.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

using ParquetBadInputTest = ParquetTest;

TEST_F(ParquetBadInputTest, NamesOfNothing) {
  copy("points.parquet");
  expect_said(refusal(url("points.parquet", "columns=x,mass"), ENOENT),
              {"points.parquet: column mass is not there: choose among x, y, z, id, flag, name"});
  expect_said(refusal(url("none.parquet", "columns=x"), ENOENT), {"none.parquet"});
  expect_said(refusal(url("none.parquet", "columns=x:int8"), ENOENT, OpenMode::read_write), {"none.parquet"});
  for (const std::string columns : {"columns=x", "columns=x:int8"}) {
    expect_said(refusal(url(std::string(300, 'x'), columns), ENAMETOOLONG, OpenMode::read_write),
                {"cannot be looked at: File name too long: choose a shorter name"});
  }
  expect_said(refusal(url("none-*", "columns=x"), ENOENT), {"no file matches"});
  expect_said(refusal(url("points.parquet", "columns=x,x"), EINVAL), {"column x is named twice"});
  expect_said(refusal(url("points.parquet", "columns="), EINVAL), {"columns '' names no column: write columns=x,y"});
  expect_said(refusal(url("points.parquet", "column=x"), EINVAL), {"option 'column' is unknown to parquet", "columns"});
  expect_said(refusal(url("points.parquet", "columns=x&align=yes"), EINVAL), {"neither on nor off"});
  expect_said(refusal(url("points.parquet", "columns=x&compression=zip"), EINVAL),
              {"compression 'zip' is unknown: choose one of snappy, none, gzip, zstd, brotli, lz4"});
  expect_said(refusal(url("points.parquet", "columns=x&group=0"), EINVAL), {"group 0 is no size of a row group"});
  expect_said(refusal(url("points.parquet", "columns=x,y,z&decoded=1KiB"), EINVAL),
              {"decoded 1KiB", "at least 120000"});
  expect_said(refusal("parquet://points.parquet?columns=x", EINVAL), {"stands where a host would"});
}

TEST_F(ParquetBadInputTest, TypesWithoutAFixedSize) {
  copy("types.parquet");
  expect_said(refusal(url("types.parquet", "columns=name"), ENOTSUP),
              {"column name holds strings", "choose columns of numbers"});
  expect_said(refusal(url("types.parquet"), ENOTSUP), {"column name holds strings"});
  expect_said(refusal(url("types.parquet", "columns=i1,list.list.element"), ENOTSUP), {"lists of float64"});
  expect_said(refusal(url("types.parquet", "columns=i1:int16"), EINVAL), {"column i1 holds int8, not int16"});
}

TEST_F(ParquetBadInputTest, FilesOfOtherColumns) {
  copy("part-0.parquet");
  std::filesystem::rename(copy("other-type.parquet"), directory_ / "part-9.parquet");
  expect_said(refusal(url("part-*", "columns=x,y"), EINVAL),
              {"part-9.parquet: column x holds int64", "part-0.parquet it is x with float32"});
  copy("points.parquet");
  expect_said(refusal(url("p*", "columns=x,y"), EINVAL), {"part-9"});
}

TEST_F(ParquetBadInputTest, DecimalsWhosePointIsElsewhere) {
  copy("price-in-cents.parquet");
  EXPECT_EQ(open_store(url("price*"), OpenMode::read_only)->size_bytes(), 4U);
  copy("price-in-mills.parquet");
  expect_said(refusal(url("price*"), EINVAL),
              {"price-in-mills.parquet: column price holds decimal of int32, of scale 3",
               "price-in-cents.parquet it is price with decimal of int32, of scale 2"});
}

TEST_F(ParquetBadInputTest, TimestampsOfWhichSomeAreLocalTimes) {
  copy("moments-utc.parquet");
  copy("moments-zone.parquet");  // Which zone is shown is no matter of the numbers.
  EXPECT_EQ(open_store(url("moments*"), OpenMode::read_only)->size_bytes(), 32U);
  copy("moments-local.parquet");
  expect_said(refusal(url("moments*"), EINVAL), {"moments-utc.parquet: column when holds timestamp[us] in UTC",
                                                 "moments-local.parquet it is when with timestamp[us]:"});
  copy("int96.parquet");
  expect_said(refusal(url("int96.parquet"), ENOTSUP),
              {"column when holds int96 timestamps, which are no integers of the machine", "timestamps of 8 bytes"});
}

TEST_F(ParquetBadInputTest, TwoColumnsOfOneName) {
  copy("namesakes.parquet");
  for (const char* columns : {"columns=x", "columns=y,x", ""}) {
    expect_said(refusal(url("namesakes.parquet", columns), EINVAL),
                {"namesakes.parquet: 2 columns are called x", "write the file again with a name for each"});
  }
  EXPECT_EQ(open_store(url("namesakes.parquet", "columns=y"), OpenMode::read_only)->size_bytes(), 80U);
  expect_said(
      refusal("parquet:" + directory_.encoded() + "/new?columns=x:int8,x:int8&rows=5", EINVAL, OpenMode::create),
      {"column x is named twice"});
}

TEST_F(ParquetBadInputTest, FilesThatAreNone) {
  const std::string content = read_file(copy("points.parquet"));
  write_file(directory_ / "text", "no Parquet file, by any means");
  expect_said(refusal(url("text", "columns=x"), EINVAL), {"text is no Parquet file that can be read"});
  write_file(directory_ / "none", "");
  expect_said(refusal(url("none", "columns=x"), EINVAL), {"none is no Parquet file"});
  write_file(directory_ / "cut", content.substr(0, content.size() / 2));
  expect_said(refusal(url("cut", "columns=x"), EINVAL), {"cut is no Parquet file", "copy or make it again"});
  refusal("parquet:" + directory_.encoded() + "?columns=x", EISDIR);
  // Damaged metadata end in a refusal or in a store, and in nothing else.
  for (std::size_t at = content.size() - 1500; at < content.size(); at += 23) {
    std::string damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x15);
    write_file(directory_ / "damaged", damaged);
    try {
      const auto store = open_store(url("damaged", "columns=x&decoded=1TiB"), OpenMode::read_only);
      EXPECT_FALSE(store->name().empty());
    } catch (const StoreError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

/// A file whose metadata are consistent with its data, but for one number.
class MiscountedRowsTest : public ParquetTest {
 protected:
  std::string refusal_of(const std::function<void(ThriftValue& metadata)>& change) const {
    const std::string path = copy("plain.parquet");
    std::string content = read_file(path);
    std::uint32_t length = 0;
    std::memcpy(&length, content.data() + content.size() - 8, sizeof length);
    ThriftValue metadata = ParquetSource(content, path).metadata();
    change(metadata);
    const std::string changed = format_thrift(metadata);
    content.resize(content.size() - 8 - length);
    const auto changed_length = static_cast<std::uint32_t>(changed.size());
    content += changed;
    content.append(reinterpret_cast<const char*>(&changed_length), sizeof changed_length).append("PAR1");
    write_file(path, content);
    return refusal(url("plain.parquet", "columns=x"), EINVAL);
  }
  static ThriftValue& group(ThriftValue& metadata, std::size_t number) {
    return metadata.find(parquet_field::file_groups)->items.at(number);
  }
};

TEST_F(MiscountedRowsTest, OfTheFileAreRefused) {
  for (const std::int64_t rows : {std::int64_t{50'000}, std::int64_t{200'000}, std::int64_t{-1}}) {
    const std::string counts =
        "it says that it has " + std::to_string(rows) + " rows, and its row groups have 100001 together";
    expect_said(refusal_of([&](ThriftValue& metadata) { metadata.set_integer(parquet_field::file_rows, rows); }),
                {"plain.parquet is no Parquet file that can be read", counts.c_str(), "copy or make it again"});
  }
}

TEST_F(MiscountedRowsTest, OfARowGroupAreRefused) {
  expect_said(refusal_of([](ThriftValue& metadata) { metadata.find(parquet_field::file_groups)->items.pop_back(); }),
              {"it says that it has 100001 rows, and its row groups have "});
  expect_said(refusal_of([](ThriftValue& metadata) {
                group(metadata, 1).set_integer(parquet_field::group_rows, 20'000);
                metadata.set_integer(parquet_field::file_rows, 90'001);
              }),
              {"plain.parquet", "row group 1 has 20000 rows, and its column x 30000 values"});
  expect_said(refusal_of([](ThriftValue& metadata) { group(metadata, 0).set_integer(parquet_field::group_rows, -5); }),
              {"plain.parquet", "row group 0 has -5 rows"});
}

TEST_F(MiscountedRowsTest, OfAColumnAreRefused) {
  const auto column = [](ThriftValue& metadata) -> ThriftValue& {
    return *group(metadata, 2).find(parquet_field::group_chunks)->items.at(1).find(parquet_field::chunk_metadata);
  };
  expect_said(refusal_of([&](ThriftValue& metadata) { column(metadata).set_integer(parquet_field::column_values, 7); }),
              {"plain.parquet", "row group 2 has ", " rows, and its column y 7 values"});
}

class DamagedChunkTest : public ParquetTest {
 protected:
  DamagedChunkTest() {
    const std::string path = copy("plain.parquet");
    const std::string content = read_file(path);
    ThriftValue metadata = ParquetSource(content, path).metadata();
    ThriftValue& column = *metadata.find(parquet_field::file_groups)
                               ->items.at(1)
                               .find(parquet_field::group_chunks)
                               ->items.at(1)
                               .find(parquet_field::chunk_metadata);
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    const std::string damage(1000, '?');
    EXPECT_EQ(::pwrite(file.get(), damage.data(), damage.size(),
                       column.integer_at(parquet_field::column_data_page, 0) + 20'000),
              1000);
  }
};

TEST_F(DamagedChunkTest, IsAnErrorOfItsRowGroupOnlyAndSaidOnce) {
  const std::vector<char> expected = coordinates();
  const auto store = open_store(url("plain.parquet", "columns=x,y,z"), OpenMode::read_only);
  std::vector<char> buffer(360'000);
  testing::internal::CaptureStderr();
  EXPECT_EQ(store->read(buffer.data(), 1000, 360'000), -EIO);
  EXPECT_EQ(store->read(buffer.data(), 1000, 719'000), -EIO);
  EXPECT_EQ(store->read(buffer.data(), 2000, 359'000), 1000);
  EXPECT_EQ(store->read(buffer.data(), 360'000, 0), 360'000);
  EXPECT_TRUE(std::equal(buffer.begin(), buffer.end(), expected.begin()));
  const std::string said = testing::internal::GetCapturedStderr();
  expect_said(said, {"tiermap: ", "plain.parquet: column y of row group 1 cannot be read: "});
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  // Other columns are not affected.
  const auto others = open_store(url("plain.parquet", "columns=x,z"), OpenMode::read_only);
  EXPECT_EQ(others->read(buffer.data(), 1000, 240'000), 1000);
}

TEST_F(DamagedChunkTest, StaysInAFileThatIsWritten) {
  {
    const auto store = open_store(url("plain.parquet", "columns=x,z"), OpenMode::read_write);
    ASSERT_EQ(store->write("abcd", 4, 8 * 40'000), 4);
    ASSERT_EQ(store->flush(), 0);
  }
  const auto store = open_store(url("plain.parquet", "columns=y"), OpenMode::read_only);
  char byte = 0;
  testing::internal::CaptureStderr();
  EXPECT_EQ(store->read(&byte, 1, 4 * 40'000), -EIO);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(store->read(&byte, 1, 0), 1);
}

TEST_F(DamagedChunkTest, ReachesTheThreadThatFaulted) {
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);  // AddressSanitizer has its own.
        Cache cache({.budget_bytes = 4 << 20});
        const Region region = cache.map(url("plain.parquet", "columns=x,y,z"));
        static_cast<void>(*static_cast<const volatile std::byte*>(region.data()));
        static_cast<void>(*static_cast<const volatile std::byte*>(region.data() + 400'000));
      },
      testing::KilledBySignal(SIGBUS), "column y of row group 1 cannot be read");
}

TEST(CompactThriftTest, WhatWasReadIsWrittenTheSame) {
  for (const auto& entry : std::filesystem::directory_iterator(TIERMAP_PARQUET_FILES)) {
    if (entry.path().extension() != ".parquet") {
      continue;
    }
    const std::string content = read_file(entry.path());
    std::uint32_t length = 0;
    std::memcpy(&length, content.data() + content.size() - 8, 4);
    const std::string text = content.substr(content.size() - 8 - length, length);
    const auto [tree, bytes] = parse_thrift(text, entry.path());
    EXPECT_EQ(bytes, text.size());
    EXPECT_EQ(format_thrift(tree), text) << entry.path();
    for (std::size_t cut = 0; cut + 1 < text.size(); cut += text.size() / 20 + 1) {
      EXPECT_THROW(parse_thrift(text.substr(0, cut), entry.path()), StoreError);
    }
  }
}

TEST(CompactThriftTest, FieldsAreFoundChangedMadeAndRemoved) {
  ThriftValue structure;
  structure.set_integer(20, 300);
  structure.set_integer(3, -5);
  structure.set_integer(20, 301);
  EXPECT_EQ(structure.integer_at(3, 0), -5);
  EXPECT_EQ(structure.integer_at(20, 0), 301);
  EXPECT_EQ(structure.integer_at(4, 7), 7);
  const ThriftValue again = parse_thrift(format_thrift(structure), "test").first;
  EXPECT_EQ(again.numbers, (std::vector<std::int16_t>{3, 20}));
  EXPECT_EQ(again.integer_at(20, 0), 301);
  structure.remove(3);
  structure.remove(4);
  EXPECT_EQ(structure.numbers, std::vector<std::int16_t>{20});
}

TEST(CompactThriftTest, NestingWithoutAnEndIsRefused) {
  EXPECT_THROW(parse_thrift(std::string(100'000, '\x1c'), "test"), StoreError);
  EXPECT_THROW(parse_thrift("\x19\xfc\xff\xff\xff\xff\x0f", "test"), StoreError);
}

}  // namespace
}  // namespace tiermap
