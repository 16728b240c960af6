// Random steps, with a heap and with plain values that say what should be in it: allocating, freeing, objects and
// containers, checkpoints, reopening, snapshots, crashes. Each sequence runs in a process of its own; one that fails is
// made shorter before it is shown.
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "heap/heap_content.hpp"
#include "heap/heap_fixture.hpp"
#include "heap/shrink.hpp"
#include "store/random_rounds.hpp"

namespace tiermap {
namespace {

struct Step {
  enum class Action : std::uint8_t { change, checkpoint, reopen, read_only, snapshot, crash } action;
  HeapChange change;
};
using Steps = std::vector<Step>;

std::string text_of(const Step& step) {
  static const char* const actions[] = {"", "checkpoint", "reopen", "read only", "snapshot", "crash"};
  return step.action == Step::Action::change ? text_of(step.change) : actions[static_cast<std::size_t>(step.action)];
}

Steps random_steps(std::mt19937_64& random) {
  Steps steps(20 + random() % 150);
  for (Step& step : steps) {
    const std::uint64_t draw = random() % 40;
    step.action = draw < 6 ? static_cast<Step::Action>(draw) : Step::Action::change;
    step.change = random_change(random);
  }
  return steps;
}

HeapOptions options_for(std::uint64_t seed) {
  HeapOptions options;
  options.capacity_bytes = 64 << 20;
  options.budget_bytes = 1 << 20;
  options.page_size_bytes = seed % 3 == 0 ? 4 << 10 : seed % 3 == 1 ? 16 << 10 : 64 << 10;
  options.backing = seed % 2 == 0 ? HeapBacking::file : HeapBacking::sparse;
  options.checkpoints = seed % 5 != 0;
  return options;
}

/// Null, or a cache of the kernel's pages, for some heaps without checkpoints.
std::unique_ptr<Cache> kernel_pages_for(const HeapOptions& options) {
  if (options.checkpoints || options.backing != HeapBacking::file || options.page_size_bytes == 64 << 10) {
    return nullptr;
  }
  CacheOptions kernel;
  kernel.budget_bytes = options.budget_bytes;
  kernel.fault_mode = FaultMode::kernel;
  return std::make_unique<Cache>(kernel);
}

/// A sequence of steps in this process.
class Run {
 public:
  Run(const std::string& folder, const HeapOptions& options)
      : folder_(folder), options_(options), kernel_pages_(kernel_pages_for(options)) {
    options_.cache = kernel_pages_.get();
    heap_ = std::make_unique<Heap>(Heap::create(path(), options_));
    HeapContent::begin(*heap_);
    heap_->checkpoint();
  }

  void perform(const Steps& steps) {
    for (const Step& step : steps) {
      switch (step.action) {
        case Step::Action::change:
          now_.change(step.change, heap_.get());
          break;
        case Step::Action::checkpoint:
          heap_->checkpoint();
          saved_ = now_;
          break;
        case Step::Action::reopen:
          reopen();
          break;
        case Step::Action::read_only:
          heap_->close();
          {
            Heap reader = Heap::open_read_only(path(), options_);
            now_.require_same(reader);
          }
          reopen();
          break;
        case Step::Action::snapshot:
          take_snapshot();
          break;
        case Step::Action::crash:
          if (!options_.checkpoints) {
            return crash_without_checkpoints();
          }
          crash();
          break;
      }
    }
    now_.require_same(*heap_);
    HeapContent::require_no_leak(*heap_);
    heap_->close();
    require(Heap::consistent(path()), "closed, and not consistent");
  }

 private:
  std::string path() const { return folder_ + "/heap " + std::to_string(lives_); }

  void reopen() {
    heap_->close();
    heap_ = std::make_unique<Heap>(Heap::open(path(), options_));
    now_.require_same(*heap_);
    saved_ = now_;
  }

  void take_snapshot() {
    const std::string copy = folder_ + "/snapshot";
    heap_->snapshot(copy);
    saved_ = now_;
    require(Heap::consistent(copy), "a snapshot is not consistent");
    {
      Heap opened = Heap::open(copy, options_);
      now_.require_same(opened);
      HeapContent::require_no_leak(opened);
    }
    Heap::remove(copy);
  }

  void crash() {
    const std::string before = path();
    copy_heap_as_killed(before, folder_ + "/heap " + std::to_string(lives_ + 1));
    heap_.reset();
    Heap::remove(before);
    ++lives_;
    heap_ = std::make_unique<Heap>(Heap::open(path(), options_));
    now_ = saved_;
    now_.require_same(*heap_);
  }

  void crash_without_checkpoints() {
    copy_heap_as_killed(path(), folder_ + "/crashed");
    try {
      Heap::open(folder_ + "/crashed", options_);
    } catch (const StoreError& error) {
      require(error.code().value() == EUCLEAN, error.what());
      return;
    }
    throw WrongHeap("a heap that was not closed, and had no checkpoints, was opened");
  }

  const std::string folder_;
  HeapOptions options_;
  const std::unique_ptr<Cache> kernel_pages_;
  std::unique_ptr<Heap> heap_;
  HeapContent now_;
  HeapContent saved_;
  int lives_ = 0;
};

/// What is wrong, if anything is.
std::optional<std::string> failure_of(const Steps& steps, const HeapOptions& options) {
  const TemporaryDirectory folder("/dev/shm");
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(100);
    std::string failure;
    try {
      Run(folder.path(), options).perform(steps);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    std::ofstream(folder / "failure") << failure << std::flush;
    ::_exit(failure.empty() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    return "the process was ended by signal " + std::to_string(WTERMSIG(status));
  }
  if (status == 0) {
    return std::nullopt;
  }
  std::string failure;
  std::ifstream file(folder / "failure");
  std::getline(file, failure);
  return failure.empty() ? "it ended with status " + std::to_string(WEXITSTATUS(status)) : failure;
}

TEST(HeapModel, random_steps_lead_to_what_plain_values_say) {
  const std::uint64_t seed = test_seed();
  for (Rounds rounds(20); rounds.go_on(); rounds.next()) {
    const std::uint64_t own = seed + static_cast<std::uint64_t>(rounds.number());
    std::mt19937_64 random(own);
    const Steps steps = random_steps(random);
    const HeapOptions options = options_for(own);
    if (!failure_of(steps, options)) {
      continue;
    }
    const Steps shortest = shrink(
        steps, [&](const Steps& part) { return failure_of(part, options).has_value(); }, std::chrono::seconds(60));
    std::string text;
    for (const Step& step : shortest) {
      text += "  " + text_of(step) + "\n";
    }
    FAIL() << "TIERMAP_TEST_SEED=" << own << ": " << failure_of(shortest, options).value_or("only now and then")
           << " after " << shortest.size() << " of " << steps.size() << " steps:\n"
           << text;
  }
}

TEST(HeapModel, finds_what_is_wrong_and_shrinks_it) {
  std::mt19937_64 random(5);
  Steps steps = random_steps(random);
  std::erase_if(steps, [](const Step& step) { return step.action == Step::Action::crash; });
  // A change of the heap alone, as a mistake of its would be: more than one step is needed to come upon it.
  const auto fails = [](const Steps& part) {
    bool saved = false;
    for (const Step& step : part) {
      if (saved && step.action == Step::Action::change && step.change.kind == HeapChange::Kind::fill) {
        return true;
      }
      saved = saved || step.action == Step::Action::snapshot;
    }
    return false;
  };
  ASSERT_TRUE(fails(steps));
  const Steps shortest = shrink(steps, fails, std::chrono::seconds(10));
  ASSERT_EQ(shortest.size(), 2U);
  EXPECT_EQ(shortest[0].action, Step::Action::snapshot);
  EXPECT_EQ(shortest[1].change.kind, HeapChange::Kind::fill);
}

TEST(HeapModel, a_heap_that_is_another_is_noticed) {
  const TemporaryDirectory folder("/dev/shm");
  Heap heap = Heap::create(folder / "heap", options_for(1));
  HeapContent::begin(heap);
  HeapContent content;
  std::mt19937_64 random(7);
  for (int step = 0; step < 200; ++step) {
    content.change(random_change(random), &heap);
  }
  EXPECT_NO_THROW(content.require_same(heap));
  HeapContent other = content;
  other.change({HeapChange::Kind::allocate, 0, 1}, nullptr);
  EXPECT_THROW(other.require_same(heap), WrongHeap);
  heap.construct<int>("one too many")(1);
  EXPECT_THROW(content.require_same(heap), WrongHeap);
  heap.destroy<int>("one too many");
  static_cast<void>(heap.allocate(100));
  EXPECT_NO_THROW(content.require_same(heap));
  EXPECT_THROW(HeapContent::require_no_leak(heap), WrongHeap);
}

}  // namespace
}  // namespace tiermap
