// A SerializedVector: elements that are more than their bytes (texts, lists, whatever has pointers in it), each written
// and read by functions that the program gives. Elements come and go as values: there are no references to them, since
// what lies in the store is only a record of each. docs/vectors.md teaches it by example.
#pragma once

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tiermap/cache.hpp"
#include "tiermap/error.hpp"
#include "tiermap/serialized_transaction.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {

/// What writes and reads elements: write() adds the bytes of one to the end of `bytes`, which is empty; read() makes
/// one of exactly these bytes. Called from any threads at once; what they throw reaches the caller.
template <typename S, typename T>
concept SerializerOf =
    requires(const S& serializer, const T& element, std::vector<std::byte>& bytes, std::span<const std::byte> record) {
      serializer.write(element, bytes);
      { serializer.read(record) } -> std::convertible_to<T>;
    };

struct SerializedVectorOptions {
  /// Where the index is: 16 bytes an element. Default: beside the records, with ".index" behind its name; of stores
  /// other than file: and sparse: it must be said.
  std::string index_url = {};
  /// Of records and index together; of each in address space.
  VectorOptions vector = {};
};

/// The default of SerializedVectorOptions::index_url. Throws OptionError where there is none.
std::string default_index_url(const std::string& url);

/// `use(index, element)`, or `use(element)` where it takes one argument.
template <typename Use, typename Element>
void use_element(Use& use, std::uint64_t index, Element&& element) {
  if constexpr (std::invocable<Use&, std::uint64_t, Element>) {
    use(index, std::forward<Element>(element));
  } else {
    use(std::forward<Element>(element));
  }
}

/// Elements that are read, in the order of `Pattern`, as SerializedVector::read() makes it.
template <typename Elements, typename Pattern>
class SerializedReading final : public Pattern {
 public:
  template <typename Of>
  SerializedReading(const Elements& vector, const SerializedStorage& storage, const Of& pattern,
                    const TransactionOptions& options)
      : Pattern(storage, Intent::read, pattern, options), vector_(vector) {}

  /// Calls `use` with each element, or with its index and it.
  template <typename Use>
  void for_each(Use&& use) {
    this->for_each_turn([&](std::uint64_t first, std::uint64_t count) {
      for (std::uint64_t at = first; at < first + count; ++at) {
        use_element(use, this->element(at), vector_[this->element(at)]);
      }
    });
  }

 private:
  const Elements& vector_;
};

/// Elements that are set, or read and set.
template <typename Elements, typename Pattern>
class SerializedWriting final : public Pattern {
 public:
  template <typename Of>
  SerializedWriting(Elements& vector, const SerializedStorage& storage, Intent intent, const Of& pattern,
                    const TransactionOptions& options)
      : Pattern(storage, intent, pattern, options), vector_(vector) {}

  /// Sets each element to what `make(index)` returns.
  template <typename Make>
  void set_each(Make&& make) {
    this->for_each_turn([&](std::uint64_t first, std::uint64_t count) {
      for (std::uint64_t at = first; at < first + count; ++at) {
        vector_.set(this->element(at), make(this->element(at)));
      }
    });
  }
  /// Calls `change` with each element, or with its index and it, and sets it to what it is then.
  template <typename Change>
  void for_each(Change&& change) {
    this->for_each_turn([&](std::uint64_t first, std::uint64_t count) {
      for (std::uint64_t at = first; at < first + count; ++at) {
        typename Elements::value_type element = vector_[this->element(at)];
        use_element(change, this->element(at), element);
        vector_.set(this->element(at), element);
      }
    });
  }

 private:
  Elements& vector_;
};

/// Appends elements in pieces, as AppendTransaction.
template <typename T, typename Serializer>
class SerializedAppending {
 public:
  SerializedAppending(const Serializer& serializer, Vector<std::byte>& records, Vector<RecordPlace>& index)
      : serializer_(serializer), records_(records), index_(index) {}
  SerializedAppending(const SerializedAppending&) = delete;
  SerializedAppending& operator=(const SerializedAppending&) = delete;
  /// commit(), whose errors are lost.
  ~SerializedAppending() {
    try {
      commit();
    } catch (...) {  // Said above: who wants to know calls commit().
    }
  }
  /// Throws as commit(), or what the serializer throws, and has not taken the element then.
  void push_back(const T& element) {
    if (bytes_.size() >= piece_bytes || places_.size() >= piece_elements) {
      commit();
    }
    const std::size_t before = bytes_.size();
    record_.clear();
    serializer_.write(element, record_);
    try {
      bytes_.insert(bytes_.end(), record_.begin(), record_.end());
      places_.push_back({before, record_.size()});
    } catch (...) {
      bytes_.resize(before);
      throw;
    }
  }
  /// Puts what was pushed so far into the vector. Throws as Vector::append(); it can be tried again then.
  void commit() {
    if (!bytes_.empty()) {
      const std::uint64_t offset = records_.append(std::span<const std::byte>(bytes_));
      for (; placed_ < places_.size(); ++placed_) {
        RecordPlace& place = places_[placed_];
        place.offset = place.bytes == 0 ? 0 : place.offset + offset;
      }
      records_.storage().leave({offset, bytes_.size()});
      bytes_.clear();
    }
    if (!places_.empty()) {  // Also those whose records were written by a commit() that failed here.
      const std::uint64_t first = index_.append(std::span<const RecordPlace>(places_));
      index_.storage().leave({first, places_.size()});
      places_.clear();
      placed_ = 0;
    }
  }

 private:
  static constexpr std::size_t piece_bytes = std::size_t{64} << 10U;
  static constexpr std::size_t piece_elements = piece_bytes / sizeof(RecordPlace);

  const Serializer& serializer_;
  Vector<std::byte>& records_;
  Vector<RecordPlace>& index_;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> record_;    ///< Of one element, apart: a serializer that does more than add spoils no others.
  std::vector<RecordPlace> places_;  ///< Their offsets within bytes_;
  std::size_t placed_ = 0;           ///< but of so many, whose records are written, where these are.
};

/// Elements of any type in two stores: records, one behind the other in the order in which they were written, and an
/// index, which says of each element where its record is and how long. Movable; the destructor closes it and never
/// removes what is stored; errors are lost there, so call close().
///
/// Elements may be read by any threads at once, and appended, and set, as long as no two use one element of which one
/// sets it, by a transaction or without. The other functions are for one thread while no other uses the vector. Errors
/// are those of Vector, also where it is closed or was moved to another.
///
/// The records only grow: an element that is set to more bytes than it had gets a new record, and the old one's bytes
/// are of no use any more (unused_bytes()), as are those of elements that were cut off. copy_to() writes all elements
/// to another vector without such gaps.
///
/// After a crash the stores have what sync() or close() left; elements that were appended or set since may be there, be
/// empty, or be torn.
template <typename T, SerializerOf<T> Serializer>
class SerializedVector {
 public:
  using value_type = T;

  /// Makes one without elements. What the URLs name must not exist.
  static SerializedVector create(const std::string& url, const SerializedVectorOptions& options = {},
                                 Serializer serializer = {}) {
    SerializedVector made(url, options, std::move(serializer));
    made.records_ = made.make_part<std::byte>(url);
    try {
      made.index_ = made.make_part<Entry>(made.index_url_);
    } catch (...) {
      made.discard_records();
      throw;
    }
    return made;
  }
  static SerializedVector open(const std::string& url, const SerializedVectorOptions& options = {},
                               Serializer serializer = {}) {
    SerializedVector made(url, options, std::move(serializer));
    made.records_ = std::make_unique<Vector<std::byte>>(Vector<std::byte>::open(url, made.options_));
    made.index_ = std::make_unique<Vector<Entry>>(Vector<Entry>::open(made.index_url_, made.options_));
    return made;
  }
  /// The same for reading alone.
  static SerializedVector open_read_only(const std::string& url, const SerializedVectorOptions& options = {},
                                         Serializer serializer = {}) {
    SerializedVector made(url, options, std::move(serializer));
    made.records_ = std::make_unique<Vector<std::byte>>(Vector<std::byte>::open_read_only(url, made.options_));
    made.index_ = std::make_unique<Vector<Entry>>(Vector<Entry>::open_read_only(made.index_url_, made.options_));
    return made;
  }
  /// A volatile one, as Vector::temporary().
  static SerializedVector temporary(const SerializedVectorOptions& options = {}, Serializer serializer = {},
                                    const std::string& folder = "/var/tmp") {
    SerializedVectorOptions both = options;
    both.index_url = folder;
    SerializedVector made(folder, both, std::move(serializer));
    made.records_ = std::make_unique<Vector<std::byte>>(Vector<std::byte>::temporary(0, made.options_, folder));
    made.index_ = std::make_unique<Vector<Entry>>(Vector<Entry>::temporary(0, made.options_, folder));
    return made;
  }

  std::uint64_t size() const noexcept { return index_ == nullptr ? 0 : index_->size(); }
  bool empty() const noexcept { return size() == 0; }
  const std::string& url() const noexcept {
    static const std::string none;
    return records_ == nullptr ? none : records_->url();
  }

  /// An element, made of its record. The index is not checked. Throws StoreError if the record is not there, as with an
  /// index of other records.
  T operator[](std::uint64_t index) const { return serializer_.read(record(index)); }
  /// Throws OptionError (ERANGE).
  T at(std::uint64_t index) const {
    require_open();
    static_cast<void>(index_->at(index));
    return (*this)[index];
  }
  /// The bytes of an element, as they lie in the store: valid until it is set, or the vector changes otherwise but by
  /// append().
  std::span<const std::byte> record(std::uint64_t index) const {
    require_open();
    const Entry entry = (*index_)[index];
    const std::uint64_t end = records_->size();
    if (entry.offset > end || entry.bytes > end - entry.offset) {
      throw StoreError(EINVAL, "vector " + url() + " has no record for element " + std::to_string(index) +
                                   ", which is to lie past its " + std::to_string(end) +
                                   " bytes: open it with the index that was made with it");
    }
    return {records_->data() + entry.offset, static_cast<std::size_t>(entry.bytes)};
  }

  /// Adds an element at the end and returns its index.
  std::uint64_t append(const T& element) {
    require_open();
    const Entry entry = add_record(bytes_of(element));
    return index_->append(entry);
  }
  /// Replaces an element: in place if its record has room, else by a new record. Throws OptionError (EROFS) of one that
  /// is open for reading alone.
  void set(std::uint64_t index, const T& element) {
    require_open();
    index_->storage().require_writable();
    const std::vector<std::byte> bytes = bytes_of(element);
    Entry& entry = index_->at(index);
    if (bytes.size() > entry.bytes) {
      entry = add_record(bytes);
      return;
    }
    std::copy(bytes.begin(), bytes.end(), records_->data() + (record(index).data() - records_->data()));
    entry.bytes = bytes.size();
  }

  // --- Transactions: what will be accessed next, see tiermap/serialized_transaction.hpp, and tiermap/transaction.hpp.
  // Ranges that leave the vector throw OptionError (ERANGE). Each is one thread's, and ends before the vector is moved.

  /// All elements there are now.
  VectorRange all() const noexcept { return {0, size()}; }
  using StridedReading = SerializedReading<SerializedVector, StridedElements>;
  using RandomReading = SerializedReading<SerializedVector, RandomElements>;
  using StridedWriting = SerializedWriting<SerializedVector, StridedElements>;
  using RandomWriting = SerializedWriting<SerializedVector, RandomElements>;
  StridedReading read() { return read(all()); }
  StridedReading read(VectorRange range, const TransactionOptions& options = {}) {
    return read(Strided(range, 1), options);
  }
  StridedReading read(Strided pattern, const TransactionOptions& options = {}) {
    return {*this, storage(), pattern, options};
  }
  RandomReading read(Random pattern, const TransactionOptions& options = {}) {
    return {*this, storage(), pattern, options};
  }
  /// For set_each(): what was there is not read.
  StridedWriting write() { return write(all()); }
  StridedWriting write(VectorRange range, const TransactionOptions& options = {}) {
    return write(Strided(range, 1), options);
  }
  StridedWriting write(Strided pattern, const TransactionOptions& options = {}) {
    return {*this, storage(), Intent::write, pattern, options};
  }
  RandomWriting write(Random pattern, const TransactionOptions& options = {}) {
    return {*this, storage(), Intent::write, pattern, options};
  }
  /// For for_each(), whose function is given each element to change it.
  StridedWriting read_write() { return read_write(all()); }
  StridedWriting read_write(VectorRange range, const TransactionOptions& options = {}) {
    return read_write(Strided(range, 1), options);
  }
  StridedWriting read_write(Strided pattern, const TransactionOptions& options = {}) {
    return {*this, storage(), Intent::read_write, pattern, options};
  }
  RandomWriting read_write(Random pattern, const TransactionOptions& options = {}) {
    return {*this, storage(), Intent::read_write, pattern, options};
  }
  /// Elements one by one to the end, in pieces: any number of threads, each with one of its own.
  SerializedAppending<T, Serializer> append() {
    require_open();
    return {serializer_, *records_, *index_};
  }
  /// One of the program's own class, derived from SerializedTransaction, whose constructor is given the storage and
  /// `arguments`.
  template <typename Derived, typename... Arguments>
  Derived transaction(Arguments&&... arguments) {
    return Derived(storage(), std::forward<Arguments>(arguments)...);
  }

  /// Removes the elements from `count` on. Throws OptionError (EBUSY), and changes nothing, where an open transaction
  /// has still to access one of them.
  void truncate(std::uint64_t count) {
    require_open();
    if (count < size()) {
      index_->resize(count);
    }
  }

  /// Calls `work` with each element, in order.
  template <typename Work>
  void for_each(Work&& work) const {
    require_open();
    for (std::uint64_t index = 0, count = size(); index < count; ++index) {
      work((*this)[index]);
    }
  }
  /// Appends all elements to another vector, one record behind the other: what is not used is left behind.
  void copy_to(SerializedVector& other) const {
    require_open();
    other.require_open();
    for (std::uint64_t index = 0, count = size(); index < count; ++index) {
      const Entry entry = other.add_record(record(index));
      other.index_->append(entry);
    }
  }
  /// Of all records, those that belong to no element included.
  std::uint64_t record_bytes() const noexcept { return records_ == nullptr ? 0 : records_->size(); }
  /// How many bytes of the records belong to no element. Reads the index.
  std::uint64_t unused_bytes() const {
    require_open();
    std::uint64_t used = 0;
    for (const Entry& entry : index_->span()) {
      used += entry.bytes;
    }
    return records_->size() - used;
  }

  /// As those of Vector; of sync() and close() the records come first, so that no element is durable before its record.
  void bound_memory(std::uint64_t bytes) {
    require_open();
    if (own_cache_ == nullptr) {
      throw OptionError("vector " + url() + " is in a cache with others: change that cache's budget");
    }
    own_cache_->set_budget_bytes(bytes);
  }
  void sync() {
    require_open();
    records_->sync();
    index_->sync();
  }
  void close() {
    if (records_ != nullptr) {
      records_->close();
      index_->close();
    }
  }
  void destroy() {
    require_not_moved();
    records_->storage().require_removable();
    index_->storage().require_removable();
    records_->destroy();
    index_->destroy();
  }

 private:
  using Entry = RecordPlace;

  SerializedVector(const std::string& url, const SerializedVectorOptions& options, Serializer serializer)
      : serializer_(std::move(serializer)),
        index_url_(options.index_url.empty() ? default_index_url(url) : options.index_url),
        options_(options.vector) {
    if (options_.cache == nullptr) {
      CacheOptions wanted;
      wanted.budget_bytes = std::exchange(options_.budget_bytes, std::nullopt);
      own_cache_ = std::make_unique<Cache>(wanted);
      options_.cache = own_cache_.get();
    }
  }
  void require_not_moved() const {
    if (records_ == nullptr) {
      throw OptionError("the vector was moved to another: use that one, or open it again", EBADF);
    }
  }
  void require_open() const {
    require_not_moved();
    records_->storage().require_open();
    index_->storage().require_open();
  }
  SerializedStorage storage() const {
    require_open();
    return {records_->storage(), index_->storage()};
  }
  template <typename Part>
  std::unique_ptr<Vector<Part>> make_part(const std::string& url) const {
    return std::make_unique<Vector<Part>>(Vector<Part>::create(url, 0, options_));
  }

  /// Nothing is made where not both are; but a store of many files, which cannot be removed here, stays.
  void discard_records() noexcept {
    try {
      records_->destroy();
    } catch (const Error&) {  // Why the index could not be made is what matters.
    }
  }

  std::vector<std::byte> bytes_of(const T& element) const {
    std::vector<std::byte> bytes;
    serializer_.write(element, bytes);
    return bytes;
  }
  Entry add_record(std::span<const std::byte> bytes) {
    return bytes.empty() ? Entry{} : Entry{records_->append(bytes), bytes.size()};
  }

  Serializer serializer_;
  std::string index_url_;
  VectorOptions options_;
  std::unique_ptr<Cache> own_cache_;  ///< Of both.
  std::unique_ptr<Vector<std::byte>> records_;
  std::unique_ptr<Vector<Entry>> index_;
};

}  // namespace tiermap
