// Transactions: what a program is about to access in a Vector, said before it does, so that pages are in memory in time
// and those that it is done with leave first. They change nothing of what the elements are, and nobody needs them:
// without one, page faults serve. Vector::read() and its like make them; docs/vectors.md teaches them by example.
//
// The prefetcher is that of MegaMmap (Logan and others, section III.D, Algorithm 1): at every turn the pages that were
// touched and will not be touched again in the window ahead are given up first, those ahead are fetched.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tiermap/vector_storage.hpp"

namespace tiermap {

/// What will be done with the elements. Of those that are written, pages are written to the store in the background as
/// soon as the transaction has left them.
enum class Intent : std::uint8_t { read, write, read_write };

struct TransactionOptions {
  /// Off: pages come by faults alone, as without a transaction.
  bool prefetch = true;
  /// How much may be in memory ahead of the program, in bytes; never more than three quarters of the vector's budget.
  /// Default: half of it, shared among the transactions that are open on any vector in its cache and do not say, and at
  /// most 256 MiB.
  std::uint64_t window_bytes = 0;
};

/// Several accesses, one after the other, to one page.
struct PageAccesses {
  std::uint64_t page = 0;  ///< Counted from the vector's first byte, in pages of its region.
  std::uint64_t accesses = 0;
};

/// Elements first, first + stride, and so on, of a range; by a stride that leaves it, the first alone. A stride of 0
/// throws OptionError.
struct Strided {
  Strided(VectorRange of, std::uint64_t step) : range(of), stride(step) {}
  VectorRange range;
  std::uint64_t stride;
};

/// So many elements drawn from a range, each as likely as any other, the same for the same seed whoever draws them.
struct Random {
  Random(VectorRange of, std::uint64_t seed_of_them, std::uint64_t how_many)
      : range(of), seed(seed_of_them), accesses(how_many) {}
  VectorRange range;
  std::uint64_t seed;
  std::uint64_t accesses;
};

/// Which element an access of that is: splitmix64 (Steele, Lea and Flood, OOPSLA 2014) of the seed and the access's
/// number, so that there is no state and any access can be looked at.
inline std::uint64_t random_element(const Random& pattern, std::uint64_t position) noexcept {
  std::uint64_t value = pattern.seed + (position + 1) * 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  value ^= value >> 31U;
  __extension__ using Product = unsigned __int128;
  return pattern.range.first + static_cast<std::uint64_t>(static_cast<Product>(value) * pattern.range.count >> 64U);
}

/// What a transaction did so far.
struct TransactionStatistics {
  std::uint64_t pages = 0;    ///< Needed by the accesses looked at so far; one that is needed again later counts again.
  std::uint64_t in_time = 0;  ///< Of those, pages that had come, and were there, when the program came near them.
};

/// The accesses of one thread to one vector, counted from 0. Derive from it to describe accesses that the transactions
/// below do not: pages() says which page each of them touches, and who makes the accesses says how far it is by
/// advance(). Transactions are used by one thread, end before their vector, and are not moved. There may be any number
/// of them at once.
///
/// A vector that grows meanwhile does not change what they access. It cannot be cut off (OptionError, EBUSY) before an
/// element that an open one has still to access, until that is at its end, or ended.
class Transaction {
 public:
  Transaction(VectorStorage& vector, Intent intent, std::uint64_t length, const TransactionOptions& options = {});
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  /// What was changed and is not written yet is on its way then.
  virtual ~Transaction();

  /// Appends to `runs` which pages are touched from access `position` on, in the order of the accesses: `count` runs,
  /// or fewer at the end. It is a hint: what is wrong about it costs time and nothing else.
  virtual void pages(std::uint64_t position, std::uint64_t count, std::vector<PageAccesses>& runs) const = 0;

  std::uint64_t length() const noexcept { return length_; }      ///< How many accesses there will be.
  std::uint64_t position() const noexcept { return position_; }  ///< How many there have been.
  Intent intent() const noexcept { return intent_; }

  /// So many more accesses have been made. Cheap; the prefetcher takes its turn every few pages.
  void advance(std::uint64_t accesses) {
    position_ += std::min(accesses, length_ - position_);
    if (position_ >= next_turn_) {
      turn();
    }
  }
  /// How many accesses may be made before advance() is to be called; 0 at the end.
  std::uint64_t until_turn() {
    if (position_ >= next_turn_) {
      turn();
    }
    return std::min(next_turn_, length_) - position_;
  }

  /// Goes to the end: calls `make(position, count)` for the accesses until each turn.
  template <typename Make>
  void for_each_turn(Make&& make) {
    for (std::uint64_t count = until_turn(); count > 0; count = until_turn()) {
      make(position_, count);
      advance(count);
    }
  }

  /// Writes what was changed in the vector so far, by whomever, to the store, in blocks of 4 KiB in which some byte
  /// changed; not durably, that is Vector::sync(). Nothing if the transaction only reads. Throws like
  /// Region::write_back(), and may be called again then.
  void commit();
  TransactionStatistics statistics() const noexcept;

 protected:
  /// For the constructor: no access touches an element from this one on, so that the vector may be cut off there while
  /// the transaction is open. Left out: none that the vector did not have then.
  void touches_until(std::uint64_t element) noexcept;
  /// For pages(): in elements of the vector, wherever they begin.
  std::uint64_t page_of(std::uint64_t element) const noexcept { return element * element_bytes_ / page_bytes_; }
  /// The first element that begins behind the page.
  std::uint64_t end_of_page(std::uint64_t page) const noexcept {
    return ((page + 1) * page_bytes_ + element_bytes_ - 1) / element_bytes_;
  }

 private:
  friend class SerializedTransaction;
  void turn();

  const Intent intent_;
  const std::uint64_t length_;
  const std::uint64_t element_bytes_;
  const std::uint64_t page_bytes_;
  std::uint64_t position_ = 0;
  std::uint64_t next_turn_ = 0;
  std::unique_ptr<class TransactionPrefetcher> prefetcher_;
};

/// The pages of Strided.
class StridedPages : public Transaction {
 public:
  StridedPages(VectorStorage& vector, Intent intent, Strided pattern, const TransactionOptions& options);
  void pages(std::uint64_t position, std::uint64_t count, std::vector<PageAccesses>& runs) const final;

 protected:
  const std::uint64_t first_;
  const std::uint64_t stride_;
};

/// The pages of Random.
class RandomPages : public Transaction {
 public:
  RandomPages(VectorStorage& vector, Intent intent, Random pattern, const TransactionOptions& options);
  void pages(std::uint64_t position, std::uint64_t count, std::vector<PageAccesses>& runs) const final;

  /// The element of an access.
  std::uint64_t element(std::uint64_t position) const noexcept { return random_element(pattern_, position); }

 private:
  const Random pattern_;
};

/// A range of elements, one after the other. T is const where they are only read.
template <typename T>
class SequentialTransaction final : public StridedPages {
 public:
  SequentialTransaction(VectorStorage& vector, Intent intent, VectorRange range, const TransactionOptions& options)
      : StridedPages(vector, intent, {range, 1}, options), memory_(reinterpret_cast<T*>(vector.data())) {}

  /// The next elements, as many as lie ahead until the prefetcher's next turn; empty at the end. A plain array: loops
  /// over it are as fast as any.
  std::span<T> next() {
    advance(given_);
    given_ = until_turn();
    return {memory_ + first_ + position(), static_cast<std::size_t>(given_)};
  }
  /// Calls `use` with each element, in order.
  template <typename Use>
  void for_each(Use&& use) {
    for (std::span<T> part = next(); !part.empty(); part = next()) {
      for (T& element : part) {
        use(element);
      }
    }
  }

 private:
  T* const memory_;
  std::uint64_t given_ = 0;  ///< By the last next(); not counted yet.
};

/// Every stride-th element of a range.
template <typename T>
class StridedTransaction final : public StridedPages {
 public:
  StridedTransaction(VectorStorage& vector, Intent intent, Strided pattern, const TransactionOptions& options)
      : StridedPages(vector, intent, pattern, options), memory_(reinterpret_cast<T*>(vector.data())) {}

  /// Calls `use` with each element, in order.
  template <typename Use>
  void for_each(Use&& use) {
    for_each_turn([&](std::uint64_t first, std::uint64_t count) {
      T* element = memory_ + first_ + first * stride_;
      for (std::uint64_t done = 0; done < count; ++done, element += stride_) {
        use(*element);
      }
    });
  }

 private:
  T* const memory_;
};

/// Random elements of a range.
template <typename T>
class RandomTransaction final : public RandomPages {
 public:
  RandomTransaction(VectorStorage& vector, Intent intent, Random pattern, const TransactionOptions& options)
      : RandomPages(vector, intent, pattern, options), memory_(reinterpret_cast<T*>(vector.data())) {}

  /// Calls `use` with the index of each element, and the element.
  template <typename Use>
  void for_each(Use&& use) {
    for_each_turn([&](std::uint64_t first, std::uint64_t count) {
      for (std::uint64_t at = first; at < first + count; ++at) {
        const std::uint64_t index = element(at);
        use(index, memory_[index]);
      }
    });
  }

 private:
  T* const memory_;
};

/// Appends elements in pieces, so that threads seldom meet. Each piece stays together; pieces of several threads come
/// as they come, each at the end that the vector has then.
template <typename T>
class AppendTransaction {
 public:
  explicit AppendTransaction(VectorStorage& vector) : vector_(vector) { piece_.reserve(piece_elements); }
  AppendTransaction(const AppendTransaction&) = delete;
  AppendTransaction& operator=(const AppendTransaction&) = delete;
  /// commit(), whose errors are lost.
  ~AppendTransaction() {
    try {
      commit();
    } catch (...) {  // Said above: who wants to know calls commit().
    }
  }
  /// Commits the piece before it where that is full. Throws as commit(), and has not taken the element then.
  void push_back(const T& element) {
    if (piece_.size() == piece_elements) {
      commit();
    }
    piece_.push_back(element);
  }
  /// Puts what was pushed so far into the vector. Throws as Vector::append(); it can be tried again then.
  void commit() {
    const std::uint64_t index = vector_.extend(piece_.size());
    std::copy(piece_.begin(), piece_.end(), reinterpret_cast<T*>(vector_.data()) + index);
    vector_.leave({index, piece_.size()});
    piece_.clear();
  }

 private:
  static constexpr std::size_t piece_elements = std::max<std::size_t>((std::size_t{64} << 10U) / sizeof(T), 1);
  VectorStorage& vector_;
  std::vector<T> piece_;
};

}  // namespace tiermap
