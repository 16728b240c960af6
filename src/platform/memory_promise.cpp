#include "platform/memory_promise.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "platform/memory_limits.hpp"

namespace tiermap {

struct MemoryPromise::Entry {
  MemoryAccount& account;
  std::uint64_t bytes = 0;
  std::function<std::uint64_t()> taken = nullptr;
};

/// What one process has promised. A forked child has another: it looks at nothing of its parent's, whose threads may
/// have had the mutex, and who forks waits for nobody.
class MemoryAccount {
 public:
  /// Of this process. Never destroyed: caches may end by destructors that run after those of this file.
  static MemoryAccount& here() {
    static constinit std::atomic<MemoryAccount*> current = nullptr;
    MemoryAccount* known = current.load();
    while (known == nullptr || !known->is_here()) {
      auto made = std::make_unique<MemoryAccount>();
      if (current.compare_exchange_strong(known, made.get())) {
        return *made.release();
      }
    }
    return *known;
  }
  bool is_here() const noexcept { return process_ == ::getpid(); }

  template <typename Change>
  void change(Change&& change) {
    if (is_here()) {
      const std::lock_guard held(mutex_);
      change(entries_);
    }
  }
  /// What is left of `usable_bytes`. With the mutex held.
  static std::uint64_t rest_of(std::uint64_t usable_bytes, const std::vector<const MemoryPromise::Entry*>& entries) {
    std::uint64_t left = usable_bytes;
    for (const MemoryPromise::Entry* entry : entries) {
      const std::uint64_t taken = entry->taken ? entry->taken() : 0;
      left -= std::min(left, entry->bytes - std::min(entry->bytes, taken));
    }
    return std::max(left, std::min(usable_bytes / 8, MemoryPromise::least_left_bytes));
  }

 private:
  const pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::vector<const MemoryPromise::Entry*> entries_;  ///< Guarded by the mutex, and what they have.
};

MemoryPromise::MemoryPromise() noexcept = default;

MemoryPromise::MemoryPromise(std::uint64_t bytes) : entry_(new Entry{MemoryAccount::here(), bytes}) {
  entry_->account.change([&](auto& entries) { entries.push_back(entry_.get()); });
}

MemoryPromise::MemoryPromise(const std::function<std::uint64_t(std::uint64_t)>& choose, std::uint64_t spared_bytes)
    : entry_(new Entry{MemoryAccount::here()}) {
  const std::uint64_t usable = memory_for_budgets();
  entry_->account.change([&](auto& entries) {
    entry_->bytes = choose(MemoryAccount::rest_of(usable - std::min(usable, spared_bytes), entries));
    entries.push_back(entry_.get());
  });
}

MemoryPromise::~MemoryPromise() {
  if (entry_ != nullptr) {
    entry_->account.change([&](auto& entries) { std::erase(entries, entry_.get()); });
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
    entry_->account.change([&](auto&) { entry_->bytes = bytes; });
  }
}

void MemoryPromise::count_taken(std::function<std::uint64_t()> taken) {
  if (entry_ != nullptr) {
    entry_->account.change([&](auto&) { entry_->taken = std::move(taken); });
  }
}

std::uint64_t MemoryPromise::left_bytes() {
  const std::uint64_t usable = memory_for_budgets();
  std::uint64_t left = usable;
  MemoryAccount::here().change([&](auto& entries) { left = MemoryAccount::rest_of(usable, entries); });
  return left;
}

}  // namespace tiermap
