// The process is killed at random moments: while it writes, commits, or recovers from the last time. Opened again the
// store is the last commit that had returned or the one that was under way, and nothing else.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/disk_in_memory.hpp"
#include "checkpoint/model.hpp"
#include "heap/journal_file.hpp"
#include "store/file_store.hpp"
#include "store/sparse_store.hpp"
#include "store/temporary_directory.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t identity = 99;
constexpr std::uint64_t store_bytes = 1'000'001;

/// Shared by parent and child, outlives the child.
struct Progress {
  std::atomic<std::uint64_t> begun;     ///< The number of the last commit that was called,
  std::atomic<std::uint64_t> returned;  ///< and of the last that returned.
  std::atomic<bool> opened;
};

struct KillSetting {
  bool sparse;
  bool in_memory;  ///< On a tmpfs, where a commit takes a hundredth of the time: a kill needs no disk.
};

class Kill : public testing::TestWithParam<KillSetting> {
 protected:
  std::shared_ptr<Store> open_base(OpenMode mode) {
    if (!GetParam().sparse) {
      return FileStore::open(directory_ / "base", mode, store_bytes, FileOptions());
    }
    SparseOptions options;
    options.segment_bytes = mode == OpenMode::create ? 128 << 10 : 0;
    return SparseStore::open(directory_ / "base", mode, store_bytes, options);
  }
  std::unique_ptr<CheckpointedStore> open(OpenMode mode) {
    return std::make_unique<CheckpointedStore>(open_base(mode), open_journal_file(directory_ / "journal", mode),
                                               identity);
  }

  /// Commit `number` from the one before it; parent and child know what it is to be.
  static void change(Store& store, std::vector<char>& expected, std::uint64_t number) {
    std::mt19937_64 random(number);
    for (std::uint64_t step = 1 + random() % 30; step > 0; --step) {
      change_at_random(store, expected, random);
    }
  }

  [[noreturn]] void commit_for_ever(Progress& progress, std::vector<char> content, std::uint64_t number) {
    const auto store = open(OpenMode::read_write);
    progress.opened = true;
    for (++number;; ++number) {
      change(*store, content, number);
      progress.begun = number;
      if (testing::Test::HasFailure() || store->commit() != 0) {
        ::_exit(1);
      }
      progress.returned = number;
    }
  }

  static std::string parent() {
    return GetParam().in_memory ? "/dev/shm" : std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  }

  const TemporaryDirectory directory_{parent()};
};

TEST_P(Kill, leaves_the_last_commit_or_the_one_under_way) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  void* const shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& progress = *static_cast<Progress*>(shared);
  open(OpenMode::create);
  std::vector<char> content(store_bytes, 0);
  std::uint64_t number = 0;
  int during_opening = 0;
  for (Rounds rounds(GetParam().in_memory ? 200 : 15); rounds.go_on() && !HasFatalFailure(); rounds.next()) {
    const int round = rounds.number();
    progress.begun = progress.returned = number;
    progress.opened = false;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      commit_for_ever(progress, content, number);
    }
    // Every third is killed from the first moment on, the others once they are open, however slow that is.
    for (int waited = 0; round % 3 != 0 && !progress.opened && waited < 5000; ++waited) {
      ::usleep(1000);
    }
    ::usleep(static_cast<useconds_t>(random() % (round % 3 == 0 ? 3'000 : GetParam().in_memory ? 12'000 : 60'000)));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
    during_opening += progress.opened ? 0 : 1;
    // Mostly looked at without being put right, so that the next child does that, and may be killed in it.
    CheckpointedStore store(open_base(OpenMode::read_write),
                            open_journal_file(directory_ / "journal", OpenMode::read_write), identity, round % 4 == 0);
    const std::vector<char> found = content_of(store);
    // What the child made of it.
    FileOnDisk scratch("scratch", content);
    while (number < progress.returned) {
      change(scratch, content, ++number);
    }
    if (found != content && progress.begun > number) {
      change(scratch, content, ++number);
    }
    ASSERT_TRUE(found == content) << "round " << round << ", commit " << number << " of " << progress.begun;
  }
  RecordProperty("killed_while_opening", during_opening);
  EXPECT_GT(number, 0U);
  ::munmap(shared, sizeof(Progress));
}

INSTANTIATE_TEST_SUITE_P(Bases, Kill,
                         testing::Values(KillSetting{false, true}, KillSetting{true, true}, KillSetting{false, false},
                                         KillSetting{true, false}),
                         [](const testing::TestParamInfo<KillSetting>& information) {
                           return std::string(information.param.sparse ? "sparse" : "file") +
                                  (information.param.in_memory ? "_in_memory" : "_on_disk");
                         });

}  // namespace
}  // namespace tiermap
