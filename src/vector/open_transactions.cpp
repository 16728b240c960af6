#include "vector/open_transactions.hpp"

#include "vector/transaction_prefetcher.hpp"

namespace tiermap {

void OpenTransactions::begin(const TransactionPrefetcher& transaction) {
  const std::lock_guard held(mutex_);
  transactions_.push_back(&transaction);
  count_.fetch_add(1, std::memory_order_relaxed);
}

void OpenTransactions::end(const TransactionPrefetcher& transaction) noexcept {
  const std::lock_guard held(mutex_);
  std::erase(transactions_, &transaction);
  count_.fetch_sub(1, std::memory_order_relaxed);
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
