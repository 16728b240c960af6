// Numbers that a test and the ranks which it forks have together, beside all that is tested.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>

namespace tiermap {

class SharedNumbers {
 public:
  SharedNumbers()
      : numbers_(static_cast<Numbers*>(
            ::mmap(nullptr, sizeof(Numbers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (static_cast<void*>(numbers_) == MAP_FAILED) {
      std::abort();
    }
  }
  ~SharedNumbers() { ::munmap(numbers_, sizeof(Numbers)); }
  SharedNumbers(const SharedNumbers&) = delete;
  SharedNumbers& operator=(const SharedNumbers&) = delete;

  std::atomic<std::uint64_t>& operator[](std::size_t index) const { return numbers_->at(index); }
  /// Waits until it is so many, or more. False if that takes a minute.
  bool reaches(std::size_t index, std::uint64_t least) const {
    for (int turn = 0; turn < 60'000 && numbers_->at(index) < least; ++turn) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return numbers_->at(index) >= least;
  }

 private:
  using Numbers = std::array<std::atomic<std::uint64_t>, 64>;
  Numbers* const numbers_;
};

}  // namespace tiermap
