// A process that works with a heap is killed at random moments: while it changes, checkpoints, closes and opens it,
// takes snapshots, and makes other heaps. What is opened again is the last checkpoint that had returned, or the one
// that was under way; a snapshot, or a heap that was being made, is whole or refused, and can be removed.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "heap/heap_content.hpp"
#include "heap/heap_fixture.hpp"
#include "store/random_rounds.hpp"

namespace tiermap {
namespace {

/// Shared by parent and child, outlives the child.
struct Progress {
  enum Doing : int { opening, changing, checkpointing, closing, snapshotting, creating, removing, kinds };
  std::atomic<std::uint64_t> begun;     ///< The number of the last checkpoint that was called, by whatever call,
  std::atomic<std::uint64_t> returned;  ///< and of the last that returned.
  std::atomic<std::uint64_t> snapshot;  ///< The number that the snapshot there is to hold; 0 if none is to be there;
  std::atomic<bool> snapshot_returned;
  std::atomic<bool> made;  ///< The other heap was made, and not yet removed.
  std::atomic<int> doing;
};

class SharedProgress {
 public:
  SharedProgress()
      : memory_(::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) {
      throw std::bad_alloc();
    }
  }
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;
  ~SharedProgress() { ::munmap(memory_, sizeof(Progress)); }
  Progress* operator->() const { return static_cast<Progress*>(memory_); }

 private:
  void* const memory_;
};

/// What goes into checkpoint `number`, to the heap or to what it should be.
void change(HeapContent& content, std::uint64_t number, Heap* heap) {
  std::mt19937_64 random(number);
  for (std::uint64_t step = random() % 10; step > 0; --step) {
    content.change(random_change(random), heap);
  }
  content.number = number;
  if (heap != nullptr) {
    content.stamp(*heap);
  }
}

class HeapKill : public testing::TestWithParam<HeapBacking> {
 protected:
  HeapOptions options() const {
    HeapOptions options;
    options.capacity_bytes = 64 << 20;
    options.budget_bytes = 1 << 20;  // So that pages leave memory between checkpoints too.
    options.page_size_bytes = 16 << 10;
    options.backing = GetParam();
    return options;
  }

  /// Never returns: killed, or ends with a status that says what went wrong.
  [[noreturn]] void work(HeapContent content) {
    try {
      std::mt19937_64 random(std::random_device{}());
      progress_->doing = Progress::opening;
      std::unique_ptr<Heap> heap = std::make_unique<Heap>(Heap::open(path_, options()));
      for (;;) {
        progress_->doing = Progress::changing;
        change(content, content.number + 1, heap.get());
        save(content, heap, random() % 8);
        progress_->returned = content.number;
        if (random() % 8 == 0) {
          make_another();
        }
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(1);
  }

  void save(const HeapContent& content, std::unique_ptr<Heap>& heap, std::uint64_t way) {
    progress_->begun = content.number;
    if (way == 0) {
      progress_->doing = Progress::closing;
      heap->close();
      progress_->returned = content.number;
      progress_->doing = Progress::opening;
      heap = std::make_unique<Heap>(Heap::open(path_, options()));
    } else if (way == 1) {
      progress_->doing = Progress::snapshotting;
      progress_->snapshot = content.number;
      heap->snapshot(snapshot_);
      progress_->returned = content.number;
      progress_->snapshot_returned = true;
      heap->checkpoint();  // It stays a while.
      progress_->doing = Progress::removing;
      progress_->snapshot_returned = false;
      Heap::remove(snapshot_);
    } else {
      progress_->doing = Progress::checkpointing;
      heap->checkpoint();
    }
  }

  void make_another() {
    progress_->doing = Progress::creating;
    {
      Heap other = Heap::create(other_, options());
      progress_->made = true;
      HeapContent::begin(other);
    }
    progress_->doing = Progress::removing;
    progress_->made = false;
    Heap::remove(other_);
  }

  /// Waits until the child has come to that, for a while.
  void wait_until(Progress::Doing doing) const {
    for (int turn = 0; turn < 4000 && progress_->doing != doing; ++turn) {
      ::usleep(50);
    }
  }

  /// Starts a child, and kills it so long after it has begun with that.
  void kill_one(const HeapContent& content, Progress::Doing doing, useconds_t after) {
    progress_->begun = progress_->returned = content.number;
    progress_->snapshot = 0;
    progress_->doing = Progress::opening;
    progress_->snapshot_returned = progress_->made = false;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      work(content);
    }
    wait_until(doing);
    ::usleep(after);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
    ++killed_while_[progress_->doing];
  }

  /// Brings `content` to what the heap is in, and compares.
  void expect_a_checkpoint(HeapContent& content, bool writes) {
    Heap heap = writes ? Heap::open(path_, options()) : Heap::open_read_only(path_, options());
    const std::uint64_t found = HeapContent::stamp_of(heap);
    ASSERT_GE(found, progress_->returned);
    ASSERT_LE(found, progress_->begun);
    while (content.number < found) {
      change(content, content.number + 1, nullptr);
    }
    content.require_same(heap);
  }

  /// `before`: the content that the last child began with.
  void expect_whole_or_refused(HeapContent before) {
    if (!std::filesystem::exists(snapshot_)) {
      ASSERT_FALSE(progress_->snapshot_returned);
      return;
    }
    while (before.number < progress_->snapshot) {
      change(before, before.number + 1, nullptr);
    }
    try {
      Heap copy = Heap::open(snapshot_, options());
      before.require_same(copy);
      HeapContent::require_no_leak(copy);
      ++whole_;
    } catch (const StoreError& error) {
      ASSERT_FALSE(progress_->snapshot_returned) << error.what();
      ++refused_;
    }
    remove_all_of(snapshot_);
  }

  void expect_made_or_refused() {
    if (!std::filesystem::exists(other_)) {
      ASSERT_FALSE(progress_->made);
      return;
    }
    try {
      Heap::open(other_, options());
      ++whole_;
    } catch (const StoreError& error) {
      ASSERT_FALSE(progress_->made) << error.what();
      ++refused_;
    }
    remove_all_of(other_);
  }

  /// An empty directory is all that remove() does not take: a heap can be made there.
  void remove_all_of(const std::string& path) {
    if (std::filesystem::is_empty(path)) {
      ASSERT_NO_THROW(Heap::create(path, options()));
    }
    ASSERT_TRUE(Heap::remove(path));
    ASSERT_FALSE(std::filesystem::exists(path));
  }

  const TemporaryDirectory directory_{"/dev/shm"};  // Where a checkpoint takes a hundredth of the time.
  const std::string path_ = directory_ / "heap";
  const std::string snapshot_ = directory_ / "snapshot";
  const std::string other_ = directory_ / "other";
  const SharedProgress progress_;
  int killed_while_[Progress::kinds] = {};
  int whole_ = 0;
  int refused_ = 0;
};

TEST_P(HeapKill, leaves_the_last_checkpoint_or_the_one_under_way) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  {
    Heap heap = Heap::create(path_, options());
    HeapContent::begin(heap);
  }
  HeapContent content;
  Rounds rounds(40);
  for (; rounds.go_on() && !HasFailure(); rounds.next()) {
    const HeapContent before = content;
    // By turns at any moment, and soon after one of the calls has begun.
    const auto doing = static_cast<Progress::Doing>(random() % Progress::kinds);
    rounds.number() % 3 == 0 ? kill_one(content, Progress::opening, static_cast<useconds_t>(random() % 60'000))
                             : kill_one(content, doing, static_cast<useconds_t>(random() % 2'000));
    ASSERT_FALSE(HasFatalFailure());
    // Some are only looked at, so that the next child has to put them right, and may be killed in it.
    ASSERT_NO_THROW(expect_a_checkpoint(content, rounds.number() % 3 == 1))
        << "round " << rounds.number() << ", checkpoint " << content.number;
    ASSERT_NO_THROW(expect_whole_or_refused(before)) << "round " << rounds.number();
    ASSERT_NO_THROW(expect_made_or_refused()) << "round " << rounds.number();
  }
  EXPECT_GT(content.number, 0U);
  Heap heap = Heap::open(path_, options());
  EXPECT_NO_THROW(HeapContent::require_no_leak(heap));
  static const char* const names[] = {"opening",      "changing", "checkpointing", "closing",
                                      "snapshotting", "creating", "removing"};
  std::printf("%d kills, %d checkpoints; copies and new heaps: %d whole, %d refused; while", rounds.number(),
              static_cast<int>(content.number), whole_, refused_);
  for (int doing = 0; doing < Progress::kinds; ++doing) {
    std::printf(" %s %d", names[doing], killed_while_[doing]);
  }
  std::printf("\n");
}

INSTANTIATE_TEST_SUITE_P(Backings, HeapKill, testing::Values(HeapBacking::file, HeapBacking::sparse),
                         [](const testing::TestParamInfo<HeapBacking>& information) {
                           return std::string(information.param == HeapBacking::file ? "file" : "sparse");
                         });

}  // namespace
}  // namespace tiermap
