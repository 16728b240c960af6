// kill -9 at any time: every transaction that was acknowledged is in the pool afterwards, none is there by half, and
// both indexes agree. A real program on a real file, killed again and again while it loads and while it works.
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "apps/program_fixture.hpp"
#include "command_line/memory_system.hpp"
#include "ycsb/pool_file.hpp"
#include "ycsb/pool_store.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-ycsb";
constexpr std::uint32_t partitions = 8;
constexpr std::uint64_t records = 12'000;

class YcsbKillTest : public ProgramTest, public testing::WithParamInterface<std::string> {
 protected:
  std::string pool() const { return path("work/pool"); }
  /// Small pages, a small budget and a small log: eviction, splits and checkpoints all the time.
  std::vector<std::string> arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {
        "--system", GetParam(),    "--file", pool(),      "--budget", "1MiB",          "--page-size",
        "4KiB",     "--log-limit", "512KiB", "--threads", "6",        "--acknowledge", path("acknowledged"),
        "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  /// Whether the pool has a header: until then there is nothing to recover.
  bool is_made() const {
    std::ifstream file(pool());
    std::string magic(8, '\0');
    return file.read(magic.data(), 8) && magic == "TIERPOOL";
  }

  void remove_what_was_begun() const {
    for (const char* behind : {"", ".partial", ".log"}) {
      std::filesystem::remove(pool() + behind);
    }
  }

  /// The last version of each record that the program said was committed.
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> acknowledged() const {
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> versions;
    std::ifstream file(path("acknowledged"));
    std::uint32_t partition = 0;
    std::uint64_t number = 0;
    std::uint64_t version = 0;
    while (file >> partition >> number >> version) {
      std::uint64_t& last = versions[{partition, number}];
      last = std::max(last, version);
    }
    return versions;
  }

  /// Recovers the pool here, on the same system, and compares. Returns how many frames of the log were replayed.
  std::uint64_t expect_all_acknowledged() const {
    WorkloadOptions options;
    options.system = GetParam() == "tiermap" ? System::tiermap : System::mmap;
    options.budget_bytes = 16U << 20U;
    options.page_size_bytes = 4096;
    const auto system = MemorySystem::make(options);
    const auto file = PoolFile::open(pool(), Durability::none);
    const auto mapped = system->map(file->backing(), Access::read_write);
    const std::uint64_t frames = file->recover(*mapped).frames;
    PoolStore by_hash(*mapped, file->layout(), &file->log(), {IndexKind::hash, 0});
    PoolStore by_order(*mapped, file->layout(), &file->log(), {IndexKind::ordered, 0});
    ThreadTeam team(2);
    EXPECT_EQ(by_hash.check(team), "");
    const RecordFormat& format = file->layout().format();
    std::vector<std::byte> record(static_cast<std::size_t>(format.record_bytes()));
    const auto versions = acknowledged();
    for (const auto& [name, version] : versions) {
      const auto& [partition, number] = name;
      const std::uint64_t key = format.key_of(partition, number);
      for (PoolStore* store : {&by_hash, &by_order}) {
        if (!store->read(partition, key, record)) {
          ADD_FAILURE() << "partition " << partition << " lost record " << number;
          continue;
        }
        // One more may have been committed, and the program killed before it could say so.
        EXPECT_TRUE(format.is_right(record, key, version) || format.is_right(record, key, version + 1))
            << "record " << number << " of partition " << partition << " is not in version " << version;
      }
    }
    // What is there now counts as acknowledged from now on: the next kill may hit the same record.
    std::ofstream now(path("acknowledged"));
    for (std::uint32_t partition = 0; partition < partitions; ++partition) {
      for (std::uint64_t number = 0; number < by_hash.records(partition); ++number) {
        const std::uint64_t key = format.key_of(partition, number);
        EXPECT_TRUE(by_hash.read(partition, key, record));
        RecordHead head;
        std::memcpy(&head, record.data(), sizeof(head));
        EXPECT_TRUE(format.is_right(record, key, head.version));
        const auto last = versions.find({partition, number});
        EXPECT_LE(head.version, last == versions.end() ? 1 : last->second + 1);
        now << partition << ' ' << number << ' ' << head.version << '\n';
      }
    }
    return frames;
  }

  std::uint64_t acknowledged_bytes() const {
    std::error_code none_yet;
    const std::uint64_t bytes = std::filesystem::file_size(path("acknowledged"), none_yet);
    return none_yet ? 0 : bytes;
  }
  static bool has_ended(pid_t child) {
    siginfo_t information{};
    ::waitid(P_PID, static_cast<id_t>(child), &information, WEXITED | WNOHANG | WNOWAIT);
    return information.si_pid == child;
  }

  /// Starts the program and kills it at a random time, mostly after its first commit; false if it was done before.
  bool kill_once(const std::vector<std::string>& words, std::mt19937_64& random) const {
    const std::uint64_t before = acknowledged_bytes();
    const pid_t child = start(program, words);
    const bool while_it_starts = random() % 4 == 0;
    while (!while_it_starts && acknowledged_bytes() == before && !has_ended(child)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
    ::kill(child, SIGKILL);
    const Outcome outcome = outcome_of(child);
    EXPECT_TRUE(outcome.exit_code == 0 || outcome.exit_code == 128 + SIGKILL) << outcome.errors;
    return outcome.exit_code != 0;
  }
};

TEST_P(YcsbKillTest, WhatWasAcknowledgedIsThereAndNothingByHalf) {
  const std::uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<std::string> load =
      arguments({"--records", std::to_string(records), "--value-size", "64", "--partitions", std::to_string(partitions),
                 "--durability", "none", "--capacity", "40000", "--operations", "0", "--keep"});
  std::uint64_t frames = 0;
  for (int kill = 0; kill < 4 && kill_once(load, random); ++kill) {
    if (is_made()) {
      frames += expect_all_acknowledged();
    } else {
      EXPECT_FALSE(std::filesystem::exists(pool()));
      remove_what_was_begun();
    }
  }
  const Outcome loaded = run(program, load);
  ASSERT_EQ(loaded.exit_code, 0) << loaded.errors;
  EXPECT_EQ(loaded.json().at("records"), records);
  for (const char* workload : {"a", "d", "a", "f", "d"}) {
    kill_once(arguments({"--workload", workload, "--operations", "100000", "--seed", std::to_string(random() % 1000),
                         "--no-verify"}),
              random);
    frames += expect_all_acknowledged();
  }
  EXPECT_GT(frames, 0U);
  const Outcome last = run(program, arguments({"--operations", "100"}));
  EXPECT_EQ(last.exit_code, 0) << last.errors;
  EXPECT_EQ(last.json().at("verified"), true);
}

TEST_P(YcsbKillTest, APoolHasItsNameOnceItCanBeOpened) {
  const std::vector<std::string> load =
      arguments({"--records", "500", "--value-size", "64", "--durability", "none", "--operations", "0", "--keep"});
  for (int round = 0; round < 5 && !HasFailure(); ++round) {
    const pid_t child = start(program, load);
    while (!std::filesystem::exists(pool() + ".partial") && !std::filesystem::exists(pool()) && !has_ended(child)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::kill(child, SIGKILL);
    outcome_of(child);
    const Outcome again = run(program, load);
    if (std::filesystem::exists(pool())) {
      EXPECT_EQ(again.exit_code, 0) << again.errors;
    } else {
      EXPECT_EQ(again.exit_code, 2);
      EXPECT_NE(again.errors.find("pool.partial is there: a run that was killed has left it"), std::string::npos)
          << again.errors;
    }
    remove_what_was_begun();
  }
}

// What a power failure leaves of the last frame.
TEST_P(YcsbKillTest, ATornEndOfTheLogIsIgnoredAndDamageBeforeItRefused) {
  std::mt19937_64 random(7);
  const Outcome loaded =
      run(program,
          arguments({"--records", "200", "--value-size", "64", "--partitions", "2", "--operations", "0", "--keep"}));
  ASSERT_EQ(loaded.exit_code, 0) << loaded.errors;
  const std::string log = pool() + ".log";
  do {
    std::vector<std::string> words = arguments({"--operations", "100000", "--log-limit", "1GiB"});
    words.erase(std::find(words.begin(), words.end(), "--log-limit"),
                std::find(words.begin(), words.end(), "--log-limit") + 2);
    ASSERT_TRUE(kill_once(words, random));
  } while (std::filesystem::file_size(log) < 4000);
  std::filesystem::copy_file(log, path("whole"));
  std::filesystem::copy_file(pool(), path("pool"));
  // Not a piece of a frame that was committed: the pool may have that one's changes already.
  std::ofstream(log, std::ios::binary | std::ios::app) << std::string(60, 'x');
  const Outcome recovered = run(program, arguments({"--operations", "10"}));
  EXPECT_EQ(recovered.exit_code, 0) << recovered.errors;
  EXPECT_GE(recovered.json().at("ignored_log_bytes"), 60);
  std::filesystem::copy_file(path("whole"), log, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(path("pool"), pool(), std::filesystem::copy_options::overwrite_existing);
  {
    std::fstream stream(log, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(100);
    stream.put('!');
  }
  expect_refused(program, arguments({"--operations", "10"}), "damaged at byte 32", 2);
  EXPECT_EQ(std::filesystem::file_size(log), std::filesystem::file_size(path("whole")));
}

INSTANTIATE_TEST_SUITE_P(Systems, YcsbKillTest, testing::Values("tiermap", "mmap"),
                         [](const testing::TestParamInfo<std::string>& parameter) { return parameter.param; });

}  // namespace
}  // namespace tiermap::test
