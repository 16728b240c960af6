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

namespace {

/// What budgets may be shares of: of the memory, and of the addresses.
struct Limits {
  std::uint64_t memory = read_machine_memory().usable_bytes();
  std::uint64_t addresses = addresses_for_budgets();
};

}  // namespace

/// What one process has promised. A forked child has another: it looks at nothing of its parent's, whose threads may
/// have had the mutex, and who forks waits for nobody.
class MemoryAccount {
 public:
  /// Of this process. Never destroyed: caches may end by destructors that run after those of this file.
  static MemoryAccount& here() {
    static constinit std::atomic<MemoryAccount*> current = nullptr;
    MemoryAccount* known = current.load();
    while (known == nullptr || !known->is_here()) {
      auto account = std::make_unique<MemoryAccount>();
      if (current.compare_exchange_strong(known, account.get())) {
        return *account.release();
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
  /// What is left of what there is, of whose memory some is spared. What is taken the machine no longer has; a limit of
  /// addresses says nothing of it. With the mutex held.
  static std::uint64_t rest_of(const Limits& there, std::uint64_t spared_bytes,
                               const std::vector<const MemoryPromise::Entry*>& entries) {
    std::uint64_t memory = there.memory - std::min(there.memory / 8, spared_bytes);
    std::uint64_t addresses = there.addresses;
    for (const MemoryPromise::Entry* entry : entries) {
      const std::uint64_t taken = entry->taken ? entry->taken() : 0;
      memory -= std::min(memory, entry->bytes - std::min(entry->bytes, taken));
      addresses -= std::min(addresses, entry->bytes);
    }
    const std::uint64_t all = std::min(there.memory, there.addresses);
    return std::max(std::min(memory, addresses), std::min(all / 8, MemoryPromise::least_left_bytes));
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
  const Limits there;
  entry_->account.change([&](auto& entries) {
    entry_->bytes = choose(MemoryAccount::rest_of(there, spared_bytes, entries));
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
  const Limits there;
  std::uint64_t left = 0;
  MemoryAccount::here().change([&](auto& entries) { left = MemoryAccount::rest_of(there, 0, entries); });
  return left;
}

}  // namespace tiermap
