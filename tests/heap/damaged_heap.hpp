// Heaps with something of everything in them, left as a test wants them, and damaged.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>

#include "heap/heap_fixture.hpp"

namespace tiermap {

/// What fill_heap() puts into a heap, by name.
struct FilledHeap {
  using Numbers = HeapVector<std::uint64_t>;
  using Texts = HeapMap<std::uint64_t, HeapString>;
  static constexpr std::uint64_t texts = 3000;
  static constexpr std::uint64_t numbers = 200'000;  ///< A large block.

  static void fill(Heap& heap) {
    Texts& made = *heap.construct<Texts>("texts")();
    for (std::uint64_t key = 0; key < texts; ++key) {
      made.emplace(key, HeapString(key % 200, 'a', heap));
    }
    heap.construct<Numbers>("numbers")(numbers, 7U);
    heap.construct<std::uint64_t>("row")[100](5U);
    heap.construct<double>(unique_object)(2.5);
    heap.describe("texts", "as long as their key");
    // Free space between blocks, and spans of few slots.
    heap.deallocate(heap.allocate(5 << 20));
    heap.construct<std::array<char, 20'000>>("wide")()->fill('w');
    for (std::uint64_t key = 0; key < texts; key += 2) {
      made.erase(key);
    }
  }

  /// Whether all of it is there.
  static testing::AssertionResult whole(const Heap& heap) {
    const Texts* const found = heap.find<Texts>("texts");
    const Numbers* const row = heap.find<Numbers>("numbers");
    const auto* const wide = heap.find<std::array<char, 20'000>>("wide");
    if (found == nullptr || row == nullptr || wide == nullptr || heap.find_all<std::uint64_t>("row").size() != 100 ||
        heap.find<double>(unique_object) == nullptr) {
      return testing::AssertionFailure() << "an object is missing";
    }
    if (found->size() != texts / 2 || row->size() != numbers || row->back() != 7 || wide->back() != 'w') {
      return testing::AssertionFailure() << "an object is another";
    }
    for (const auto& [key, text] : *found) {
      if (text.size() != key % 200) {
        return testing::AssertionFailure() << "text " << key << " is another";
      }
    }
    return testing::AssertionSuccess();
  }
  static constexpr std::size_t named = 5;
};

/// Runs in a child, which is killed when it is done. A heap that is to be open still by then comes from new.
inline void in_killed_process(const std::function<void()>& work) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    work();
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

/// With a filled heap at path_, however it was left.
class FilledHeapTest : public HeapTest {
 protected:
  void make_closed(HeapBacking backing = HeapBacking::file) const {
    HeapOptions options = small();
    options.backing = backing;
    Heap heap = Heap::create(path_, options);
    FilledHeap::fill(heap);
  }
  /// With checkpoints the last one is in the journal, and what came after it is lost; without, nothing knows.
  void make_killed(bool checkpoints = true) const {
    in_killed_process([&] {
      HeapOptions options = small();
      options.checkpoints = checkpoints;
      Heap& heap = *new Heap(Heap::create(path_, options));
      FilledHeap::fill(heap);
      heap.checkpoint();
      heap.find<std::array<char, 20'000>>("wide")->fill('x');
      heap.allocate(100);
    });
  }

  const std::string copy_ = directory_ / "copy";
};

/// Flips bits of a byte, and flips them back when it goes.
class FlippedByte {
 public:
  FlippedByte(const std::string& file, std::uint64_t byte, unsigned char bits)
      : descriptor_(::open(file.c_str(), O_RDWR | O_CLOEXEC)), byte_(static_cast<off_t>(byte)), bits_(bits) {
    flip();
  }
  ~FlippedByte() {
    flip();
    ::close(descriptor_);
  }
  FlippedByte(const FlippedByte&) = delete;
  FlippedByte& operator=(const FlippedByte&) = delete;

 private:
  void flip() const {
    unsigned char value = 0;
    EXPECT_EQ(::pread(descriptor_, &value, 1, byte_), 1);
    value ^= bits_;
    EXPECT_EQ(::pwrite(descriptor_, &value, 1, byte_), 1);
  }

  const int descriptor_;
  const off_t byte_;
  const unsigned char bits_;
};

}  // namespace tiermap
