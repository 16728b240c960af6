// The redo log by itself: what was committed comes back in order; what was cut off is forgotten whole; what was damaged
// is refused with its place.
#include "ycsb/redo_log.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "apps/program_fixture.hpp"
#include "tiermap/error.hpp"
#include "ycsb/log_frames.hpp"

namespace {

std::atomic<int> files_made_durable{0};

}  // namespace

/// In place of the C library's.
int fdatasync(int descriptor) {
  ++files_made_durable;
  return static_cast<int>(::syscall(SYS_fdatasync, descriptor));
}

namespace tiermap::test {
namespace {

constexpr std::uint64_t identity = 42;
constexpr std::uint64_t pool_bytes = 1 << 16;
constexpr std::uint64_t first_change = 4096;

class RedoLogTest : public ProgramTest {
 protected:
  std::string log() const { return path("work/pool.log"); }
  /// A change of one word.
  static std::vector<std::byte> change(std::uint64_t word, std::uint64_t value) {
    std::vector<std::byte> changes;
    append_change(changes, first_change + word * sizeof(value), std::as_bytes(std::span(&value, 1)));
    return changes;
  }
  /// A log of so many frames, of which the i-th writes i to word i and to word 0.
  void write_frames(std::uint64_t frames) const {
    const auto written = RedoLog::create(log(), identity, Durability::none);
    for (std::uint64_t frame = 1; frame <= frames; ++frame) {
      std::vector<std::byte> changes = change(frame, frame);
      const std::vector<std::byte> zeroth = change(0, frame);
      changes.insert(changes.end(), zeroth.begin(), zeroth.end());
      written->commit(changes);
    }
  }
  /// The pool's words after replay.
  std::vector<std::uint64_t> replayed(ReplayOutcome& outcome) const {
    const auto opened = RedoLog::open(log(), identity, Durability::none);
    std::vector<std::uint64_t> pool(pool_bytes / sizeof(std::uint64_t));
    outcome = replay_log(opened->contents(), identity, pool_bytes, [&](std::span<const std::byte> changes) {
      apply_changes(changes, std::as_writable_bytes(std::span(pool)));
    });
    pool.erase(pool.begin(), pool.begin() + first_change / sizeof(std::uint64_t));
    return pool;
  }
  void expect_words(std::uint64_t frames, std::uint64_t ignored) const {
    ReplayOutcome outcome;
    const std::vector<std::uint64_t> words = replayed(outcome);
    EXPECT_EQ(outcome.frames, frames);
    EXPECT_EQ(outcome.ignored_bytes, ignored);
    EXPECT_EQ(words[0], frames);
    for (std::uint64_t word = 1; word < words.size(); ++word) {
      ASSERT_EQ(words[word], word <= frames ? word : 0);
    }
  }
  std::string refusal() const {
    ReplayOutcome outcome;
    try {
      replayed(outcome);
    } catch (const StoreError& error) {
      return error.what();
    }
    return "";
  }
  void change_byte(std::uint64_t at) const {
    const auto opened =
        std::unique_ptr<std::FILE, decltype(&std::fclose)>(std::fopen(log().c_str(), "r+b"), std::fclose);
    std::fseek(opened.get(), static_cast<long>(at), SEEK_SET);
    const int byte = std::fgetc(opened.get());
    std::fseek(opened.get(), static_cast<long>(at), SEEK_SET);
    std::fputc(byte ^ 0x10, opened.get());
  }
  static constexpr std::uint64_t frame_bytes = sizeof(FrameHead) + 2 * (sizeof(ChangeHead) + 8);
};

TEST_F(RedoLogTest, GivesBackWhatWasCommittedInOrder) {
  write_frames(0);
  expect_words(0, 0);
  std::filesystem::remove(log());
  write_frames(20);
  expect_words(20, 0);
  expect_words(20, 0);
}

TEST_F(RedoLogTest, CommitsOfManyThreadsShareFrames) {
  constexpr std::uint64_t threads = 8;
  constexpr std::uint64_t commits = 40;
  {
    const auto written = RedoLog::create(log(), identity, Durability::sync);
    std::vector<std::thread> team;
    for (std::uint64_t thread = 0; thread < threads; ++thread) {
      team.emplace_back([&, thread] {
        for (std::uint64_t commit = 1; commit <= commits; ++commit) {
          written->commit(change(thread, commit));
        }
      });
    }
    for (std::thread& thread : team) {
      thread.join();
    }
    EXPECT_LE(written->frames(), threads * commits);
    EXPECT_EQ(written->bytes(), sizeof(LogHeader) + written->logged_bytes());
  }
  ReplayOutcome outcome;
  const std::vector<std::uint64_t> words = replayed(outcome);
  for (std::uint64_t thread = 0; thread < threads; ++thread) {
    EXPECT_EQ(words[thread], commits);
  }
}

TEST_F(RedoLogTest, ForgetsAllWhenEmptied) {
  write_frames(3);
  RedoLog::open(log(), identity, Durability::sync)->empty();
  expect_words(0, 0);
}

// What only the kernel has of it, where the process was killed, must not be gone when parts of it are in the pool.
TEST_F(RedoLogTest, WhatIsFoundIsOnTheDiskBeforeItIsGivenBack) {
  write_frames(2);
  const int before = files_made_durable;
  const auto opened = RedoLog::open(log(), identity, Durability::none);
  replay_log(opened->contents(), identity, pool_bytes,
             [&](std::span<const std::byte>) { EXPECT_GT(files_made_durable, before); });
}

TEST_F(RedoLogTest, ALastFrameThatIsCutAnywhereIsForgottenWhole) {
  write_frames(4);
  const std::uint64_t whole = std::filesystem::file_size(log());
  ASSERT_EQ(whole, sizeof(LogHeader) + 4 * frame_bytes);
  for (std::uint64_t cut = 1; cut <= frame_bytes; ++cut) {
    std::filesystem::resize_file(log(), whole - cut);
    expect_words(3, frame_bytes - cut);
  }
}

TEST_F(RedoLogTest, ALastFrameWithAnyByteChangedIsForgottenWhole) {
  write_frames(4);
  for (std::uint64_t byte = 0; byte < frame_bytes; ++byte) {
    change_byte(sizeof(LogHeader) + 3 * frame_bytes + byte);
    expect_words(3, frame_bytes);
    change_byte(sizeof(LogHeader) + 3 * frame_bytes + byte);
  }
}

TEST_F(RedoLogTest, AnEarlierFrameWithAnyByteChangedIsRefusedWithItsPlace) {
  write_frames(4);
  for (std::uint64_t frame = 0; frame < 3; ++frame) {
    const std::uint64_t begin = sizeof(LogHeader) + frame * frame_bytes;
    for (std::uint64_t byte = 0; byte < frame_bytes; ++byte) {
      change_byte(begin + byte);
      EXPECT_NE(refusal().find("damaged at byte " + std::to_string(begin)), std::string::npos) << refusal();
      change_byte(begin + byte);
    }
  }
  expect_words(4, 0);
}

TEST_F(RedoLogTest, AMissingFrameIsRefused) {
  write_frames(3);
  std::string bytes(std::filesystem::file_size(log()), '\0');
  const auto file = std::unique_ptr<std::FILE, decltype(&std::fclose)>(std::fopen(log().c_str(), "r+b"), std::fclose);
  ASSERT_EQ(std::fread(bytes.data(), 1, bytes.size(), file.get()), bytes.size());
  bytes.erase(sizeof(LogHeader) + frame_bytes, frame_bytes);
  std::rewind(file.get());
  ASSERT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file.get()), bytes.size());
  std::fflush(file.get());
  std::filesystem::resize_file(log(), bytes.size());
  EXPECT_NE(refusal().find("frame 3 follows frame 1"), std::string::npos) << refusal();
}

TEST_F(RedoLogTest, RefusesWhatIsNotItsPoolsLog) {
  EXPECT_NE(refusal().find("cannot be opened"), std::string::npos);
  write_file("work/pool.log", "short");
  EXPECT_NE(refusal().find("too short"), std::string::npos);
  write_file("work/pool.log", std::string(100, 'x'));
  EXPECT_NE(refusal().find("no pool's log"), std::string::npos);
  std::filesystem::remove(log());
  RedoLog::create(log(), identity + 1, Durability::none);
  EXPECT_NE(refusal().find("another pool"), std::string::npos);
  change_byte(sizeof(LogHeader) - 1);
  EXPECT_NE(refusal().find("damaged header"), std::string::npos);
  change_byte(8);
  EXPECT_NE(refusal().find("version 17"), std::string::npos) << refusal();
}

TEST_F(RedoLogTest, RefusesChangesOutsideThePool) {
  for (const std::uint64_t offset : {std::uint64_t{0}, first_change - 8, pool_bytes, ~std::uint64_t{7}}) {
    std::filesystem::remove(log());
    std::vector<std::byte> changes;
    const std::uint64_t word = 1;
    append_change(changes, offset, std::as_bytes(std::span(&word, 1)));
    RedoLog::create(log(), identity, Durability::none)->commit(changes);
    EXPECT_NE(refusal().find("not in the pool"), std::string::npos) << offset;
  }
}

TEST_F(RedoLogTest, IsOneOwnersAtATime) {
  const auto first = RedoLog::create(log(), identity, Durability::none);
  EXPECT_THROW(RedoLog::open(log(), identity, Durability::none), StoreError);
  EXPECT_THROW(RedoLog::create(log(), identity, Durability::none), StoreError);
}

TEST_F(RedoLogTest, AfterAFailureNothingCommits) {
  write_frames(0);
  const auto opened = RedoLog::open(log(), identity, Durability::none);
  // The file may not grow: a disk that is full.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = sizeof(LogHeader) + 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(opened->commit(change(1, 1)), StoreError);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_THROW(opened->commit(change(1, 1)), StoreError);
}

}  // namespace
}  // namespace tiermap::test
