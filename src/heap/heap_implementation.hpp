// An open heap: what tiermap::Heap does, without types.
//
//   HeapImplementation   the parts put together; states; checkpoints
//   heap_directory       the files                      heap_layout     their bytes
//   CheckpointedStore    what a crash leads back to     Allocator       which bytes are in use
//   ObjectNames          what is where                  open_heaps      whose allocator
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "heap/allocator.hpp"
#include "heap/checkpointed_store.hpp"
#include "heap/guarded_store.hpp"
#include "heap/heap_directory.hpp"
#include "heap/heap_layout.hpp"
#include "heap/object_names.hpp"
#include "heap/store_bytes.hpp"
#include "tiermap/heap.hpp"

namespace tiermap {

/// Thread-safe, but for close() and destruction. saving_ is held by whatever writes a state, for all of it; nothing
/// else is locked here.
class HeapImplementation {
 public:
  /// A new heap, open for writing. Throws as Heap::create(); nothing stays behind then.
  static std::unique_ptr<HeapImplementation> create(const std::string& path, const HeapOptions& options);
  /// Throws whatever cannot be of it; then nothing is open.
  HeapImplementation(std::string path, const HeapOptions& options, bool writable);
  /// The same, on these files; `path` is what messages call it. For create(), with the cache where the options name
  /// none, and for tests on disks of their own.
  HeapImplementation(std::string path, const HeapOptions& options, bool writable, HeapFiles files,
                     std::unique_ptr<Cache> cache = nullptr);
  ~HeapImplementation();
  HeapImplementation(const HeapImplementation&) = delete;
  HeapImplementation& operator=(const HeapImplementation&) = delete;

  static bool consistent(const std::string& path);

  void close();
  void checkpoint();
  void snapshot(const std::string& path, const std::function<void()>& checkpointed);
  std::uint64_t update_snapshot(const std::string& path, const std::function<void()>& checkpointed);

  void* allocate(std::uint64_t bytes, std::uint64_t alignment);
  void deallocate(void* block);
  /// Throws what deallocate() of it would.
  void require_block(const void* block) const;

  /// Names, with pointers for offsets. Throws if the heap was closed, as do all above.
  ObjectNames& names() const;
  /// For what changes it. Throws if it is open only for reading.
  ObjectNames& writable_names() const;
  HeapStatistics statistics() const;
  const std::string& path() const noexcept { return path_; }
  bool writable() const noexcept { return writable_; }
  std::byte* data() const noexcept { return data_; }

 private:
  void open_store(const HeapOptions& options);
  void map(const HeapOptions& options);
  std::shared_ptr<Store> mapped_store() const;
  void begin_writing_directly();
  void note_journal();
  bool in_child() const noexcept;
  void leave_to_parent() noexcept;
  void require_own_process() const;
  void require_open() const;
  void require_writable() const;
  void require_not_in_callback() const;

  // Under saving_.
  void save(HeapState state);
  void write_back();
  void give_back_space();
  void make_hole(ByteRange range);
  template <typename Call>
  void with_offset(const void* block, Call&& call) const;
  void save_names();
  void save_state(HeapState state);
  void write_state(const HeapStateBlock& state);
  void note_segments();
  void make_durable();
  void take_back_closed();
  /// checkpoint(), and `copy` of the state that this has made, which the base holds meanwhile. `copied` is what it has
  /// to call when others may go on: without checkpoints not before.
  void save_and_copy(const std::function<void(const std::function<void()>& copied)>& copy,
                     const std::function<void()>& checkpointed);
  void call_back(const std::function<void()>& checkpointed);

  const std::string path_;
  const bool writable_;
  HeapSuperblock superblock_;
  HeapStateBlock state_;  ///< As it was written last; guarded by saving_.
  std::uint64_t saved_name_changes_ = 0;
  std::atomic<std::uint64_t> checkpoints_{0};
  std::mutex saving_;
  std::atomic<std::thread::id> calling_back_{};  ///< The thread that a snapshot's `checkpointed` runs in.
  const pid_t process_;

  // Destroyed in the reverse order: what is above serves what is below.
  HeapFiles files_;
  std::shared_ptr<CheckpointedStore> checkpointed_;  ///< Null without checkpoints.
  std::shared_ptr<GuardedStore> guarded_;            ///< Around the data; null with checkpoints and for reading.
  std::shared_ptr<Store> store_;                     ///< One of these, or the data itself.
  std::unique_ptr<HeapLayout> layout_;
  std::unique_ptr<StoreMetadataArea> metadata_;
  std::unique_ptr<Allocator> allocator_;
  std::unique_ptr<ObjectNames> names_;
  std::unique_ptr<Cache> cache_;  ///< Null if the caller's is used.
  Region region_;
  bool kernel_pages_ = false;  ///< The region's are the kernel's.
  std::byte* data_ = nullptr;  ///< Null once it is closed.
};

}  // namespace tiermap
