// A Vector: elements of one type that live in a store, many times larger than DRAM, under a budget of their own. It is
// a Region, so an element that is in memory is a plain load, and references stay valid while the vector is open.
// docs/vectors.md teaches it by example.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tiermap/error.hpp"
#include "tiermap/region.hpp"
#include "tiermap/tiers.hpp"
#include "tiermap/transaction.hpp"
#include "tiermap/vector_storage.hpp"

namespace tiermap {

/// Elements seen as an array of N dimensions, the last one the fastest, in a vector or any other memory. As cheap to
/// copy as a pointer. Indices are not checked.
template <typename T, std::size_t Dimensions>
class ArrayView {
 public:
  ArrayView(T* first, const std::array<std::uint64_t, Dimensions>& extents) noexcept
      : first_(first), extents_(extents) {}

  template <typename... Indices>
    requires(sizeof...(Indices) == Dimensions)
  T& operator()(Indices... indices) const noexcept {
    std::uint64_t place = 0;
    std::size_t dimension = 0;
    ((place = place * extents_[dimension++] + static_cast<std::uint64_t>(indices)), ...);
    return first_[place];
  }
  std::uint64_t extent(std::size_t dimension) const noexcept { return extents_[dimension]; }
  std::uint64_t size() const noexcept {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : extents_) {
      count *= extent;
    }
    return count;
  }
  T* data() const noexcept { return first_; }
  /// What is left when the first index is fixed.
  ArrayView<T, Dimensions - 1> operator[](std::uint64_t index) const noexcept
    requires(Dimensions > 1)
  {
    std::array<std::uint64_t, Dimensions - 1> rest;
    std::copy(extents_.begin() + 1, extents_.end(), rest.begin());
    return {first_ + index * ArrayView<T, Dimensions - 1>(first_, rest).size(), rest};
  }

 private:
  T* first_;
  std::array<std::uint64_t, Dimensions> extents_;
};

/// A vector of trivially copyable elements in a store named by a URL (open_store()): one element after the other, and
/// nothing else, so that any other program can read it. Movable; the destructor closes it and never removes what is
/// stored; errors are lost there, so call close(). A second one of this process that writes to the same is refused.
///
/// Elements may be read and written by any threads as in memory. append() may be called by any threads at once;
/// resize(), bound_memory(), close(), destroy() and moving are for one thread, while no other uses the vector. Errors
/// are a StoreError that names the URL and what to do, OptionError for values that cannot be, PlatformError as Cache().
/// Of a vector that is closed, or was moved to another, what needs elements throws OptionError (EBADF). In a child of
/// fork() a vector is the parent's: its memory is not there, and what would write to its store throws Error (ECHILD).
///
/// After a crash the store has what sync() or close() left, and a whole number of elements. What was changed or
/// appended since may be there, be zero, or in an element that lies in two blocks of 4 KiB be there in part.
template <typename T>
class Vector {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>, "elements are stored as their bytes");
  static_assert(!std::is_pointer_v<T>, "a pointer means nothing in another process");

 public:
  using value_type = T;

  /// Makes a vector of `count` elements, all bytes zero. What the URL names must not exist.
  static Vector create(const std::string& url, std::uint64_t count = 0, const VectorOptions& options = {}) {
    return Vector(VectorStorage::How::create, url, count, options);
  }
  /// Opens one for reading and writing. Throws StoreError if what is there is no whole number of elements, or, where
  /// the store's format says what they are (npy:), if they are others: of another size, kind of number or byte order.
  static Vector open(const std::string& url, const VectorOptions& options = {}) {
    return Vector(VectorStorage::How::open, url, 0, options);
  }
  /// The same for reading alone; elements must not be written to.
  static Vector open_read_only(const std::string& url, const VectorOptions& options = {}) {
    return Vector(VectorStorage::How::open_read_only, url, 0, options);
  }
  /// open() if the URL names something that exists, else create().
  static Vector open_or_create(const std::string& url, std::uint64_t count = 0, const VectorOptions& options = {}) {
    return Vector(VectorStorage::How::open_or_create, url, count, options);
  }
  /// The elements that a store has, of the program's own class or any other; for writing if that is writable. It is
  /// kept until the vector is closed, and nobody else writes to it meanwhile. Throws as open().
  static Vector on(std::shared_ptr<Store> store, const VectorOptions& options = {}) {
    return Vector(std::move(store), options);
  }
  /// A volatile one of `count` elements, all bytes zero: for what is only needed as long as the vector is open. It lies
  /// in a file without a name in `folder`, of which nothing is left afterwards, whatever happens.
  static Vector temporary(std::uint64_t count = 0, const VectorOptions& options = {},
                          const std::string& folder = "/var/tmp") {
    return Vector(VectorStorage::How::temporary, folder, count, options);
  }

  Vector(Vector&& other) noexcept : storage_(std::move(other.storage_)), first_(std::exchange(other.first_, nullptr)) {}
  Vector& operator=(Vector&& other) noexcept {
    storage_ = std::move(other.storage_);
    first_ = std::exchange(other.first_, nullptr);
    return *this;
  }
  ~Vector() = default;

  /// Also of a closed one; 0 of one that was moved to another.
  std::uint64_t size() const noexcept { return storage_.size(); }
  bool empty() const noexcept { return size() == 0; }
  /// How many elements there is address space for.
  std::uint64_t capacity() const noexcept { return storage_.capacity(); }
  bool writable() const noexcept { return storage_.writable(); }
  const std::string& url() const noexcept { return storage_.url(); }

  /// The first element; stays where it is as long as the vector is open, whatever is appended.
  T* data() const noexcept { return first_; }
  T* begin() const noexcept { return first_; }
  T* end() const noexcept { return first_ == nullptr ? nullptr : first_ + size(); }
  /// All elements there are now. For loops that are to be as fast as in memory: size() asks each time.
  std::span<T> span() const noexcept { return {begin(), end()}; }
  std::span<T> span(VectorRange range) const {
    static_cast<void>(storage_.bytes_of(range));
    return {first_ + range.first, static_cast<std::size_t>(range.count)};
  }

  /// Not checked.
  T& operator[](std::uint64_t index) const noexcept { return first_[index]; }
  /// Throws OptionError (ERANGE).
  T& at(std::uint64_t index) const {
    storage_.require_index(index);
    return first_[index];
  }

  /// Adds elements at the end and returns the index of the first of them. Other threads may append at once: size()
  /// counts elements from the moment their place is taken, which may be before they have their value. Throws
  /// OptionError (ENOSPC) beyond capacity().
  std::uint64_t append(const T& element) { return append(std::span<const T>(&element, 1)); }
  std::uint64_t append(std::span<const T> elements) {
    const std::uint64_t index = storage_.extend(elements.size());
    std::copy(elements.begin(), elements.end(), first_ + index);
    return index;
  }
  /// New elements are zeros; those cut off are gone from the store too. Throws OptionError (EBUSY), and changes
  /// nothing, where it would cut off what an open transaction has still to access.
  void resize(std::uint64_t count) { storage_.resize(count); }
  void resize(std::uint64_t count, const T& element) {
    const std::uint64_t before = size();
    storage_.resize(count);
    std::fill(first_ + std::min(before, count), first_ + count, element);
  }

  /// Copies out as many elements as `to` has, or in as many as `from` has. Throws OptionError (ERANGE) unless there are
  /// as many from `first` on, and (EROFS) copying into one that is open for reading alone.
  void copy_to(std::span<T> to, std::uint64_t first = 0) const {
    const std::span<T> here = span({first, to.size()});
    std::copy(here.begin(), here.end(), to.begin());
  }
  void copy_from(std::span<const T> from, std::uint64_t first = 0) {
    const std::span<T> here = span({first, from.size()});
    storage_.require_writable();
    std::copy(from.begin(), from.end(), here.begin());
  }

  /// This process's or thread's part of the elements there are now, of `parts` equal ones.
  VectorRange partition(std::uint64_t rank, std::uint64_t parts) const {
    return tiermap::partition(size(), rank, parts);
  }

  /// The vector as an array of these extents, the last one the fastest. Throws OptionError unless it has as many
  /// elements.
  template <typename... Extents>
  ArrayView<T, sizeof...(Extents)> view(Extents... extents) const {
    const std::array<std::uint64_t, sizeof...(Extents)> wanted{static_cast<std::uint64_t>(extents)...};
    storage_.require_extents(wanted);
    return {first_, wanted};
  }

  /// Changes how much DRAM its pages may take. Throws OptionError where the cache is not its own, and as
  /// Cache::set_budget_bytes().
  void bound_memory(std::uint64_t bytes) { storage_.bound_memory(bytes); }

  // --- Transactions: what will be accessed next, see tiermap/transaction.hpp. Ranges that leave the vector throw
  // OptionError (ERANGE).

  /// All elements there are now.
  VectorRange all() const noexcept { return {0, size()}; }
  SequentialTransaction<const T> read() { return read(all()); }
  SequentialTransaction<T> write() { return write(all()); }
  SequentialTransaction<T> read_write() { return read_write(all()); }
  /// Of a range, one after the other.
  SequentialTransaction<const T> read(VectorRange range, const TransactionOptions& options = {}) {
    return {storage_, Intent::read, range, options};
  }
  SequentialTransaction<T> write(VectorRange range, const TransactionOptions& options = {}) {
    return {storage_, Intent::write, range, options};
  }
  SequentialTransaction<T> read_write(VectorRange range, const TransactionOptions& options = {}) {
    return {storage_, Intent::read_write, range, options};
  }
  /// Of every so-manieth element.
  StridedTransaction<const T> read(Strided pattern, const TransactionOptions& options = {}) {
    return {storage_, Intent::read, pattern, options};
  }
  StridedTransaction<T> write(Strided pattern, const TransactionOptions& options = {}) {
    return {storage_, Intent::write, pattern, options};
  }
  StridedTransaction<T> read_write(Strided pattern, const TransactionOptions& options = {}) {
    return {storage_, Intent::read_write, pattern, options};
  }
  /// Of random elements.
  RandomTransaction<const T> read(Random pattern, const TransactionOptions& options = {}) {
    return {storage_, Intent::read, pattern, options};
  }
  RandomTransaction<T> write(Random pattern, const TransactionOptions& options = {}) {
    return {storage_, Intent::write, pattern, options};
  }
  RandomTransaction<T> read_write(Random pattern, const TransactionOptions& options = {}) {
    return {storage_, Intent::read_write, pattern, options};
  }
  /// Elements one by one to the end, as fast as into an array: any number of threads, each with one of its own.
  AppendTransaction<T> append() { return AppendTransaction<T>(storage_); }
  /// One of the program's own class, derived from Transaction, whose constructor is given the storage and `arguments`.
  template <typename Derived, typename... Arguments>
  Derived transaction(Arguments&&... arguments) {
    return Derived(storage_, std::forward<Arguments>(arguments)...);
  }

  /// Fetches in the background, see Region::prefetch(). Ranges that leave the vector throw OptionError (ERANGE).
  Prefetch prefetch(VectorRange range) {
    const ByteRange bytes = storage_.bytes_of(range);
    return bytes.bytes == 0 ? Prefetch() : storage_.region().prefetch(bytes);
  }
  /// Makes all elements durable, as many as there are. Throws Error with the store's errno if something could not be
  /// written: it stays in memory and is tried again.
  void sync() { storage_.sync(); }
  /// sync() without the promise of durability, and closes; no element may be touched after that. Throws like sync(),
  /// and then stays open. Idempotent.
  void close() {
    storage_.close();
    first_ = nullptr;
  }
  /// Closes it and removes what is stored. Throws StoreError if that cannot be removed, and OptionError (ENOTSUP) for a
  /// store that is not one plain file (`sparse:`, `npy:`, `hdf5:`, ...): nothing is removed then. Nothing is done where
  /// it was removed by this before.
  void destroy() {
    storage_.destroy();
    first_ = nullptr;
  }

  /// What the tiers hold and did, of a vector with a `tiered:` URL. Throws OptionError for any other.
  std::vector<TierReport> tier_reports() const { return storage_.tier_reports(); }

  /// For what is built on vectors, as transactions are.
  VectorStorage& storage() noexcept { return storage_; }
  /// The region that the elements lie in, with address space behind them.
  Region& region() { return storage_.region(); }

 private:
  Vector(VectorStorage::How how, const std::string& url, std::uint64_t count, const VectorOptions& options)
      : storage_(how, url, layout(), count, options), first_(reinterpret_cast<T*>(storage_.data())) {}
  Vector(std::shared_ptr<Store> store, const VectorOptions& options)
      : storage_(std::move(store), layout(), options), first_(reinterpret_cast<T*>(storage_.data())) {}

  /// Of numbers; of others the size is all that can be compared.
  static ElementLayout layout() {
    ElementLayout elements;
    elements.bytes = sizeof(T);
    if constexpr (std::is_arithmetic_v<T>) {
      elements.kind = std::is_same_v<T, bool>       ? 'b'
                      : std::is_floating_point_v<T> ? 'f'
                      : std::is_signed_v<T>         ? 'i'
                                                    : 'u';
    }
    return elements;
  }

  VectorStorage storage_;
  T* first_;
};

}  // namespace tiermap
