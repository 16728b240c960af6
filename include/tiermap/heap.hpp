// A Heap: memory that lives in a directory and is there again next time, many times larger than DRAM. Objects in it
// have names; containers live in it by way of HeapAllocator. docs/heap.md says what is promised. Not part of
// tiermap/tiermap.hpp: it needs Boost's headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tiermap/cache.hpp"
#include "tiermap/error.hpp"
#include "tiermap/heap_allocator.hpp"
#include "tiermap/heap_check.hpp"
#include "tiermap/heap_objects.hpp"
#include "tiermap/options.hpp"

namespace tiermap {

/// What a heap's data is kept in.
enum class HeapBacking : std::uint8_t {
  file,  ///< One sparse file.
  /// A sparse store's directory: files of 256 MiB, or larger ones, so that there are 2048 at most; each is made when it
  /// is first written to. Where the file system does not let one file be as large as the heap.
  sparse,
};

struct HeapOptions {
  /// Address space for the data, fixed when a heap is made: 128 KiB to 32 TiB, rounded up to 64 KiB. Only what is used
  /// takes room on the disk.
  std::uint64_t capacity_bytes = 256ULL << 30;
  /// DRAM for pages, of a cache of the heap's own. Default: as in CacheOptions.
  std::optional<std::uint64_t> budget_bytes = std::nullopt;
  /// The cache to page through instead; only used while the heap is opened, which keeps of it what it needs.
  Cache* cache = nullptr;
  /// As in RegionOptions. Default: what the heap was made with; for a new one as in RegionOptions.
  std::optional<std::uint64_t> page_size_bytes = std::nullopt;
  /// As in RegionOptions.
  Advice advice = Advice::normal;
  /// Of a new heap.
  HeapBacking backing = HeapBacking::file;
  /// Whether a crash leads back to the last checkpoint(). Without, what leaves memory goes straight to the data: that
  /// is written once and not twice, and a heap that was not closed is refused. May be another each time. Needs a cache
  /// in another fault mode than kernel.
  bool checkpoints = true;
};

/// What can be said of a heap's space.
struct HeapStatistics {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t live_blocks = 0;         ///< Blocks allocated and not freed.
  std::uint64_t live_bytes = 0;          ///< In them, rounded up to what each may use.
  std::uint64_t taken_bytes = 0;         ///< Space set aside for blocks, live or not.
  std::uint64_t free_bytes = 0;          ///< The rest of the capacity, in whole pieces of 64 KiB,
  std::uint64_t largest_free_bytes = 0;  ///< and the longest run of them.
  std::uint64_t used_end_bytes = 0;      ///< Nothing was ever allocated behind this offset.
  std::uint64_t journal_bytes = 0;       ///< What the journal holds: changes since the last checkpoint, and that one's.
  std::uint64_t checkpoints = 0;         ///< Since the heap was made, closings included.

  /// How much of the free bytes is not in the longest run, from 0 to 1.
  double fragmentation() const noexcept {
    return free_bytes == 0 ? 0 : 1 - static_cast<double>(largest_free_bytes) / static_cast<double>(free_bytes);
  }
};

/// An open heap. Movable; the destructor closes it, and what goes wrong there is lost: call close(). Allocating,
/// freeing, and all that deals with objects may be done by any thread at any time, but not while the heap is saved (see
/// checkpoint()). What is stored in it must not hold plain pointers or references: boost::interprocess::offset_ptr is
/// for that.
///
/// One process may have a heap open for writing, alone, or any number for reading. Errors are a StoreError that names
/// the heap and what to do, EBUSY when it is open elsewhere; OptionError for options; PlatformError as Cache().
class Heap {
 public:
  /// Makes a heap; `path` must not exist, or be an empty directory, in one that exists, or hold what a creation left
  /// that was cut short by a crash: that is replaced, if nothing is in it. EEXIST if anything else is there.
  static Heap create(const std::string& path, const HeapOptions& options = {});
  /// Opens one in the state of the last close() or checkpoint().
  static Heap open(const std::string& path, const HeapOptions& options = {});
  /// Nothing is written, not even what a crash left undone. Memory of such a heap must not be written to, and all that
  /// would change it throws OptionError (EROFS).
  static Heap open_read_only(const std::string& path, const HeapOptions& options = {});
  /// create() if nothing is there, or what a creation left that was cut short, else open().
  static Heap open_or_create(const std::string& path, const HeapOptions& options = {});
  /// Removes a heap, or what is left of one that was made only in part. False if there is nothing at `path`, or an
  /// empty directory, which stays. Refused for a heap that is open, and for a directory that holds anything else.
  static bool remove(const std::string& path);
  /// Whether the heap was closed properly, or is a snapshot. If not, one with checkpoints is opened at its last one,
  /// and one without is refused. Throws StoreError if it cannot be told: open for writing, damaged, no heap.
  static bool consistent(const std::string& path);
  /// Verifies all that can be without trusting any of it: superblock, state, names, slab records, the bits of every
  /// span, the journal. Writes nothing, and works on a heap that open() refuses. Throws StoreError for what is no heap,
  /// is open for writing, of another layout, or cannot be opened or read.
  static HeapCheck check(const std::string& path, const HeapProgress& progress = {});

  Heap(Heap&&) noexcept;
  Heap& operator=(Heap&&) noexcept;
  ~Heap();

  /// Saves everything and closes; nothing of the heap may be touched after that. Throws StoreError if it cannot be
  /// saved: then it stays open. Idempotent.
  void close();

  /// Makes the state of now the one that a crash leads back to: once this has returned, whole; if the crash comes
  /// before, this state or the one before, never a mixture. No other thread may change the heap meanwhile. Space that
  /// was freed goes back to the file system with it. Without checkpoints, writes out everything and promises nothing
  /// until close(). Throws StoreError: nothing is lost then, and the next call tries again.
  void checkpoint();

  /// checkpoint(), and a copy of that state as a heap of its own at `path`, which must not exist: by reflink where the
  /// file system can, else of what is not a hole. `checkpointed` is called in between: from then on other threads may
  /// go on changing it; without checkpoints only after this returns. It must not save or close the heap, which is an
  /// OptionError (EDEADLK). Throws StoreError, and what `checkpointed` throws; then nothing stays at `path`.
  void snapshot(const std::string& path, const std::function<void()>& checkpointed = {});

  /// The same, into an earlier snapshot of this heap at `path`: both are read, and only blocks of 4 KiB that differ are
  /// written. Returns their bytes. Throws StoreError and leaves it as it is if it is no snapshot of this heap, was
  /// changed since, or is open; if it cannot be written, nothing stays at `path`. What `checkpointed` throws goes
  /// through: the snapshot is then as it was, or, without checkpoints, up to date. A crash meanwhile leaves something
  /// that is refused as a heap and can be removed: who needs one at any time keeps two and updates them in turn.
  std::uint64_t update_snapshot(const std::string& path, const std::function<void()>& checkpointed = {});

  /// A block of at least `bytes`, its content undefined. `alignment` is a power of two up to 4096. Throws HeapFullError
  /// (a std::bad_alloc) when there is no room, OptionError for another alignment.
  void* allocate(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t));
  /// The same, by the name that Boost.Interprocess and Metall have for it.
  void* allocate_aligned(std::size_t bytes, std::size_t alignment) { return allocate(bytes, alignment); }
  /// Null does nothing. Throws OptionError, and changes nothing, for a block that was freed before, is not of this
  /// heap, or is that of a named or unique object, whose name would stay: destroy() frees it.
  void deallocate(void* block);

  /// Makes an object: `construct<T>(name)(arguments...)`, several side by side: `construct<T>(name)[n](arguments...)`.
  /// Returns T*. One object's arguments are forwarded, those of several are the same for each. A T that takes an
  /// allocator is given this heap's as its last argument. `name` is any text but "", or
  /// unique_object: one object for each type. Throws OptionError (EEXIST) if there is one; HeapFullError.
  template <typename T>
  HeapObjectMaker<T> construct(std::string_view name) {
    return {*this, HeapObjectKey(name), false};
  }
  template <typename T>
  HeapObjectMaker<T> construct(UniqueObject) {
    return {*this, HeapObjectKey(), false};
  }
  /// The same, but returns the object that is there, if one is. Of several threads one makes it and the others wait.
  template <typename T>
  HeapObjectMaker<T> find_or_construct(std::string_view name) {
    return {*this, HeapObjectKey(name), true};
  }
  template <typename T>
  HeapObjectMaker<T> find_or_construct(UniqueObject) {
    return {*this, HeapObjectKey(), true};
  }
  /// An object without a name, to be destroyed by destroy_anonymous(). Null does nothing there; it throws as
  /// deallocate() does, and then destroys nothing. A destructor that throws leaves the block allocated, also in
  /// destroy().
  template <typename T, typename... Arguments>
  T* construct_anonymous(Arguments&&... arguments);
  template <typename T>
  void destroy_anonymous(T* object);
  /// The same of several side by side, each made with the same arguments. How many there are is the caller's to
  /// remember. Throws OptionError for none, or for more than any heap has room for.
  template <typename T, typename... Arguments>
  std::span<T> construct_anonymous_array(std::size_t count, const Arguments&... arguments);
  template <typename T>
  void destroy_anonymous(std::span<T> objects);

  /// The object of that name, null if there is none; the first of several. Throws OptionError if it is of another type:
  /// another size, alignment, or name of the type. If just the name differs and another compiler made it, that is noted
  /// in warnings().
  template <typename T>
  T* find(std::string_view name) const {
    return find_all<T>(name).data();
  }
  template <typename T>
  T* find(UniqueObject) const {
    return objects_of_key<T>(HeapObjectKey()).data();
  }
  /// All of them; empty if there are none.
  template <typename T>
  std::span<T> find_all(std::string_view name) const {
    return objects_of_key<T>(HeapObjectKey(name));
  }

  /// Destroys the object and frees its memory. False if there is none. Throws as find().
  template <typename T>
  bool destroy(std::string_view name) {
    return destroy_key<T>(HeapObjectKey(name));
  }
  template <typename T>
  bool destroy(UniqueObject) {
    return destroy_key<T>(HeapObjectKey());
  }

  /// All named objects in the order of names, then the unique ones.
  std::vector<HeapObject> objects() const;
  /// What objects() tells of one: type, number, place, description. Nothing if there is none.
  std::optional<HeapObject> attributes(std::string_view name) const {
    return attributes_of_key(HeapObjectKey(name), heap_type_of<std::byte>());
  }
  template <typename T>
  std::optional<HeapObject> attributes(UniqueObject) const {
    return attributes_of_key(HeapObjectKey(), heap_type_of<T>());
  }
  /// Of the object with a name, or unique, that `address` leads into. Takes time by the number of objects.
  std::optional<HeapObject> attributes_at(const void* address) const;
  /// Sets the text that goes with an object. OptionError (ENOENT) if there is none.
  void describe(std::string_view name, std::string_view description) {
    describe_key(HeapObjectKey(name), heap_type_of<std::byte>(), description);
  }
  template <typename T>
  void describe(UniqueObject, std::string_view description) {
    describe_key(HeapObjectKey(), heap_type_of<T>(), description);
  }

  /// What was noticed that is no error, a line each: types that another compiler names otherwise.
  std::vector<std::string> warnings() const;
  HeapStatistics statistics() const;
  const std::string& path() const noexcept;
  bool writable() const noexcept;
  /// The first byte of the data area.
  std::byte* data() const noexcept;

 private:
  template <typename T>
  friend class HeapObjectMaker;
  template <typename T, typename Make>
  friend T* make_or_find_in_heap(Heap& heap, const HeapObjectKey& key, bool or_find, std::size_t count, Make&& make);
  explicit Heap(std::unique_ptr<class HeapImplementation> implementation) noexcept;

  void* begin_object(const HeapObjectKey& key, const HeapType& type, std::size_t count, bool or_find, bool& found);
  void end_object(const HeapObjectKey& key, const HeapType& type, bool made) noexcept;
  void require_block(const void* block) const;
  HeapBlockOfObjects find_object(const HeapObjectKey& key, const HeapType& type) const;
  HeapBlockOfObjects take_object(const HeapObjectKey& key, const HeapType& type);
  std::optional<HeapObject> attributes_of_key(const HeapObjectKey& key, const HeapType& type) const;
  void describe_key(const HeapObjectKey& key, const HeapType& type, std::string_view description);

  template <typename T>
  std::span<T> objects_of_key(const HeapObjectKey& key) const {
    const HeapBlockOfObjects found = find_object(key, heap_type_of<T>());
    return {static_cast<T*>(found.first), found.count};
  }
  template <typename T>
  bool destroy_key(const HeapObjectKey& key);

  std::unique_ptr<class HeapImplementation> implementation_;
};

template <typename T, typename... Arguments>
T* Heap::construct_anonymous(Arguments&&... arguments) {
  void* const block = allocate(sizeof(T), alignof(T));
  try {
    return construct_in_heap<T>(*this, block, std::forward<Arguments>(arguments)...);
  } catch (...) {
    deallocate(block);
    throw;
  }
}

template <typename T>
void Heap::destroy_anonymous(T* object) {
  if (object != nullptr) {
    require_block(object);
    std::destroy_at(object);
    deallocate(object);
  }
}

template <typename T, typename... Arguments>
std::span<T> Heap::construct_anonymous_array(std::size_t count, const Arguments&... arguments) {
  if (count == 0 || count > heap_most_bytes / sizeof(T)) {
    throw OptionError("heap " + path() + ": an array of " + std::to_string(count) + " objects of " +
                      std::to_string(sizeof(T)) + " bytes cannot be made: choose a smaller number, 1 at least");
  }
  T* const first = static_cast<T*>(allocate(count * sizeof(T), alignof(T)));
  try {
    construct_several_in_heap<T>(*this, first, count, arguments...);
  } catch (...) {
    deallocate(first);
    throw;
  }
  return {first, count};
}

template <typename T>
void Heap::destroy_anonymous(std::span<T> objects) {
  if (!objects.empty()) {
    require_block(objects.data());
    std::destroy(objects.begin(), objects.end());
    deallocate(objects.data());
  }
}

template <typename T>
bool Heap::destroy_key(const HeapObjectKey& key) {
  const HeapBlockOfObjects taken = take_object(key, heap_type_of<T>());
  if (taken.first != nullptr) {
    std::destroy_n(static_cast<T*>(taken.first), taken.count);
    deallocate(taken.first);
  }
  return taken.first != nullptr;
}

template <typename T, typename Make>
T* make_or_find_in_heap(Heap& heap, const HeapObjectKey& key, bool or_find, std::size_t count, Make&& make) {
  const HeapType type = heap_type_of<T>();
  bool found = false;
  T* const first = static_cast<T*>(heap.begin_object(key, type, count, or_find, found));
  if (found) {
    return first;
  }
  try {
    make(first);
  } catch (...) {
    heap.end_object(key, type, false);
    throw;
  }
  heap.end_object(key, type, true);
  return first;
}

template <typename T>
template <typename... Arguments>
T* HeapArrayMaker<T>::operator()(const Arguments&... arguments) const {
  return make_or_find_in_heap<T>(heap_, key_, or_find_, count_,
                                 [&](T* first) { construct_several_in_heap<T>(heap_, first, count_, arguments...); });
}

template <typename T>
template <typename... Arguments>
T* HeapObjectMaker<T>::operator()(Arguments&&... arguments) const {
  return make_or_find_in_heap<T>(heap_, key_, or_find_, 1, [&](T* place) {
    construct_in_heap<T>(heap_, place, std::forward<Arguments>(arguments)...);
  });
}

}  // namespace tiermap
