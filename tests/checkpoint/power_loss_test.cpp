// Power fails between any two changes of the disk, also where a process was killed before and another has opened what
// the kernel had of it. Whatever was not flushed by then is there or not, sector by sector.
// What is found afterwards is the last commit that had returned or the one under way, whole.
#include <map>

#include "checkpoint/disk_in_memory.hpp"
#include "checkpoint/model.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t identity = 7;
constexpr std::size_t base_file = 0;
constexpr std::size_t journal_file = 1;

/// From which change of the disk on a state may be found, and up to which: until the next commit is durable.
struct Commit {
  std::size_t begun;
  std::size_t returned;
  Bytes content;
};

class PowerLoss : public testing::Test {
 protected:
  /// Opens, changes and commits a few times; appends to commits_. Begins with what base_ and journal_ hold.
  void work(std::mt19937_64& random, int commits) {
    log_ = std::make_shared<DiskLog>();
    const auto base = std::make_shared<FileOnDisk>("base", base_, log_, base_file);
    const auto journal = std::make_shared<FileOnDisk>("journal", journal_, log_, journal_file);
    CheckpointedStore store(base, journal, identity);
    Bytes now = content_of(store);
    commits_ = {{0, 0, now}};
    for (int number = 0; number < commits; ++number) {
      for (std::uint64_t step = random() % 12; step > 0; --step) {
        change_at_random(store, now, random, true);
      }
      const std::size_t begun = log_->size();
      ASSERT_EQ(store.commit(), 0);
      commits_.push_back({begun, log_->size(), now});
    }
  }

  /// What may be found when power fails after `changes` of them.
  bool allowed(const Bytes& found, std::size_t changes) const {
    std::size_t last = 0;
    for (std::size_t index = 0; index < commits_.size(); ++index) {
      last = commits_[index].returned <= changes ? index : last;
    }
    const bool next = last + 1 < commits_.size() && commits_[last + 1].begun <= changes;
    return found == commits_[last].content || (next && found == commits_[last + 1].content);
  }

  Bytes base_ = Bytes(90'001, 'b');
  Bytes journal_;
  std::shared_ptr<DiskLog> log_;
  std::vector<Commit> commits_;
};

TEST_F(PowerLoss, leaves_the_last_commit_or_the_one_under_way) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (Rounds rounds(5); rounds.go_on() && !HasFatalFailure(); rounds.next()) {
    base_ = Bytes(1 + random() % 90'000, 'b');
    journal_.clear();
    work(random, 4);
    for (std::size_t changes = 0; changes <= log_->size(); ++changes) {
      for (int again = 0; again < 3; ++again) {
        const Bytes base = log_->after_power_loss(base_file, base_, changes, random);
        const Bytes journal = log_->after_power_loss(journal_file, journal_, changes, random);
        // Power fails once more while that is put right.
        const auto second = std::make_shared<DiskLog>();
        {
          CheckpointedStore store(std::make_shared<FileOnDisk>("base", base, second, base_file),
                                  std::make_shared<FileOnDisk>("journal", journal, second, journal_file), identity);
          ASSERT_TRUE(allowed(content_of(store), changes)) << "after " << changes << " changes";
        }
        const std::size_t short_of = random() % (second->size() + 1);
        CheckpointedStore store(
            std::make_shared<FileOnDisk>("base", second->after_power_loss(base_file, base, short_of, random)),
            std::make_shared<FileOnDisk>("journal", second->after_power_loss(journal_file, journal, short_of, random)),
            identity);
        ASSERT_TRUE(allowed(content_of(store), changes)) << "after " << changes << " changes, and then " << short_of;
      }
    }
  }
}

/// The first `count` changes, and what is made after them.
std::shared_ptr<DiskLog> log_from(const DiskLog& log, std::size_t count) {
  auto copy = std::make_shared<DiskLog>();
  for (std::size_t index = 0; index < count; ++index) {
    copy->add(log[index]);
  }
  return copy;
}

/// As other processes see the file, whatever of it the disk has.
Bytes visible(const DiskLog& log, std::size_t file, Bytes content) {
  for (std::size_t index = 0; index < log.size(); ++index) {
    if (log[index].file == file) {
      redo(log[index], content);
    }
  }
  return content;
}

TEST_F(PowerLoss, after_a_kill_leaves_what_was_opened_then) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (Rounds rounds(5); rounds.go_on() && !HasFatalFailure(); rounds.next()) {
    base_ = Bytes(1 + random() % 90'000, 'b');
    journal_.clear();
    work(random, 3);
    for (std::size_t killed = 0; killed <= log_->size(); ++killed) {
      const std::shared_ptr<DiskLog> log = log_from(*log_, killed);
      Bytes opened;
      std::size_t open = 0;
      {
        CheckpointedStore store(
            std::make_shared<FileOnDisk>("base", visible(*log, base_file, base_), log, base_file),
            std::make_shared<FileOnDisk>("journal", visible(*log, journal_file, journal_), log, journal_file),
            identity);
        opened = content_of(store);
        open = log->size();
      }
      for (std::size_t changes = killed; changes <= log->size(); ++changes) {
        CheckpointedStore store(
            std::make_shared<FileOnDisk>("base", log->after_power_loss(base_file, base_, changes, random)),
            std::make_shared<FileOnDisk>("journal", log->after_power_loss(journal_file, journal_, changes, random)),
            identity);
        const Bytes found = content_of(store);
        ASSERT_TRUE(found == opened || (changes < open && allowed(found, killed)))
            << "killed after " << killed << " changes, without power after " << changes;
      }
    }
  }
}

// What was recovered is a state to go on from like any other.
TEST_F(PowerLoss, again_and_again) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (Rounds rounds(150); rounds.go_on() && !HasFatalFailure(); rounds.next()) {
    const int life = rounds.number();
    work(random, 3);
    const std::size_t changes = random() % (log_->size() + 1);
    const Bytes base = log_->after_power_loss(base_file, base_, changes, random);
    const Bytes journal = log_->after_power_loss(journal_file, journal_, changes, random);
    base_ = base;
    journal_ = journal;
    CheckpointedStore store(std::make_shared<FileOnDisk>("base", base),
                            std::make_shared<FileOnDisk>("journal", journal), identity, false);
    ASSERT_TRUE(allowed(content_of(store), changes)) << "life " << life << ", after " << changes << " changes";
  }
}

}  // namespace
}  // namespace tiermap
