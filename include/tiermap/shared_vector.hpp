// A SharedVector: elements that all ranks of a Job (tiermap/job.hpp) read and write, as if they were in the memory of
// each. They lie on the job's memory servers; each rank has the pages that it uses in private frames, under a budget of
// its own, so that an element which is there is a plain load.
//
// Who sees what when (docs/coherence.md says it exactly, with examples that are tests): what a rank wrote goes home
// when it releases (release(), a transaction's commit(), a barrier, the end of a lock), and what others have released
// is seen from the next acquire on (acquire(), the beginning of a transaction, a barrier, the beginning of a lock).
// Only elements that changed travel: ranks that write neighbouring elements do not overwrite each other's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tiermap/error.hpp"
#include "tiermap/job.hpp"
#include "tiermap/shared_statistics.hpp"
#include "tiermap/transaction.hpp"
#include "tiermap/vector_storage.hpp"

namespace tiermap {

/// What all ranks do with a vector until they agree on something else; what is not done costs no messages.
enum class Phase : std::uint8_t {
  shared,  ///< Anybody reads and writes anything.
  /// Nobody writes: pages stay where they are, and nobody asks whether they changed. What is written nevertheless is
  /// discarded by set_phase(), close() or whatever else would bring it home, which throws OptionError (EROFS), and may
  /// be called again; more of it than fits into memory is a SIGBUS.
  read_only,
  local,  ///< Each rank reads and writes elements that no other rank reads or writes, such as its partition.
};

/// On which of the job's servers a vector's stripes lie. A server is near a rank if both are on one host
/// (JobOptions::host); place_by_score() changes it later, whatever it began with.
enum class HomePlacement : std::uint8_t {
  striped,  ///< One stripe after the other.
  /// What partition() gives to a rank on a server near that rank, or on several in turn; a stripe of which several
  /// ranks have a part where most of it is. Where no server is near a rank, or all are, as striped.
  by_partition,
};

struct SharedVectorOptions {
  /// DRAM that this rank gives to it: three quarters for pages, a quarter for copies that changes are told by.
  std::uint64_t budget_bytes = 256ULL << 20;
  /// As in RegionOptions. The same for all ranks.
  std::uint64_t page_size_bytes = 64ULL << 10;
  Advice advice = Advice::normal;
  std::optional<std::uint64_t> read_ahead_bytes = std::nullopt;
  /// So many bytes lie on one server, then as many on the next one. A multiple of the page size, up to 64 TiB.
  std::uint64_t stripe_bytes = 1ULL << 20;
  /// Of a vector that is made; the same for all ranks. OptionError for one that is opened, or of more than 4,194,304
  /// stripes.
  HomePlacement placement = HomePlacement::striped;
  /// For those copies that do not fit into memory: a file without a name.
  std::string scratch_folder = "/var/tmp";
  /// The elements lie at the same address on every rank: pointers to them, kept in this vector or in another, mean the
  /// same on all of them, for as long as it is open. The same for all ranks. Costs two messages a rank, or some more
  /// where the first place that is tried is taken; throws as Job::reserve_addresses().
  bool same_address = false;
};

/// What is common to all shared vectors, whatever their elements.
class SharedStorage {
 public:
  SharedStorage(std::shared_ptr<JobImplementation> job, const std::string& name, const ElementLayout& elements,
                std::optional<std::uint64_t> count, const SharedVectorOptions& options);
  SharedStorage(SharedStorage&&) noexcept;
  SharedStorage& operator=(SharedStorage&&) noexcept;
  ~SharedStorage();

  VectorStorage& vector() const noexcept;
  const std::string& name() const noexcept;
  void acquire();
  void release();
  void set_phase(Phase phase);
  Phase phase() const noexcept;
  void place_by_score();
  void require_writable() const;
  VectorRange own_partition() const;
  /// Calls `change` with a copy of the range's bytes, and puts them home unless somebody was faster: then again.
  void update(VectorRange range, const std::function<void(std::byte*)>& change);
  /// By all ranks; stop_together() by each for itself.
  void start_together(VectorRange range);
  void stop_together(VectorRange range) noexcept;
  /// As many bytes as those elements have, from their home and to it.
  void copy_out(VectorRange range, std::span<std::byte> to);
  void copy_in(VectorRange range, std::span<const std::byte> from);
  std::uint64_t reserve(std::uint64_t count);
  std::uint64_t appended() const;
  void save(const std::string& url);
  void load(const std::string& url);
  void close();
  void destroy();
  SharedStatistics statistics() const;

 private:
  friend class SharedSender;
  std::unique_ptr<class SharedImplementation> implementation_;
};

/// Brings elements home that do not go through frames. For one thread, in the order of indices.
class SharedSender {
 public:
  explicit SharedSender(SharedStorage& storage);
  ~SharedSender();
  SharedSender(const SharedSender&) = delete;
  SharedSender& operator=(const SharedSender&) = delete;
  void send(std::uint64_t first, std::span<const std::byte> bytes);
  /// Returns when all is there.
  void finish();

 private:
  void drop_sent();
  SharedImplementation& vector_;
  std::unique_ptr<class ChangeSender> sender_;
  std::vector<ByteRange> sent_;
};

/// A transaction of one thread over a range, one element after the other, with prefetching (tiermap/transaction.hpp):
/// acquires when it begins, releases by commit(). T is const where elements are only read.
template <typename T>
class SharedTransaction {
 public:
  SharedTransaction(SharedStorage& storage, Intent intent, VectorRange range)
      : storage_((begin(storage, intent), storage)), inner_(storage.vector(), intent, range, {}) {}
  SharedTransaction(const SharedTransaction&) = delete;
  SharedTransaction& operator=(const SharedTransaction&) = delete;

  /// As SequentialTransaction's.
  std::span<T> next() { return inner_.next(); }
  template <typename Use>
  void for_each(Use&& use) {
    inner_.for_each(std::forward<Use>(use));
  }
  /// What this rank changed in the vector is home when it returns. Without it, that is so after the next release.
  void commit() {
    if constexpr (!std::is_const_v<T>) {
      storage_.release();
    }
  }

 private:
  static void begin(SharedStorage& storage, Intent intent) {
    if (intent != Intent::read) {
      storage.require_writable();
    }
    storage.acquire();
  }

  SharedStorage& storage_;
  SequentialTransaction<T> inner_;
};

/// A transaction that all ranks begin together, over a range that all of them are about to read: what comes of it comes
/// down a tree of ranks, so that its home sends it to few of them, and these to others. Begins with a barrier for this
/// vector. While it lives, any access to the range fetches so, and this rank answers others also when it is gone.
template <typename T>
class SharedTogether {
 public:
  SharedTogether(SharedStorage& storage, VectorRange range)
      : started_(storage, range), inner_(storage.vector(), Intent::read, range, {}) {}
  SharedTogether(const SharedTogether&) = delete;
  SharedTogether& operator=(const SharedTogether&) = delete;

  /// As SequentialTransaction's.
  std::span<const T> next() { return inner_.next(); }
  template <typename Use>
  void for_each(Use&& use) {
    inner_.for_each(std::forward<Use>(use));
  }

 private:
  struct Started {
    Started(SharedStorage& of, VectorRange these) : storage(of), range(these) { storage.start_together(range); }
    ~Started() { storage.stop_together(range); }
    Started(const Started&) = delete;
    Started& operator=(const Started&) = delete;
    SharedStorage& storage;
    VectorRange range;
  };

  Started started_;
  SequentialTransaction<const T> inner_;
};

/// Writes every element of a range without reading any: nothing is fetched, nothing is in frames, and pieces are on
/// their way while the next one is filled. Others see it after commit() and their acquire.
template <typename T>
class SharedWriter {
 public:
  SharedWriter(SharedStorage& storage, VectorRange range)
      : sender_((storage.require_writable(), storage)), next_(range.first), end_(range.first + range.count) {
    static_cast<void>(storage.vector().bytes_of(range));
  }

  /// Room for the next elements, empty at the end. All of it is to be written before the next call.
  std::span<T> next() {
    send();
    piece_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece_elements, end_ - next_)));
    return piece_;
  }
  /// Returns when all that was written is home.
  void commit() {
    send();
    piece_.clear();
    sender_.finish();
  }

 private:
  static constexpr std::uint64_t piece_elements = std::max<std::uint64_t>((std::uint64_t{256} << 10U) / sizeof(T), 1);
  void send() {
    sender_.send(next_, std::as_bytes(std::span(piece_)));
    next_ += piece_.size();
    piece_.clear();
  }

  SharedSender sender_;
  std::uint64_t next_;
  const std::uint64_t end_;
  std::vector<T> piece_;
};

/// Appends elements: places are handed out at the home, a piece at a time, so that each rank's elements come in the
/// order in which it appended them, and pieces of several ranks as they come. Others see them after commit() and their
/// acquire.
template <typename T>
class SharedAppender {
 public:
  explicit SharedAppender(SharedStorage& storage) : storage_((storage.require_writable(), storage)), sender_(storage) {}

  /// Throws OptionError (ENOSPC) when the vector is full.
  void push_back(const T& element) {
    piece_.push_back(element);
    if (piece_.size() == piece_elements) {
      send();
    }
  }
  /// Returns when all that was appended is home.
  void commit() {
    send();
    sender_.finish();
  }

 private:
  static constexpr std::size_t piece_elements = std::max<std::size_t>((std::size_t{64} << 10U) / sizeof(T), 1);
  void send() {
    if (!piece_.empty()) {
      sender_.send(storage_.reserve(piece_.size()), std::as_bytes(std::span(std::as_const(piece_))));
      piece_.clear();
    }
  }

  SharedStorage& storage_;
  SharedSender sender_;
  std::vector<T> piece_;
};

/// Movable. Members throw StoreError as Job's do, and OptionError for values that cannot be. What is said to be done by
/// all ranks all ranks do in the same order, and get an error that names the disagreement if they do not.
///
/// Pointers are elements where they point into what has the same address on all ranks (SharedVectorOptions); a vector
/// of pointers itself has to have it, or making it throws OptionError.
///
/// Elements may be read and written by any threads, as in memory. acquire() and release() may be called by any thread:
/// they concern all of this rank's.
template <typename T>
class SharedVector {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>, "elements travel as their bytes");

 public:
  using value_type = T;

  /// By all ranks: makes one of `count` elements, all bytes zero, on the servers of the job. It ends with the job, or
  /// by destroy().
  static SharedVector create(Job& job, const std::string& name, std::uint64_t count,
                             const SharedVectorOptions& options = {}) {
    return SharedVector(job, name, count, options);
  }
  /// By all ranks: a data set that the job's first server has already (tiermap serve), which nobody else may have open.
  /// It stays when the job ends, with what was released.
  static SharedVector open(Job& job, const std::string& name, const SharedVectorOptions& options = {}) {
    return SharedVector(job, name, std::nullopt, options);
  }

  std::uint64_t size() const noexcept { return storage_.vector().size(); }
  T* data() const noexcept { return first_; }
  T* begin() const noexcept { return first_; }
  T* end() const noexcept { return first_ + size(); }
  /// Not checked.
  T& operator[](std::uint64_t index) const noexcept { return first_[index]; }
  std::span<T> span() const noexcept { return {first_, static_cast<std::size_t>(size())}; }
  std::span<T> span(VectorRange range) const {
    static_cast<void>(storage_.vector().bytes_of(range));
    return {first_ + range.first, static_cast<std::size_t>(range.count)};
  }
  VectorRange all() const noexcept { return {0, size()}; }
  /// This rank's part of equal ones.
  VectorRange partition() const { return storage_.own_partition(); }

  /// From here on this rank sees what others have released. Nothing in phases read_only and local.
  void acquire() { storage_.acquire(); }
  /// What this rank wrote is home when it returns. Nothing in phases read_only and local.
  void release() { storage_.release(); }
  /// By all ranks; a barrier for this vector.
  void set_phase(Phase phase) { storage_.set_phase(phase); }
  Phase phase() const noexcept { return storage_.phase(); }
  /// By all ranks; a barrier for this vector, in any phase. Moves each stripe to the server whose ranks, those near it
  /// together, wanted it most since the last time: by the bytes of it that they fetched and brought home, and where its
  /// homes lie over tiers by what transactions scored. What nobody wanted, or nobody wanted more, stays where it is.
  /// Values, phases and pages in memory stay as they are.
  ///
  /// If anything moves all of the vector travels once, through ranks near the servers that it goes to, and for that
  /// time the servers have room for it twice. Other threads that need a page of it meanwhile wait. Throws, on all
  /// ranks, and leaves the vector where it was: OptionError (ENOTSUP) for one that was open()ed, and in a job that goes
  /// on without lost ranks; StoreError (EBUSY) while a rank reads it together, or has not committed what it writes or
  /// appends, (ENOSPC) if a server has no room, (EIO) if some of it cannot be moved. A rank that dies meanwhile fails
  /// the job, as ever.
  void place_by_score() { storage_.place_by_score(); }

  SharedTransaction<const T> read(VectorRange range) { return {storage_, Intent::read, range}; }
  /// By all ranks, of the same range: it is worth it where all of them read the same, and it is not in memory. Throws
  /// OptionError in phase local, StoreError if ranks do not reach each other (JobOptions::host).
  SharedTogether<T> read_together(VectorRange range) { return {storage_, range}; }
  SharedTransaction<T> read_write(VectorRange range) { return {storage_, Intent::read_write, range}; }
  SharedWriter<T> write(VectorRange range) { return {storage_, range}; }
  SharedAppender<T> append() { return SharedAppender<T>(storage_); }
  /// How many places append() has handed out, of all ranks, now.
  std::uint64_t appended() const { return storage_.appended(); }
  /// One transaction on one page: calls `change` with copies of the elements as they are at home and puts them there,
  /// all of them at once and only if nobody changed the page meanwhile, else `change` is called again with what is
  /// there then. `change` touches nothing of this vector. Others see it after their acquire, or by an update() of their
  /// own. Throws OptionError for a range that lies in more than one page, or has more than 3 MiB.
  template <typename Change>
  void update(VectorRange range, Change&& change) {
    storage_.update(range, [&](std::byte* bytes) {
      std::vector<T> elements(static_cast<std::size_t>(range.count));
      std::copy_n(bytes, range.count * sizeof(T), reinterpret_cast<std::byte*>(elements.data()));
      change(std::span<T>(elements));
      std::copy_n(reinterpret_cast<const std::byte*>(elements.data()), range.count * sizeof(T), bytes);
    });
  }

  /// Copies out as many elements as `to` has, as they are at home now, with what this rank wrote; in any phase, without
  /// an acquire, and without frames: what is used once, and as a whole, comes faster so than page by page. Throws
  /// OptionError (ERANGE) unless there are as many from `first` on.
  void copy_to(std::span<T> to, std::uint64_t first = 0) {
    storage_.copy_out({first, to.size()}, std::as_writable_bytes(to));
  }
  /// Copies in as many elements as `from` has: at home when it returns. Throws OptionError in phase read_only, and as
  /// copy_to().
  void copy_from(std::span<const T> from, std::uint64_t first = 0) {
    storage_.copy_in({first, from.size()}, std::as_bytes(from));
  }

  /// By all ranks: what all of them wrote before is in the store that the URL names, made if it is missing, and durable
  /// when it returns. Rank 0 writes it, or the lowest that was not lost (Job::lost_ranks()). Throws on all ranks, among
  /// others where the store's format says that its elements are others, and if who writes is lost (EOWNERDEAD).
  void save(const std::string& url) { storage_.save(url); }
  /// By all ranks: the vector is what the store has, which is as long. Throws on all ranks if it
  /// is not, or if the store's format (npy:, hdf5:, parquet: and others) says that its elements are of another size,
  /// kind of number or byte order; a plain file says nothing of them.
  void load(const std::string& url) { storage_.load(url); }

  /// Releases, and gives up this rank's frames. Nothing of the vector may be touched after that; it may be destroy()ed.
  void close() {
    storage_.close();
    first_ = nullptr;
  }
  /// By all ranks: closes it, and gives up what the servers have of it. Throws OptionError for one that was open()ed.
  void destroy() {
    storage_.destroy();
    first_ = nullptr;
  }

  SharedStatistics statistics() const { return storage_.statistics(); }

 private:
  SharedVector(Job& job, const std::string& name, std::optional<std::uint64_t> count,
               const SharedVectorOptions& options)
      : storage_(job.implementation_, name, layout(name, options), count, options),
        first_(reinterpret_cast<T*>(storage_.vector().data())) {}

  static ElementLayout layout(const std::string& name, const SharedVectorOptions& options) {
    if (std::is_pointer_v<T> && !options.same_address) {
      throw OptionError("shared vector '" + name +
                        "' is to have pointers, which mean nothing in another process: set same_address, also of what "
                        "they point into, or keep indices");
    }
    ElementLayout elements;
    elements.bytes = sizeof(T);
    if constexpr (std::is_arithmetic_v<T>) {
      elements.kind = std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u';
    }
    return elements;
  }

  SharedStorage storage_;
  T* first_;
};

}  // namespace tiermap
