// Transactions of a SerializedVector: which elements a program is about to access, from which follows which pages of
// the index and of the records. SerializedVector::read() and its like make them; docs/vectors.md teaches them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "tiermap/transaction.hpp"
#include "tiermap/vector_storage.hpp"

namespace tiermap {

/// Where an element's record is. An index is an array of these.
struct RecordPlace {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// What a SerializedVector lies in.
struct SerializedStorage {
  VectorStorage& records;
  VectorStorage& index;
};

/// The accesses of one thread to the elements of a SerializedVector, counted from 0. Derive from it to describe those
/// that read() and its like do not: elements() says which they are, advance() how far the program is. What is said of
/// Transaction holds here: used by one thread, ended before the vector, not moved, and a hint.
///
/// Two transactions stand behind it. That of the index is ahead of that of the records, which reads in it where the
/// records are: where the index does not fit into an eighth of the budget, some of that is by page faults.
class SerializedTransaction {
 public:
  /// Throws OptionError (EROFS) for one that is to write to what is open for reading.
  SerializedTransaction(const SerializedStorage& vector, Intent intent, std::uint64_t length,
                        const TransactionOptions& options = {});
  SerializedTransaction(const SerializedTransaction&) = delete;
  SerializedTransaction& operator=(const SerializedTransaction&) = delete;
  virtual ~SerializedTransaction();

  /// Appends to `elements` which are accessed from access `position` on: `count`, or fewer at the end.
  virtual void elements(std::uint64_t position, std::uint64_t count, std::vector<std::uint64_t>& elements) const = 0;

  std::uint64_t length() const noexcept;
  std::uint64_t position() const noexcept;
  /// As those of Transaction.
  void advance(std::uint64_t accesses);
  std::uint64_t until_turn();
  template <typename Make>
  void for_each_turn(Make&& make) {
    for (std::uint64_t count = until_turn(); count > 0; count = until_turn()) {
      make(position(), count);
      advance(count);
    }
  }
  /// As Transaction::commit(): the records first.
  void commit();
  /// Of records and index together.
  TransactionStatistics statistics() const noexcept;

 protected:
  /// As that of Transaction, for truncate().
  void touches_until(std::uint64_t element) noexcept;

 private:
  const std::unique_ptr<Transaction> index_;
  const std::unique_ptr<Transaction> records_;
};

/// The elements of Strided; a range is one of stride 1.
class StridedElements : public SerializedTransaction {
 public:
  StridedElements(const SerializedStorage& vector, Intent intent, Strided pattern, const TransactionOptions& options);
  void elements(std::uint64_t position, std::uint64_t count, std::vector<std::uint64_t>& elements) const final;
  std::uint64_t element(std::uint64_t position) const noexcept { return first_ + position * stride_; }

 private:
  const std::uint64_t first_;
  const std::uint64_t stride_;
};

/// The elements of Random.
class RandomElements : public SerializedTransaction {
 public:
  RandomElements(const SerializedStorage& vector, Intent intent, Random pattern, const TransactionOptions& options);
  void elements(std::uint64_t position, std::uint64_t count, std::vector<std::uint64_t>& elements) const final;
  std::uint64_t element(std::uint64_t position) const noexcept { return random_element(pattern_, position); }

 private:
  const Random pattern_;
};

}  // namespace tiermap
