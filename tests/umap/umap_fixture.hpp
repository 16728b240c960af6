// What the tests of libumap share: variables for one test, files of known words, stores that misbehave.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exactness/watchdog.hpp"
#include "platform/userfaultfd.hpp"
#include "region/raised_signal.hpp"
#include "store/temporary_directory.hpp"
#include "umap/store/SparseStore.h"
#include "umap/store/Store.hpp"
#include "umap/umap.h"

namespace tiermap {

inline constexpr std::size_t page = 16384;
inline constexpr std::size_t words_a_page = page / sizeof(std::uint64_t);

/// Sets the variables that a test names, and none else: with nothing mapped, the next region is mapped by them.
class UmapTest : public ::testing::Test {
 protected:
  UmapTest() {
    for (const char* name : {"UMAP_PAGE_FILLERS", "UMAP_PAGE_EVICTORS", "UMAP_EVICT_HIGH_WATER_THRESHOLD",
                             "UMAP_EVICT_LOW_WATER_THRESHOLD", "UMAP_READ_AHEAD", "UMAP_MAX_FAULT_EVENTS"}) {
      ::unsetenv(name);
    }
    set("UMAP_PAGESIZE", page);
    set("UMAP_BUFSIZE", 32);
    ::setenv("TIERMAP_PUBLISH", "false", 1);
  }
  static void set(const char* name, std::uint64_t value) { ::setenv(name, std::to_string(value).c_str(), 1); }

  TemporaryDirectory folder_;
};

/// A file that is open; each word of it is its own number unless it is made of holes.
class OpenFile {
 public:
  OpenFile(const std::string& path, std::size_t bytes, bool with_words = true, int reopen_with = -1)
      : path_(path), descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
    EXPECT_EQ(::ftruncate(descriptor_, static_cast<off_t>(bytes)), 0);
    if (with_words) {
      std::vector<std::uint64_t> words((bytes + 7) / 8);
      for (std::size_t index = 0; index < words.size(); ++index) {
        words[index] = index;
      }
      EXPECT_EQ(::pwrite(descriptor_, words.data(), bytes, 0), static_cast<ssize_t>(bytes));
    }
    if (reopen_with >= 0) {
      ::close(descriptor_);
      descriptor_ = ::open(path.c_str(), reopen_with | O_CLOEXEC);
    }
  }
  ~OpenFile() { close(); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  void close() {
    if (descriptor_ >= 0) {
      ::close(std::exchange(descriptor_, -1));
    }
  }
  int descriptor() const { return descriptor_; }
  std::size_t size() const {
    struct stat status = {};
    EXPECT_EQ(::stat(path_.c_str(), &status), 0);
    return static_cast<std::size_t>(status.st_size);
  }
  std::uint64_t word(std::size_t index) const {
    std::uint64_t value = ~std::uint64_t{0};
    const int own = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(::pread(own, &value, sizeof value, static_cast<off_t>(index * sizeof value)),
              static_cast<ssize_t>(sizeof value));
    ::close(own);
    return value;
  }

 private:
  std::string path_;
  int descriptor_;
};

constexpr int for_reading = PROT_READ;
constexpr int for_both = PROT_READ | PROT_WRITE;

/// A region of `file` as words; the test fails if it cannot be had.
inline std::uint64_t* map_words(const OpenFile& file, std::size_t bytes, int protection = for_both, off_t offset = 0) {
  void* region = ::umap(nullptr, bytes, protection, UMAP_PRIVATE, file.descriptor(), offset);
  EXPECT_NE(region, UMAP_FAILED) << std::strerror(errno);
  return static_cast<std::uint64_t*>(region);
}

inline std::uint64_t* map_store(Umap::Store& store, std::size_t bytes, int protection = for_both) {
  void* region = Umap::umap_ex(nullptr, bytes, protection, UMAP_PRIVATE, -1, 0, &store);
  EXPECT_NE(region, UMAP_FAILED) << std::strerror(errno);
  return static_cast<std::uint64_t*>(region);
}

/// A store as programs for UMap write them: memory, and what is to happen before each call.
class ScriptedStore : public Umap::Store {
 public:
  explicit ScriptedStore(std::size_t bytes) : content(bytes / sizeof(std::uint64_t)) {
    for (std::size_t index = 0; index < content.size(); ++index) {
      content[index] = index;
    }
  }
  ssize_t read_from_store(char* buf, std::size_t nb, off_t off) override {
    ++reads;
    if (on_read) {
      if (const ssize_t result = on_read(buf, nb, off); result != pass) {
        return result;
      }
    }
    std::memcpy(buf, reinterpret_cast<char*>(content.data()) + off, nb);
    return static_cast<ssize_t>(nb);
  }
  ssize_t write_to_store(char* buf, std::size_t nb, off_t off) override {
    ++writes;
    std::size_t kept = nb;
    if (on_write) {
      if (const ssize_t result = on_write(buf, nb, off); result < 0) {
        return result;
      } else if (result != pass) {
        kept = static_cast<std::size_t>(result);
      }
    }
    std::memcpy(reinterpret_cast<char*>(content.data()) + off, buf, kept);
    return static_cast<ssize_t>(kept);
  }

  static constexpr ssize_t pass = 1L << 40;
  std::function<ssize_t(char*, std::size_t, off_t)> on_read;   ///< What to return instead; `pass`: do it.
  std::function<ssize_t(char*, std::size_t, off_t)> on_write;  ///< The same, or how much of it to do.
  std::vector<std::uint64_t> content;
  std::atomic<int> reads{0};
  std::atomic<int> writes{0};
};

/// Runs `body` in a child; its exit status as waitpid() gives it. 0 if it comes to its end and no expectation failed.
template <typename Body>
int status_of_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    // A watchdog may end the parent while it waits.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

/// Runs `body` in one child after the other, while two threads run it, too, without end: all children end by
/// themselves. One that waits for a lock which a thread had at the fork does so by an alarm.
template <typename Body>
void expect_children_beside_threads_to_end(Body&& body) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer's allocator has a lock that a thread may hold at a fork";
#endif
  std::atomic<bool> done{false};
  const auto go_on = [&] {
    while (!done) {
      body();
    }
  };
  std::thread one(go_on);
  std::thread another(go_on);
  int status = 0;
  for (int round = 0; round < 1500 && status == 0; ++round) {
    status = status_of_child([&] {
      ::alarm(20);
      body();
    });
  }
  done = true;
  one.join();
  another.join();
  EXPECT_EQ(status, 0) << "the child waited for a lock that another thread had when it was forked";
}

/// In a test's body; for what only fault mode notify can do.
#define skip_without_kernel_faults()                                                                  \
  do {                                                                                                \
    if (const auto probe = probe_userfaultfd(); !probe.available || probe.user_mode_only) {           \
      GTEST_SKIP() << "this machine allows no userfaultfd, or for faults of the program itself only"; \
    }                                                                                                 \
  } while (false)

inline std::uint64_t touch(const std::uint64_t* word) {
  return *static_cast<const volatile std::uint64_t*>(word);
}
inline void poke(std::uint64_t* word, std::uint64_t value) {
  *static_cast<volatile std::uint64_t*>(word) = value;
}

/// The bytes of [address, address + bytes) that are mapped, by 4 KiB; /proc/self/maps, permissions "" for any.
std::size_t mapped_bytes(const void* address, std::size_t bytes, const std::string& permissions = "");

std::size_t open_descriptors();

}  // namespace tiermap
