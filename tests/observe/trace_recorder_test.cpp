// What is recorded is read back in order; what does not fit is counted where it is missing; files of others are left
// alone, and files that are no traces, or are cut off, are refused in one line.
#include "observe/trace_recorder.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <sstream>

#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page_bytes = 65536;

struct ReadTrace {
  std::vector<TraceRecord> records;
  std::uint64_t lost = 0;
  bool complete = false;
};

ReadTrace read_back(const std::string& path) {
  ReadTrace trace;
  TraceReader reader(path);
  while (const std::optional<TraceRecord> record = reader.next()) {
    if (record->kind == TraceKind::lost) {
      trace.lost += record->page;
    } else if (record->kind != TraceKind::region && record->kind != TraceKind::end) {
      trace.records.push_back(*record);
    }
  }
  trace.complete = reader.complete();
  return trace;
}

TraceRecord fill(std::uint64_t page) {
  return {TraceKind::fill, page % 3 == 0, 1, page};
}

/// The message of the OptionError that `action` ends in.
template <typename Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const OptionError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

class TraceFile : public ::testing::Test {
 protected:
  /// A trace of one region and some of its pages.
  void record(const std::string& pattern, std::uint64_t pages, std::size_t words = TraceRecorder::buffer_words) {
    TraceRecorder recorder(pattern, 1 << 20, "cyclic", words);
    recorder.begin_region(1, page_bytes, 1000 * page_bytes, "file:/somewhere");
    for (std::uint64_t page = 0; page < pages; ++page) {
      recorder.record(fill(page));
    }
  }
  std::string read_all(const std::string& bytes) {
    return refusal([&] {
      std::istringstream input(bytes);
      TraceReader reader(input, "changed.trace");
      while (reader.next()) {
      }
    });
  }
  /// How a child ended that did this.
  template <typename Child>
  static int run_child(Child child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      child();
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status;
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "run.trace";
};

TEST_F(TraceFile, EveryRecordIsReadBackInOrder) {
  const std::vector<TraceRecord> records = {
      {TraceKind::fill, true, 7, 5},
      {TraceKind::read_ahead, false, 7, TraceRecord::most_page},
      {TraceKind::first_use, false, 7, TraceRecord::most_page},
      {TraceKind::rescue, true, 7, 0},
      {TraceKind::first_write, true, 7, 1},
      {TraceKind::told, false, 7, 2},
      {TraceKind::evicted, false, 7, 5},
      {TraceKind::discarded, false, 7, 0},
      {TraceKind::region_end, false, 7, 0},
  };
  {
    TraceRecorder recorder(path_, 123456, "a policy whose name is too long for it");
    recorder.begin_region(7, page_bytes, 99, std::string(300, 'x') + "/the end");
    for (const TraceRecord& record : records) {
      recorder.record(record);
    }
  }
  const ReadTrace trace = read_back(path_);
  EXPECT_EQ(trace.records, records);
  EXPECT_TRUE(trace.complete);
  EXPECT_EQ(trace.lost, 0U);
  TraceReader reader(path_);
  ASSERT_TRUE(reader.next().has_value());
  EXPECT_EQ(reader.header().budget_bytes, 123456U);
  EXPECT_EQ(reader.header().process, ::getpid());
  EXPECT_EQ(std::string(reader.header().policy.data()), "a policy whose name is ");
  EXPECT_EQ(reader.region(7).page_bytes, page_bytes);
  EXPECT_EQ(reader.region(7).length_bytes, 99U);
  EXPECT_TRUE(std::string(reader.region(7).name.data()).ends_with("xx/the end"));
}

TEST_F(TraceFile, WhatFindsNoRoomIsCountedWhereItIsMissing) {
  constexpr std::uint64_t pages = 200'000;
  record(path_, pages, 64);
  const ReadTrace trace = read_back(path_);
  EXPECT_TRUE(trace.complete);
  EXPECT_EQ(trace.records.size() + trace.lost, pages);
  EXPECT_GT(trace.lost, 0U) << "64 words should not have kept up";
  for (std::size_t index = 1; index < trace.records.size(); ++index) {
    ASSERT_LT(trace.records[index - 1].page, trace.records[index].page);
  }
}

TEST_F(TraceFile, RegionsWaitForRoomAndAreNeverLost) {
  {
    TraceRecorder recorder(path_, 1, "fifo", 40);
    for (std::uint32_t region = 1; region <= 50; ++region) {
      recorder.begin_region(region, page_bytes, page_bytes, "memory:1");
    }
  }
  TraceReader reader(path_);
  std::uint32_t regions = 0;
  while (const auto record = reader.next()) {
    regions += record->kind == TraceKind::region ? 1U : 0U;
  }
  EXPECT_EQ(regions, 50U);
}

TEST_F(TraceFile, RegionsOfTheSameBytesAreTold) {
  {
    TraceRecorder recorder(path_, 1, "fifo");
    recorder.begin_region(3, page_bytes, page_bytes, "memory:1");
    recorder.begin_region(9, page_bytes, page_bytes, "memory:1");
    recorder.begin_region(4, 4096, page_bytes, "memory:1", true);
    recorder.begin_region(5, 1 << 20, page_bytes, "memory:1", true);
    recorder.record({TraceKind::fill, false, 5, 0});
  }
  TraceReader reader(path_);
  while (reader.next()) {
  }
  for (const std::uint32_t region : {3U, 4U, 5U}) {
    EXPECT_EQ(reader.first_of_same_bytes(region), 3U) << region;
  }
  EXPECT_EQ(reader.first_of_same_bytes(9), 9U);
}

TEST_F(TraceFile, WhatNobodyAccessedLeavesNoFile) {
  {
    TraceRecorder recorder(path_, 1, "fifo");
    recorder.begin_region(1, page_bytes, page_bytes, "memory:1");
    recorder.record({TraceKind::region_end, false, 1, 0});
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(TraceFile, FurtherCachesOfAProcessHaveFilesOfTheirOwn) {
  record(path_, 3);
  record(path_, 4);
  record(path_, 5);
  EXPECT_EQ(read_back(path_).records.size(), 3U);
  EXPECT_EQ(read_back(path_ + ".2").records.size(), 4U);
  EXPECT_EQ(read_back(path_ + ".3").records.size(), 5U);
}

TEST_F(TraceFile, TheProcessCanBePartOfTheName) {
  record(directory_ / "%p-%p.trace", 2);
  const std::string number = std::to_string(::getpid());
  EXPECT_EQ(read_back(directory_ / (number + "-" + number + ".trace")).records.size(), 2U);
}

TEST_F(TraceFile, FilesThatAreSomebodyElsesAreLeftAlone) {
  write_file(path_, "precious");
  EXPECT_EQ(refusal([&] { record(path_, 1); }), "trace file " + path_ +
                                                    " exists: remove it, or write %p into the name, which becomes the "
                                                    "number of the process");
  EXPECT_EQ(read_file(path_), "precious");
  const std::string other = directory_ / "child.trace";
  ASSERT_EQ(run_child([&] { record(other, 1); }), 0);
  const std::string before = read_file(other);
  EXPECT_NE(refusal([&] { record(other, 1); }).find(" exists"), std::string::npos);
  EXPECT_EQ(read_file(other), before);
  EXPECT_NE(refusal([&] { record(directory_.path(), 1); }).find("no plain file"), std::string::npos);
  EXPECT_NE(refusal([&] { record(directory_ / "none/run.trace", 1); }).find(" cannot be made: "), std::string::npos);
}

TEST_F(TraceFile, AFileThatSomebodyElseMakesMeanwhileIsToldOfWithARemedy) {
  int output[2];
  ASSERT_EQ(::pipe(output), 0);
  const int status = run_child([&] {
    ::dup2(output[1], STDERR_FILENO);
    TraceRecorder recorder(path_, 1, "fifo");
    write_file(path_, "precious");
    recorder.record(fill(1));
  });
  EXPECT_EQ(status, 0);
  std::string said(1000, '\0');
  said.resize(static_cast<std::size_t>(::read(output[0], said.data(), said.size())));
  EXPECT_EQ(said, "tiermap: trace file " + path_ +
                      " exists: remove it, or write %p into the name, which becomes the number of the process; nothing "
                      "more is recorded\n");
  EXPECT_EQ(read_file(path_), "precious");
}

TEST_F(TraceFile, AForkedChildWritesNothingIntoItsParentsTrace) {
  {
    TraceRecorder recorder(path_, 1, "fifo");
    recorder.begin_region(1, page_bytes, page_bytes, "memory:1");
    recorder.record(fill(1));
    EXPECT_EQ(run_child([&] { recorder.record(fill(2)); }), 0);
    recorder.record(fill(3));
  }
  EXPECT_EQ(read_back(path_).records, (std::vector<TraceRecord>{fill(1), fill(3)}));
}

// As those of programs in C that give up no cache, and of umap.h's library.
TEST_F(TraceFile, OneThatIsThereAtTheEndOfTheProcessIsWrittenByExit) {
  EXPECT_EQ(run_child([&] {
              static TraceRecorder* const kept = new TraceRecorder(path_, 1, "fifo");
              kept->begin_region(1, page_bytes, page_bytes, "memory:1");
              kept->record(fill(1));
              kept->record(fill(2));
              // Its own child has nothing to write.
              EXPECT_EQ(run_child([] { TraceRecorder::settle_all(); }), 0);
              std::exit(0);
            }),
            0);
  const ReadTrace trace = read_back(path_);
  EXPECT_EQ(trace.records, (std::vector<TraceRecord>{fill(1), fill(2)}));
  EXPECT_TRUE(trace.complete);
}

TEST_F(TraceFile, WhereTheProcessGoesOnAfterItsEndSoDoesTheTrace) {
  {
    TraceRecorder recorder(path_, 1, "fifo");
    recorder.begin_region(1, page_bytes, page_bytes, "memory:1");
    TraceRecorder::settle_all();
    EXPECT_FALSE(std::filesystem::exists(path_)) << "nothing was accessed";
    recorder.record(fill(1));
    for (std::uint64_t page = 2; page <= 3; ++page) {
      TraceRecorder::settle_all();
      TraceRecorder::settle_all();
      const ReadTrace trace = read_back(path_);
      EXPECT_TRUE(trace.complete);
      EXPECT_EQ(trace.records.size(), page - 1);
      recorder.record(fill(page));
    }
  }
  TraceRecorder::settle_all();
  const ReadTrace trace = read_back(path_);
  EXPECT_EQ(trace.records, (std::vector<TraceRecord>{fill(1), fill(2), fill(3)}));
  EXPECT_TRUE(trace.complete);
}

TEST_F(TraceFile, AFullDiskEndsTheTraceAndTheProgramGoesOn) {
  constexpr std::uint64_t room = 100'004;
  int output[2];
  ASSERT_EQ(::pipe(output), 0);
  const int status = run_child([&] {
    ::dup2(output[1], STDERR_FILENO);
    const rlimit limit{room, room};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    record(path_, 100'000);
  });
  EXPECT_EQ(status, 0);
  std::string said(1000, '\0');
  said.resize(static_cast<std::size_t>(::read(output[0], said.data(), said.size())));
  EXPECT_EQ(said, "tiermap: trace file " + path_ + " cannot be written: File too large; nothing more is recorded\n");
  const ReadTrace trace = read_back(path_);
  EXPECT_FALSE(trace.complete);
  EXPECT_GT(trace.records.size(), 10'000U);
  for (std::size_t index = 0; index < trace.records.size(); ++index) {
    ASSERT_EQ(trace.records[index], fill(index));
  }
  ::close(output[0]);
  ::close(output[1]);
}

// As of an application that maps once to check its options, once to work and once to look at what came of it.
TEST_F(TraceFile, ADiskWithoutAnyRoomIsInNobodysWayEither) {
  const int status = run_child([&] {
    ::close(STDERR_FILENO);
    const rlimit limit{sizeof(TraceHeader) - 1, sizeof(TraceHeader) - 1};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    for (int cache = 0; cache < 3; ++cache) {
      try {
        record(path_, 3);
      } catch (const OptionError&) {
        ::_exit(1);
      }
    }
  });
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(std::filesystem::exists(path_)) << "it is no trace";
}

TEST_F(TraceFile, ADiskThatIsFullWithinARegionsDescriptionLeavesWhatCameBefore) {
  const int status = run_child([&] {
    ::close(STDERR_FILENO);
    constexpr std::uint64_t room = sizeof(TraceHeader) + (1 + trace_region_words + 1 + 5) * sizeof(std::uint64_t);
    const rlimit limit{room, room};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    TraceRecorder recorder(path_, 1 << 20, "cyclic");
    recorder.begin_region(1, page_bytes, 1000 * page_bytes, "file:/somewhere");
    recorder.record(fill(0));
    recorder.begin_region(2, page_bytes, 1000 * page_bytes, "file:/elsewhere");
  });
  EXPECT_EQ(status, 0);
  const ReadTrace trace = read_back(path_);
  EXPECT_EQ(trace.records, std::vector<TraceRecord>{fill(0)});
  EXPECT_FALSE(trace.complete);
}

TEST_F(TraceFile, WhatIsNoTraceOrIsCutOffIsRefused) {
  record(path_, 3);
  const std::string good = read_file(path_);
  ASSERT_EQ(good.size(), sizeof(TraceHeader) + (1 + trace_region_words + 3 + 1) * sizeof(std::uint64_t));
  for (std::size_t length = 0; length < good.size(); ++length) {
    if (length < sizeof(TraceHeader) || length % sizeof(std::uint64_t) != 0) {
      const std::string message = read_all(good.substr(0, length));
      EXPECT_NE(message.find(length < sizeof(TraceHeader) ? "is no trace" : "cut off"), std::string::npos) << message;
    }
  }
  std::string changed = good;
  changed[8] = 2;
  EXPECT_NE(read_all(changed).find("is a trace of version 2, and this program reads version 1"), std::string::npos);
  EXPECT_NE(read_all(good + std::string(8, '\0')).find("follows the end"), std::string::npos);
  changed = good;
  changed[sizeof(TraceHeader) + 7] = '\xF0';
  EXPECT_NE(read_all(changed).find("byte 72: records of kind 15 are unknown"), std::string::npos);
  changed = good;
  changed[sizeof(TraceHeader) + 8] = 1;
  EXPECT_NE(read_all(changed).find("no page size"), std::string::npos);
  changed = good;
  changed[sizeof(TraceHeader) + 7] = '\x08';
  EXPECT_NE(read_all(changed).find("has the bytes of one that was not described"), std::string::npos);
  changed = good;
  changed[good.size() - 12] = '\x20';
  EXPECT_NE(read_all(changed).find("was not described"), std::string::npos) << read_all(changed);
  EXPECT_NE(refusal([&] { TraceReader reader(directory_ / "none"); }).find("cannot be opened"), std::string::npos);
}

}  // namespace
}  // namespace tiermap
