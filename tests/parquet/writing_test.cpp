// Parquet files that are written: what changed is in the new file, all else is in it byte for byte, and at every moment
// there is a whole file under the name.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <random>
#include <thread>

#include "parquet/parquet_files.hpp"
#include "store/file_descriptor.hpp"
#include "store/file_size_limit.hpp"
#include "store/parquet/assembly.hpp"
#include "store/reference_check.hpp"
#include "store/unread_standard_error.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

using namespace parquet_field;

using ParquetWritingTest = ParquetTest;

struct WrittenFile {
  const char* name;
  std::size_t changed_group;  ///< In which row 33,333 is.
};

void PrintTo(const WrittenFile& file, std::ostream* stream) {
  *stream << file.name;
}

class ParquetRewritingTest : public ParquetTest, public testing::WithParamInterface<WrittenFile> {};

TEST_P(ParquetRewritingTest, WhatIsWrittenIsThere) {
  std::vector<char> expected = coordinates();
  const std::string where = copied_url(GetParam().name, "columns=x,y,z");
  {
    const auto store = open_store(where, OpenMode::read_write);
    EXPECT_TRUE(store->writable());
    random_work(*store, expected, 0, expected.size(), 30, 1);
    EXPECT_EQ(store->write("x", 1, expected.size()), -ENOSPC);
    EXPECT_EQ(store->flush(), 0);
    expect_equal(*store, expected);
    expect_equal(*open_store(where, OpenMode::read_only), expected);
    random_work(*store, expected, 0, expected.size(), 10, 2);
    EXPECT_EQ(store->settle(), 0);
    random_work(*store, expected, 0, expected.size(), 10, 3);
  }  // What was not flushed is written now.
  expect_equal(*open_store(where, OpenMode::read_only), expected);
  EXPECT_EQ(names_there(), std::vector<std::string>{GetParam().name});
}

/// The bytes of all chunks by row group and column, without what says where they are.
std::vector<std::vector<std::string>> chunks_of(const std::string& path) {
  const std::string content = read_file(path);
  const ParquetSource source(content, path);
  ThriftValue metadata = source.metadata();
  std::vector<std::vector<std::string>> chunks;
  for (ThriftValue& group : metadata.find(file_groups)->items) {
    chunks.emplace_back();
    for (ThriftValue& chunk : group.find(group_chunks)->items) {
      const ThriftValue& column = *chunk.find(chunk_metadata);
      const std::int64_t dictionary = column.integer_at(column_dictionary_page, 0);
      const std::int64_t begin = dictionary > 0 ? dictionary : column.integer_at(column_data_page, 0);
      chunks.back().push_back(source.read(begin, column.integer_at(column_compressed_bytes, 0)));
    }
  }
  return chunks;
}

/// All of the metadata but the row groups.
std::string rest_of_metadata(const std::string& path) {
  ThriftValue metadata = ParquetSource(read_file(path), path).metadata();
  metadata.find(file_groups)->items.clear();
  return format_thrift(metadata);
}

TEST_P(ParquetRewritingTest, WhatDidNotChangeIsCarriedOver) {
  const std::string path = copy(GetParam().name);
  const auto before = chunks_of(path);
  const std::string rest = rest_of_metadata(path);
  const float value = -12345;
  std::vector<char> expected = coordinates();
  std::memcpy(expected.data() + 12 * 33'333 + 4, &value, sizeof value);
  {
    const auto store = open_store(url(GetParam().name, "columns=x,y,z"), OpenMode::read_write);
    ASSERT_EQ(store->write(expected.data() + 12 * 33'333, 12, 12 * 33'333), 12);
    // As it was: nothing of it is encoded again.
    ASSERT_EQ(store->write(expected.data() + 960'000, 9000, 960'000), 9000);
    ASSERT_EQ(store->flush(), 0);
  }
  const auto after = chunks_of(path);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t group = 0; group < after.size(); ++group) {
    for (std::size_t column = 0; column < after[group].size(); ++column) {
      const bool changed = group == GetParam().changed_group && column == 1;
      EXPECT_EQ(after[group][column] == before[group][column], !changed) << group << " " << column;
    }
  }
  EXPECT_EQ(rest_of_metadata(path), rest);
  expect_equal(*open_store(url(GetParam().name, "columns=x,y,z"), OpenMode::read_only), expected);
}

INSTANTIATE_TEST_SUITE_P(Files, ParquetRewritingTest,
                         testing::Values(WrittenFile{"points.parquet", 3}, WrittenFile{"indexed.parquet", 3},
                                         WrittenFile{"plain.parquet", 1}, WrittenFile{"gzip.parquet", 1},
                                         WrittenFile{"required.parquet", 4}),
                         [](const auto& file) {
                           return std::string(file.param.name, std::strlen(file.param.name) - 8);
                         });

TEST_F(ParquetWritingTest, AFileThatWasWrittenToAndNotChangedStaysTheSame) {
  const std::string path = copy("points.parquet");
  const auto inode = [&] {
    struct stat status = {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_ino;
  };
  const ino_t before = inode();
  const std::vector<char> same = coordinates();
  const auto store = open_store(url("points.parquet", "columns=x,y,z"), OpenMode::read_write);
  ASSERT_EQ(store->write(same.data(), same.size(), 0), static_cast<std::int64_t>(same.size()));
  EXPECT_EQ(store->flush(), 0);
  EXPECT_EQ(inode(), before);
}

TEST_F(ParquetWritingTest, EveryTypeIsWrittenAsItIsRead) {
  const std::string columns =
      "i1,i2,i4,i8,u1,u2,u4,u8,f2,f4,f8,high,low,truth,date,stamp,time,fixed,money,inside.a,inside.b";
  const std::string where = copied_url("types.parquet", "columns=" + columns);
  std::vector<char> values;
  {
    const auto store = open_store(where, OpenMode::read_write);
    values.resize(store->size_bytes());
    ASSERT_EQ(store->read(values.data(), values.size(), 0), static_cast<std::int64_t>(values.size()));
    // Every row becomes the next one: values that each column can have.
    const std::size_t record = values.size() / 5000;
    std::rotate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(record), values.end());
    ASSERT_EQ(store->write(values.data(), values.size(), 0), static_cast<std::int64_t>(values.size()));
  }
  expect_equal(*open_store(where, OpenMode::read_only), values);
}

TEST_F(ParquetWritingTest, NullsStayUntilTheyAreGivenAValue) {
  const std::string where = copied_url("nulls.parquet", "columns=some,whole&nulls=0");
  {
    auto store = open_store(where, OpenMode::read_write);
    const double some = 5;
    ASSERT_EQ(store->write(&some, 8, 16 * 1001), 8);  // Row 1001 is null, and so is 1008.
    ASSERT_EQ(store->write(&some, 8, 16 * 1003), 8);
  }
  expect_said(refusal(url("nulls.parquet", "columns=some"), EINVAL), {"has 142 nulls in row group 1"});
  expect_said(refusal(url("nulls.parquet", "columns=whole"), EINVAL), {"has 143 nulls in row group 1"});
  struct Row {
    double some;
    std::int64_t whole;
  };
  auto rows = Vector<Row>::open_read_only(where);
  EXPECT_EQ(rows[1001].some, 5);
  EXPECT_EQ(rows[1003].some, 5);
  EXPECT_EQ(rows[1008].some, 0);
  EXPECT_EQ(rows[1002].some, 1002);
}

TEST_F(ParquetWritingTest, ThreadsWriteBesideEachOtherWhileFilesAreReplaced) {
  std::vector<char> expected = coordinates();
  const std::string where = copied_url("points.parquet", "columns=x,y,z&decoded=250KiB");
  {
    const auto store = open_store(where, OpenMode::read_write);
    std::vector<std::thread> workers;
    for (std::uint64_t part = 0; part < 4; ++part) {
      workers.emplace_back([&, part] {
        random_work(*store, expected, expected.size() * part / 4, expected.size() * (part + 1) / 4, 30, 10 + part);
      });
    }
    for (int time = 0; time < 3; ++time) {
      EXPECT_EQ(store->flush(), 0);
    }
    for (std::thread& worker : workers) {
      worker.join();
    }
  }
  expect_equal(*open_store(where, OpenMode::read_only), expected);
}

/// Many calls of `use` at once until settle() has returned, or so many were made. Whether it returned before that.
template <typename Use>
bool settles_among(Store& store, int most_calls, const Use& use) {
  std::atomic<int> calls{0};
  std::atomic<bool> settled{false};
  std::vector<std::thread> others;
  for (std::uint64_t other = 0; other < 6; ++other) {
    others.emplace_back([&, other] {
      std::mt19937_64 random(other);
      while (!settled && calls++ < most_calls) {
        use(other, random());
      }
    });
  }
  while (calls < 100) {
    std::this_thread::yield();
  }
  EXPECT_EQ(store.settle(), 0);
  const bool before = calls < most_calls;
  settled = true;
  for (std::thread& other : others) {
    other.join();
  }
  return before;
}

TEST_F(ParquetWritingTest, WhoSettlesWaitsForNobodyWhoComesLater) {
  const std::string where = copied_url("points.parquet", "columns=x,y,z&decoded=250KiB");
  const auto store = open_store(where, OpenMode::read_write);
  ASSERT_EQ(store->write("more", 4, 0), 4);
  // Each of them has to have a row group decoded, for which it waits beside the others.
  EXPECT_TRUE(settles_among(*store, 10'000, [&](std::uint64_t, std::uint64_t random) {
    char byte = 0;
    EXPECT_EQ(store->read(&byte, 1, 12 * (random % point_rows)), 1);
  })) << "among readers";
  ASSERT_EQ(store->write("less", 4, 0), 4);
  const std::vector<char> much(100'000, 'w');
  EXPECT_TRUE(settles_among(*store, 10'000, [&](std::uint64_t other, std::uint64_t random) {
    EXPECT_EQ(store->write(much.data(), much.size(), 200'000 * other + random % 100'000), 100'000);
  })) << "among writers";
}

TEST_F(ParquetWritingTest, OfManyFilesThoseThatChangedAreReplaced) {
  std::vector<std::string> before;
  for (const char* name : {"part-0.parquet", "part-1.parquet", "part-2.parquet", "part-3.parquet"}) {
    before.push_back(read_file(copy(name)));
  }
  std::vector<char> expected = coordinates();
  {
    const auto store = open_store(url("part-*", "columns=x,y,z"), OpenMode::read_write);
    random_work(*store, expected, 12 * 65'000, 12 * 75'000, 20, 5);
    EXPECT_EQ(store->flush(), 0);
    random_work(*store, expected, 12 * 65'000, 12 * 75'000, 20, 6);
  }
  expect_equal(*open_store(url("part-*", "columns=x,y,z"), OpenMode::read_only), expected);
  EXPECT_EQ(read_file(directory_ / "part-0.parquet"), before[0]);
  EXPECT_EQ(read_file(directory_ / "part-1.parquet"), before[1]);
  EXPECT_NE(read_file(directory_ / "part-2.parquet"), before[2]);
  EXPECT_NE(read_file(directory_ / "part-3.parquet"), before[3]);
  EXPECT_EQ(names_there().size(), 4U);
}

TEST_F(ParquetWritingTest, WhoHasTheOldFileOpenKeepsIt) {
  const std::string where = copied_url("points.parquet", "columns=x,y,z");
  ASSERT_EQ(::chmod((directory_ / "points.parquet").c_str(), 0640), 0);
  std::filesystem::create_symlink("points.parquet", directory_ / "link");
  const std::vector<char> old = coordinates();
  const auto reader = open_store(where, OpenMode::read_only);
  auto writer = open_store(url("link", "columns=x,y,z"), OpenMode::read_write);
  expect_said(refusal(where, EBUSY, OpenMode::read_write), {"is being written by another"});
  ASSERT_EQ(writer->write("abcd", 4, 0), 4);
  ASSERT_EQ(writer->flush(), 0);
  refusal(where, EBUSY, OpenMode::read_write);
  expect_equal(*reader, old);
  EXPECT_EQ(std::memcmp(old.data(), "abcd", 4) == 0, false);
  EXPECT_TRUE(std::filesystem::is_symlink(directory_ / "link"));
  struct stat status = {};
  ASSERT_EQ(::stat((directory_ / "points.parquet").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
  writer.reset();
  EXPECT_EQ(open_store(where, OpenMode::read_write)->size_bytes(), old.size());
}

TEST_F(ParquetWritingTest, WhatCannotBeWrittenStaysAndIsTriedAgain) {
  const std::string before = read_file(copy("points.parquet"));
  std::vector<char> expected = coordinates();
  {
    const auto store = open_store(url("points.parquet", "columns=x,y,z"), OpenMode::read_write);
    random_work(*store, expected, 0, expected.size(), 20, 1);
    testing::internal::CaptureStderr();
    {
      const FileSizeLimit limit(100'000);
      EXPECT_EQ(store->flush(), -EFBIG);
      EXPECT_EQ(store->flush(), -EFBIG);
    }
    const std::string said = testing::internal::GetCapturedStderr();
    expect_said(said, {"points.parquet cannot be written anew"});
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
    EXPECT_EQ(read_file(directory_ / "points.parquet"), before);
    EXPECT_EQ(names_there().size(), 1U);
    expect_equal(*store, expected);
    EXPECT_EQ(store->flush(), 0);
  }
  expect_equal(*open_store(url("points.parquet", "columns=x,y,z"), OpenMode::read_only), expected);
}

TEST_F(ParquetWritingTest, NobodyHasToHearWhatCannotBeWritten) {
  copy("points.parquet");
  auto store = open_store(url("points.parquet", "columns=x,y,z"), OpenMode::read_write);
  ASSERT_EQ(store->write("abcd", 4, 0), 4);
  const UnreadStandardError unread;
  const FileSizeLimit limit(100'000);
  EXPECT_EQ(store->flush(), -EFBIG);
  store.reset();  // Says that it is lost.
}

TEST_F(ParquetWritingTest, AFileThatAnotherProgramReplacedIsLeftToIt) {
  const std::string where = copied_url("points.parquet", "columns=x,y,z");
  const std::string other = read_file(copy("types.parquet"));
  testing::internal::CaptureStderr();
  {
    const auto store = open_store(where, OpenMode::read_write);
    ASSERT_EQ(store->write("abcd", 4, 0), 4);
    std::filesystem::rename(directory_ / "types.parquet", directory_ / "points.parquet");
    EXPECT_EQ(store->flush(), -ESTALE);
  }
  expect_said(testing::internal::GetCapturedStderr(), {"was replaced by another program", "what was written is lost"});
  EXPECT_EQ(read_file(directory_ / "points.parquet"), other);
}

TEST_F(ParquetWritingTest, RowsStayWhereTheyAreThoughAnotherProgramReplacesAFileBesideThem) {
  std::vector<char> expected = coordinates();
  for (const char* name : {"part-0.parquet", "part-1.parquet", "part-2.parquet", "part-3.parquet"}) {
    copy(name);
  }
  const std::string other = read_file(copy("points.parquet"));
  const auto store = open_store(url("part-*", "columns=x,y,z"), OpenMode::read_write);
  const std::uint64_t last = expected.size() - 12;
  for (const char* text : {"abcd", "efgh"}) {
    ASSERT_EQ(store->write(text, 4, last), 4);
    std::memcpy(expected.data() + last, text, 4);
    if (std::filesystem::exists(directory_ / "points.parquet")) {
      std::filesystem::rename(directory_ / "points.parquet", directory_ / "part-0.parquet");  // Of more rows.
    }
    ASSERT_EQ(store->flush(), 0);
    expect_equal(*store, expected);
  }
  EXPECT_EQ(read_file(directory_ / "part-0.parquet"), other);
  testing::internal::CaptureStderr();
  ASSERT_EQ(store->write("abcd", 4, 0), 4);
  EXPECT_EQ(store->flush(), -ESTALE);
  expect_said(testing::internal::GetCapturedStderr(), {"part-0.parquet was replaced by another program"});
  EXPECT_EQ(read_file(directory_ / "part-0.parquet"), other);
}

// The first file is replaced already, the second one not, when what was written into the first is taken back.
TEST_F(ParquetWritingTest, WhatIsTakenBackAfterAnAttemptThatFailedIsThere) {
  copy("points.parquet");
  std::filesystem::rename(directory_ / "points.parquet", directory_ / "first.parquet");
  copy("points.parquet");
  const std::string path = directory_ / "points.parquet";
  std::vector<char> expected = coordinates();
  const std::vector<char> once = expected;
  expected.insert(expected.end(), once.begin(), once.end());
  const std::string where = url("*.parquet", "columns=x,y,z");
  {
    const UnreadStandardError unread;
    const auto store = open_store(where, OpenMode::read_write);
    ASSERT_EQ(store->write("abcd", 4, 0), 4);
    ASSERT_EQ(store->write("abcd", 4, once.size()), 4);
    std::memcpy(expected.data() + once.size(), "abcd", 4);
    std::filesystem::rename(path, path + ".away");
    ASSERT_EQ(store->flush(), -ESTALE);
    std::filesystem::rename(path + ".away", path);
    ASSERT_EQ(store->write(once.data(), 4, 0), 4);
    EXPECT_EQ(store->flush(), 0);
    expect_equal(*store, expected);
  }
  expect_equal(*open_store(where, OpenMode::read_only), expected);
}

TEST_F(ParquetWritingTest, WhoeverIsKilledLeavesAWholeFile) {
  copy("points.parquet");
  const std::string where = url("points.parquet", "columns=id");
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::int64_t last = -1;
  for (int round = 0; round < 8; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      // All numbers become one that rises with each flush.
      const auto store = open_store(where, OpenMode::read_write);
      std::int64_t number = 0;
      store->read(&number, sizeof number, 0);
      for (number = std::max<std::int64_t>(number, round * 1000);; ++number) {
        const std::vector<std::int64_t> numbers(point_rows, number + 1);
        store->write(numbers.data(), numbers.size() * sizeof(std::int64_t), 0);
        if (store->flush() != 0) {
          ::_exit(1);
        }
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + random() % 150));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    const auto store = open_store(where, OpenMode::read_only);
    std::vector<std::int64_t> numbers(point_rows);
    ASSERT_EQ(store->read(numbers.data(), numbers.size() * 8, 0), static_cast<std::int64_t>(numbers.size() * 8));
    if (numbers[1] == 3) {
      continue;  // The first file is still there.
    }
    EXPECT_EQ(std::count(numbers.begin(), numbers.end(), numbers[0]), static_cast<std::ptrdiff_t>(numbers.size()));
    EXPECT_GE(numbers[0], last);
    last = numbers[0];
  }
  // What was left beside it goes with the next that writes.
  {
    const auto store = open_store(where, OpenMode::read_write);
    const std::int64_t number = 1;
    ASSERT_EQ(store->write(&number, sizeof number, 0), 8);
  }
  EXPECT_EQ(names_there(), std::vector<std::string>{"points.parquet"});
}

TEST_F(ParquetWritingTest, AVectorIsChangedInATenthOfItsMemory) {
  using Point = std::array<float, 3>;
  VectorOptions options;
  options.budget_bytes = 128 << 10;
  options.page_size_bytes = 4 << 10;
  const std::string where = copied_url("points.parquet", "columns=x,y,z&decoded=120000");
  auto points = Vector<Point>::open(where, options);
  points.read_write().for_each([](Point& point) { point[2] = point[0] + point[1]; });
  points.close();
  auto changed = Vector<Point>::open_read_only(where, options);
  changed.read().for_each([](const Point& point) { ASSERT_EQ(point[2], point[0] + point[1]); });
}

}  // namespace
}  // namespace tiermap
