// Power fails at any moment in a heap's life, on a disk in memory that then has of what was not flushed any part. What
// is opened again is the last checkpoint that had returned, or the one that was under way.
#include "checkpoint/disk_in_memory.hpp"
#include "heap/heap_content.hpp"
#include "heap/heap_fixture.hpp"
#include "heap/heap_implementation.hpp"
#include "store/random_rounds.hpp"

namespace tiermap {
namespace {

struct OnStores;  // No type that a heap holds.

}  // namespace

/// Heap lets this class see its constructor: here it makes a heap of stores in place of files.
template <>
class HeapObjectMaker<OnStores> {
 public:
  static Heap open(const HeapOptions& options, HeapFiles files) {
    return Heap(std::make_unique<HeapImplementation>("in memory", options, true, std::move(files)));
  }
};

namespace {

constexpr std::size_t data_file = 0;
constexpr std::size_t journal_file = 1;

Bytes bytes_of(const std::string& path) {
  const std::string content = read_file(path);
  return {content.begin(), content.end()};
}

/// From which change of the disk on a state may be found, and up to which: until the next one is durable.
struct Checkpoint {
  std::size_t begun;
  std::size_t returned;
  HeapContent content;
};

class HeapPowerLoss : public HeapTest {
 protected:
  static HeapOptions options() {
    HeapOptions options;
    options.capacity_bytes = 16 << 20;
    options.budget_bytes = 256 << 10;  // So that pages leave memory between checkpoints too.
    options.page_size_bytes = 4 << 10;
    return options;
  }

  Heap open(const Bytes& data, const Bytes& journal, const std::shared_ptr<DiskLog>& log) {
    return HeapObjectMaker<OnStores>::open(options(),
                                           {std::make_shared<FileOnDisk>("journal", journal, log, journal_file),
                                            std::make_shared<FileOnDisk>("data", data, log, data_file)});
  }

  /// A heap's life; the disk's changes are in log_ afterwards, and checkpoints_ says what may be found when.
  void live(std::mt19937_64& random, HeapContent content) {
    log_ = std::make_shared<DiskLog>();
    checkpoints_ = {{0, 0, content}};
    Heap heap = open(data_, journal_, log_);
    for (int number = 0; number < 4; ++number) {
      for (std::uint64_t step = random() % 12; step > 0; --step) {
        HeapChange change = random_change(random);
        change.seed |= 4;  // Nothing large.
        content.change(change, &heap);
      }
      ++content.number;
      content.stamp(heap);
      const std::size_t begun = log_->size();
      number == 3 ? heap.close() : heap.checkpoint();
      checkpoints_.push_back({begun, log_->size(), content});
    }
  }

  /// Requires one of the contents that may be there after so many changes, and returns it.
  HeapContent require_allowed(Heap& heap, std::size_t changes) const {
    const std::uint64_t found = HeapContent::stamp_of(heap);
    std::size_t last = 0;
    for (std::size_t index = 0; index < checkpoints_.size(); ++index) {
      last = checkpoints_[index].returned <= changes ? index : last;
    }
    for (std::size_t index = last; index < checkpoints_.size() && index <= last + 1; ++index) {
      if (checkpoints_[index].content.number == found && (index == last || checkpoints_[index].begun <= changes)) {
        checkpoints_[index].content.require_same(heap);
        return checkpoints_[index].content;
      }
    }
    throw WrongHeap("checkpoint " + std::to_string(found) + " was found, and " +
                    std::to_string(checkpoints_[last].content.number) + " had returned");
  }

  Bytes data_;
  Bytes journal_;
  std::shared_ptr<DiskLog> log_;
  std::vector<Checkpoint> checkpoints_;
};

TEST_F(HeapPowerLoss, leaves_the_last_checkpoint_or_the_one_under_way) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  {
    Heap heap = Heap::create(path_, options());
    HeapContent::begin(heap);
  }
  data_ = bytes_of(path_ + "/data");
  journal_ = bytes_of(path_ + "/journal");
  HeapContent content;
  for (Rounds rounds(4); rounds.go_on() && !HasFailure(); rounds.next()) {
    ASSERT_NO_THROW(live(random, content));
    std::size_t changes = 0;
    for (int failure = 0; failure < 8; ++failure) {
      changes = random() % (log_->size() + 1);
      const Bytes data = log_->after_power_loss(data_file, data_, changes, random);
      const Bytes journal = log_->after_power_loss(journal_file, journal_, changes, random);
      Heap heap = open(data, journal, nullptr);
      ASSERT_NO_THROW(content = require_allowed(heap, changes))
          << "life " << rounds.number() << ", after " << changes << " changes";
      if (failure == 7) {
        data_ = data;
        journal_ = journal;
      }
      EXPECT_NO_THROW(HeapContent::require_no_leak(heap));
    }
  }
}

}  // namespace
}  // namespace tiermap
