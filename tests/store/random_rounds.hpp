// Seeds of random tests, and how long these go on: so many rounds, or as long as `make soak` says.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace tiermap {

/// From the clock, or TIERMAP_TEST_SEED; to be printed where a test fails.
inline std::uint64_t test_seed() {
  const char* const text = std::getenv("TIERMAP_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

/// `for (Rounds rounds(25); rounds.go_on(); rounds.next())`: 25 times, or until TIERMAP_SOAK_SECONDS have passed.
class Rounds {
 public:
  explicit Rounds(int rounds) : rounds_(rounds) {
    if (const char* const text = std::getenv("TIERMAP_SOAK_SECONDS"); text != nullptr) {
      soaks_ = true;
      end_ = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(text));
    }
  }
  bool go_on() const { return soaks_ ? std::chrono::steady_clock::now() < end_ : number_ < rounds_; }
  void next() { ++number_; }
  /// Of the round under way, from 0.
  int number() const { return number_; }

 private:
  int rounds_;
  int number_ = 0;
  bool soaks_ = false;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace tiermap
