// The process is killed at random moments while it writes and syncs. Opened again, the store holds all that a sync()
// which had returned promised; what was written since is there or not, word by word; and nothing else has changed. The
// machine does not crash here, so what this proves is that sync() really hands over, in the right order, and that no
// metadata is torn.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "exactness/signal_trap.hpp"
#include "exactness/store_kinds.hpp"
#include "exactness/watchdog.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t threads_writing = 3;
constexpr std::uint64_t words_each = 20000;
constexpr std::uint64_t all_words = threads_writing * words_each;

struct Setting {
  bool sparse;
  FaultMode mode;
  std::uint64_t page_bytes;
};

/// Shared by parent and child, outlives the child. Versions: thread t writes its words in rounds; round r stores
/// version r + 1 in every one of them. `synced` is the last version whose sync() returned, `started` the version being
/// written.
struct Progress {
  std::atomic<std::uint64_t> synced[threads_writing];
  std::atomic<std::uint64_t> started[threads_writing];
};

std::uint64_t content(std::uint64_t word, std::uint64_t version) {
  return version == 0 ? 0 : (word << 32) | version;
}

class Crash : public testing::TestWithParam<Setting> {
 protected:
  std::string url() {
    return GetParam().sparse ? "sparse://" + directory_.encoded() + "/data?segment=128KiB&capacity=4MiB"
                             : "file://" + directory_.encoded() + "/data";
  }
  RegionOptions region_options() {
    RegionOptions options;
    options.access = Access::read_write;
    options.length = all_words * 8;
    options.page_size_bytes = GetParam().page_bytes;
    return options;
  }
  CacheOptions cache_options() {
    CacheOptions options;
    options.fault_mode = GetParam().mode;
    // Far less than the data where the mode allows it.
    options.budget_bytes = GetParam().mode == FaultMode::kernel ? 1 << 20 : GetParam().page_bytes * 12 + (64 << 10);
    options.publish_statistics = false;
    return options;
  }

  [[noreturn]] void write_for_ever(Progress& progress) {
    Cache cache(cache_options());
    Region region = cache.map(url(), region_options());
    auto* words = reinterpret_cast<volatile std::uint64_t*>(region.data());
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < threads_writing; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::uint64_t version = progress.started[thread].load() + 1;; ++version) {
          progress.started[thread].store(version);
          for (std::uint64_t index = 0; index < words_each; ++index) {
            const std::uint64_t word = index * threads_writing + thread;
            words[word] = content(word, version);
          }
          region.sync();
          progress.synced[thread].store(version);
        }
      });
    }
    while (true) {
      ::pause();
    }
  }

  void check(Progress& progress) {
    Cache cache(cache_options());
    RegionOptions options = region_options();
    options.access = Access::read_only;
    const Region region = cache.map(url(), options);
    const auto* words = reinterpret_cast<const volatile std::uint64_t*>(region.data());
    for (std::uint64_t word = 0; word < all_words; ++word) {
      const std::uint64_t thread = word % threads_writing;
      const std::uint64_t found = words[word];
      const std::uint64_t version = found & 0xFFFFFFFF;
      ASSERT_EQ(found, content(word, version)) << "word " << word << " is torn";
      ASSERT_GE(version, progress.synced[thread].load()) << "word " << word << ": a sync had promised more";
      ASSERT_LE(version, progress.started[thread].load()) << "word " << word;
    }
  }

  Watchdog watchdog_{"crash", 100s};
  TemporaryDirectory directory_;
};

TEST_P(Crash, WhatSyncPromisedIsThere) {
  void* shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& progress = *static_cast<Progress*>(shared);
  {  // The first time it is created in peace: a child killed before that would leave nothing to check.
    Cache cache(cache_options());
    cache.map(url(), region_options()).sync();
  }
  std::mt19937_64 random(std::random_device{}());
  std::uint64_t syncs = 0;
  for (int round = 0; round < 8 && !HasFailure(); ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      write_for_ever(progress);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 180));
    // On a busy machine the first child may need longer to promise anything.
    for (int patience = 0; round == 0 && progress.synced[0].load() == 0 && patience < 2000; ++patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended by itself: " << status;
    check(progress);
    for (const auto& synced : progress.synced) {
      syncs += synced.load();
    }
  }
  EXPECT_GT(syncs, 0U);
  ::munmap(shared, sizeof(Progress));
}

std::string setting_name(const testing::TestParamInfo<Setting>& information) {
  return std::string(information.param.sparse ? "sparse" : "file") +
         (information.param.mode == FaultMode::notify         ? "_notify_"
          : information.param.mode == FaultMode::self_serving ? "_self_serving_"
                                                              : "_kernel_") +
         std::to_string(information.param.page_bytes >> 10) + "K";
}

INSTANTIATE_TEST_SUITE_P(Settings, Crash,
                         testing::Values(Setting{false, FaultMode::notify, 4096},
                                         Setting{false, FaultMode::self_serving, 64 << 10},
                                         Setting{false, FaultMode::kernel, 4096},
                                         Setting{true, FaultMode::notify, 64 << 10},
                                         Setting{true, FaultMode::self_serving, 4096}),
                         setting_name);

// A small tmpfs, gone with the object.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& size) {
    mounted_ = ::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) {
      ::umount2(directory_.path().c_str(), MNT_DETACH);
    }
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  std::string operator/(const std::string& name) const { return directory_ / name; }

 private:
  TemporaryDirectory directory_;
  bool mounted_ = false;
};

class DiskTrouble : public testing::TestWithParam<FaultMode> {
 protected:
  std::unique_ptr<Cache> make_cache(std::uint64_t budget_bytes) {
    CacheOptions options;
    options.fault_mode = GetParam();
    options.budget_bytes = budget_bytes;
    options.publish_statistics = false;
    return std::make_unique<Cache>(options);
  }
  SignalTrap trap_;  // Before the first cache.
  Watchdog watchdog_{"disk trouble", 60s};
};

TEST_P(DiskTrouble, AFullDiskIsReportedAndNothingIsLost) {
  SmallDisk disk("2M");
  if (!disk.mounted()) {
    GTEST_SKIP() << "mounting a small file system needs root";
  }
  const auto cache = make_cache(8 << 20);
  for (const std::string& url : {disk / "data", "sparse://" + (disk / "sparse") + "?segment=256KiB&capacity=16MiB"}) {
    std::ofstream(disk / "ballast") << std::string(1 << 20, 'x');
    RegionOptions options;
    options.access = Access::read_write;
    options.length = 1536 << 10;
    options.page_size_bytes = 16 << 10;
    Region region = cache->map(url, options);
    auto* words = reinterpret_cast<volatile std::uint64_t*>(region.data());
    for (std::uint64_t word = 0; word < options.length / 8; ++word) {
      words[word] = first_content(word);
    }
    try {
      region.sync();
      ADD_FAILURE() << url << ": the disk is too small for this to succeed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code().value(), ENOSPC) << error.what();
    }
    for (std::uint64_t word = 0; word < options.length / 8; ++word) {
      ASSERT_EQ(words[word], first_content(word));
    }
    ::unlink((disk / "ballast").c_str());
    region.sync();
    region.unmap();
    options.access = Access::read_only;
    const Region again = cache->map(url, options);
    for (std::uint64_t word = 0; word < options.length / 8; ++word) {
      ASSERT_EQ(again.as_span<const std::uint64_t>()[word], first_content(word));
    }
    ::unlink((disk / "data").c_str());
  }
}

// The data has room on the full disk, what describes it does not: once there is room, that is saved too.
TEST_P(DiskTrouble, MetadataThatFoundNoRoomIsSavedLater) {
  SmallDisk disk("4M");
  if (!disk.mounted()) {
    GTEST_SKIP() << "mounting a small file system needs root";
  }
  const auto cache = make_cache(8 << 20);
  const std::string url = "sparse://" + (disk / "sparse");
  RegionOptions options;
  options.access = Access::read_write;
  options.length = 64 << 10;
  {
    Region first = cache->map(url + "?segment=1MiB&capacity=8MiB", options);
    std::memset(first.data(), 1, first.size());
    first.sync();
  }
  const int segment = ::open((disk / "sparse/segment-0000000000").c_str(), O_RDWR);
  ASSERT_EQ(::posix_fallocate(segment, 0, 1 << 20), 0);
  ::close(segment);
  options.length = 512 << 10;
  Region region = cache->map(url, options);
  {
    std::ofstream ballast(disk / "ballast", std::ios::binary);
    for (int block = 0; block < 8192 && ballast.flush(); ++block) {
      ballast << std::string(512, 'x');
    }
  }
  std::memset(region.data(), 2, region.size());
  EXPECT_THROW(region.sync(), Error);
  ::unlink((disk / "ballast").c_str());
  region.sync();
  region.unmap();
  options.access = Access::read_only;
  options.length = 0;
  const Region again = cache->map(url, options);
  ASSERT_EQ(again.size(), 512U << 10);
  EXPECT_EQ(again.data()[again.size() - 1], std::byte{2});
}

// As with mmap: a page wholly behind the new end raises SIGBUS, the rest of the page with the end reads as zero.
TEST_P(DiskTrouble, WhatWasCutOffAFileRaisesSigbus) {
  TemporaryDirectory directory;
  write_file(directory / "data", std::string(2 << 20, 'x'));
  const auto cache = make_cache(512 << 10);
  for (const Access access : {Access::read_only, Access::read_write}) {
    ASSERT_EQ(::truncate((directory / "data").c_str(), 2 << 20), 0);
    RegionOptions options;
    options.access = access;
    options.page_size_bytes = 16 << 10;
    const Region region = cache->map(directory / "data", options);
    const auto* words = reinterpret_cast<const volatile std::uint64_t*>(region.data());
    ASSERT_EQ(::truncate((directory / "data").c_str(), (1 << 20) + 800), 0);
    std::uint64_t value = 0;
    for (std::uint64_t page = 0; page < 128; ++page) {
      const int raised = SignalTrap::load(words + page * 2048 + 200, value);
      EXPECT_EQ(raised, page <= 64 ? 0 : SIGBUS) << page;
      if (page == 64) {
        EXPECT_EQ(value, 0U);
      }
    }
  }
}

// Another process cuts the file while it is mapped, and what is dirty brings it back to length: no crash, no hang, what
// was written is there, and the pages before the cut are untouched.
TEST_P(DiskTrouble, AFileThatShrinksWhileMapped) {
  TemporaryDirectory directory;
  constexpr std::uint64_t words_in_file = (2 << 20) / 8;
  {
    std::vector<std::uint64_t> words(words_in_file);
    for (std::uint64_t word = 0; word < words_in_file; ++word) {
      words[word] = first_content(word);
    }
    write_file(directory / "data", std::string(reinterpret_cast<const char*>(words.data()), words.size() * 8));
  }
  const auto cache = make_cache(512 << 10);
  RegionOptions options;
  options.access = Access::read_write;
  options.page_size_bytes = 16 << 10;
  Region region = cache->map("file://" + directory.encoded() + "/data", options);
  auto* words = reinterpret_cast<volatile std::uint64_t*>(region.data());
  const std::uint64_t changed = words_in_file - 100;
  words[changed] = 4711;
  constexpr std::uint64_t cut_bytes = (1 << 20) + 1000 * 8;
  ASSERT_EQ(::truncate((directory / "data").c_str(), cut_bytes), 0);
  for (std::uint64_t word = 0; word < words_in_file; ++word) {
    std::uint64_t value = 0;
    const int raised = SignalTrap::load(words + word, value);
    if (raised == SIGBUS && word * 8 >= cut_bytes) {
      word += (16 << 10) / 8 - 1;  // The whole page.
      continue;
    }
    ASSERT_EQ(raised, 0) << word;
    if (word * 8 < cut_bytes) {
      ASSERT_EQ(value, first_content(word)) << word;
    } else if (word == changed) {
      ASSERT_EQ(value, 4711U);
    } else {
      ASSERT_TRUE(value == 0 || value == first_content(word)) << word;
    }
  }
  region.sync();
  region.unmap();
  std::ifstream file(directory / "data", std::ios::binary);
  std::uint64_t value = 0;
  file.seekg(static_cast<std::streamoff>(changed * 8));
  file.read(reinterpret_cast<char*>(&value), 8);
  EXPECT_EQ(value, 4711U);
  file.seekg(0);
  for (std::uint64_t word = 0; word < cut_bytes / 8; ++word) {
    file.read(reinterpret_cast<char*>(&value), 8);
    ASSERT_EQ(value, first_content(word)) << word;
  }
}

std::string mode_name(const testing::TestParamInfo<FaultMode>& information) {
  return information.param == FaultMode::notify ? "notify" : "self_serving";
}

INSTANTIATE_TEST_SUITE_P(Modes, DiskTrouble, testing::Values(FaultMode::notify, FaultMode::self_serving), mode_name);

}  // namespace
}  // namespace tiermap
