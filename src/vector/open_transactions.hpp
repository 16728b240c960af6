// Which transactions of a vector are open.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tiermap {

class TransactionPrefetcher;

/// Shared by the vector and its transactions: one that ends after its vector was moved to another finds it, and takes
/// itself off it. Thread-safe.
class OpenTransactions {
 public:
  void begin(const TransactionPrefetcher& transaction);
  void end(const TransactionPrefetcher& transaction) noexcept;
  std::uint32_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  /// What the first of them that goes as far as to `element` has still to access up to; 0: none does.
  std::uint64_t needed_behind(std::uint64_t element) const;

 private:
  mutable std::mutex mutex_;
  std::vector<const TransactionPrefetcher*> transactions_;  ///< Guarded by mutex_.
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace tiermap
