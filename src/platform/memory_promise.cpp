#include "platform/memory_promise.hpp"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "platform/hold_over_forks.hpp"
#include "platform/memory_limits.hpp"

namespace tiermap {
namespace {

constinit std::mutex promises_mutex;
/// A child makes caches of its own.
[[maybe_unused]] const int promises_held_over_forks = hold_over_forks<promises_mutex>();

}  // namespace

/// Guarded by the mutex.
struct MemoryPromise::Entry {
  std::uint64_t bytes = 0;
  std::function<std::uint64_t()> taken = nullptr;
  const pid_t process = ::getpid();

  /// Never destroyed: caches may end by destructors that run after those of this file.
  static std::vector<const Entry*>& all() {
    static auto& entries = *new std::vector<const Entry*>;
    return entries;
  }
  /// What is left of `usable_bytes`.
  static std::uint64_t rest_of(std::uint64_t usable_bytes) {
    const pid_t here = ::getpid();
    std::uint64_t left = usable_bytes;
    for (const Entry* entry : all()) {
      if (entry->process == here) {
        const std::uint64_t taken = entry->taken ? entry->taken() : 0;
        left -= std::min(left, entry->bytes - std::min(entry->bytes, taken));
      }
    }
    return std::max(left, std::min(usable_bytes / 8, least_left_bytes));
  }
};

MemoryPromise::MemoryPromise() noexcept = default;

MemoryPromise::MemoryPromise(std::uint64_t bytes) : entry_(std::make_unique<Entry>(bytes)) {
  const std::lock_guard held(promises_mutex);
  Entry::all().push_back(entry_.get());
}

MemoryPromise::MemoryPromise(const std::function<std::uint64_t(std::uint64_t)>& choose, std::uint64_t spared_bytes)
    : entry_(std::make_unique<Entry>()) {
  const std::uint64_t usable = memory_for_budgets();
  const std::lock_guard held(promises_mutex);
  entry_->bytes = choose(Entry::rest_of(usable - std::min(usable, spared_bytes)));
  Entry::all().push_back(entry_.get());
}

MemoryPromise::~MemoryPromise() {
  if (entry_ != nullptr) {
    const std::lock_guard held(promises_mutex);
    std::erase(Entry::all(), entry_.get());
  }
}

MemoryPromise::MemoryPromise(MemoryPromise&& other) noexcept = default;

MemoryPromise& MemoryPromise::operator=(MemoryPromise&& other) noexcept {
  std::swap(entry_, other.entry_);
  return *this;
}

std::uint64_t MemoryPromise::bytes() const noexcept {
  return entry_ != nullptr ? entry_->bytes : 0;
}

void MemoryPromise::change(std::uint64_t bytes) noexcept {
  if (entry_ != nullptr) {
    const std::lock_guard held(promises_mutex);
    entry_->bytes = bytes;
  }
}

void MemoryPromise::count_taken(std::function<std::uint64_t()> taken) {
  if (entry_ != nullptr) {
    const std::lock_guard held(promises_mutex);
    entry_->taken = std::move(taken);
  }
}

std::uint64_t MemoryPromise::left_bytes() {
  const std::uint64_t usable = memory_for_budgets();
  const std::lock_guard held(promises_mutex);
  return Entry::rest_of(usable);
}

}  // namespace tiermap
