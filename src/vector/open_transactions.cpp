#include "vector/open_transactions.hpp"

#include "vector/transaction_prefetcher.hpp"

namespace tiermap {

void OpenTransactions::begin(const TransactionPrefetcher& transaction, bool shares) {
  const std::lock_guard held(mutex_);
  transactions_.push_back(&transaction);
  in_cache_->fetch_add(shares ? 1 : 0, std::memory_order_relaxed);
}

void OpenTransactions::end(const TransactionPrefetcher& transaction, bool shares) noexcept {
  const std::lock_guard held(mutex_);
  std::erase(transactions_, &transaction);
  in_cache_->fetch_sub(shares ? 1 : 0, std::memory_order_relaxed);
}

std::size_t OpenTransactions::count() const {
  const std::lock_guard held(mutex_);
  return transactions_.size();
}

std::uint64_t OpenTransactions::needed_behind(std::uint64_t element) const {
  const std::lock_guard held(mutex_);
  for (const TransactionPrefetcher* const transaction : transactions_) {
    if (const std::uint64_t until = transaction->needed_until(); until > element) {
      return until;
    }
  }
  return 0;
}

}  // namespace tiermap
