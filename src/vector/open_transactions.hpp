// Which transactions of a vector are open.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tiermap {

class TransactionPrefetcher;

/// Shared by the vector and its transactions: one that ends after its vector was moved to another finds it, and takes
/// itself off it. Thread-safe.
class OpenTransactions {
 public:
  /// `in_cache` counts those of all vectors in one cache that share its memory.
  explicit OpenTransactions(std::shared_ptr<std::atomic<std::uint32_t>> in_cache) : in_cache_(std::move(in_cache)) {}
  /// `shares`: it takes of the memory what is its share.
  void begin(const TransactionPrefetcher& transaction, bool shares);
  void end(const TransactionPrefetcher& transaction, bool shares) noexcept;
  /// Those of this vector, also those that take no share.
  std::size_t count() const;
  std::uint32_t sharers() const noexcept { return in_cache_->load(std::memory_order_relaxed); }
  /// What the first of them that goes as far as to `element` has still to access up to; 0: none does.
  std::uint64_t needed_behind(std::uint64_t element) const;

 private:
  mutable std::mutex mutex_;
  std::vector<const TransactionPrefetcher*> transactions_;  ///< Guarded by mutex_.
  const std::shared_ptr<std::atomic<std::uint32_t>> in_cache_;
};

}  // namespace tiermap
