// The mappings of the program that are served by regions, and what becomes of them. mmap() and its family, the calls on
// files, fork() and the end of the process all come here.
//
// Locks: changes of the set are made with `lock` held alone, everything else with it shared. A thread that is inside
// has its flag up, so that whatever it calls goes to the kernel. Threads of the engine never come here.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "platform/ending_signals.hpp"
#include "platform/mapping_table.hpp"
#include "platform/writer_first_mutex.hpp"
#include "preload/changes_under_way.hpp"
#include "preload/fitting_files.hpp"
#include "preload/mapped_file_store.hpp"
#include "preload/outcome.hpp"
#include "preload/own_descriptors.hpp"
#include "preload/record_locked_files.hpp"
#include "preload/served_ranges.hpp"
#include "preload/settings.hpp"
#include "store/overlay_store.hpp"
#include "tiermap/cache.hpp"

namespace tiermap::preload {

/// The arguments of mmap().
struct MapRequest {
  void* address = nullptr;
  std::size_t length = 0;
  int protection = 0;
  int flags = 0;
  int descriptor = -1;
  off_t offset = 0;

  /// What the program stores there others see.
  bool stores() const noexcept;
  /// Only read, and may be made writable.
  bool may_store_later() const noexcept;
};

/// In nanoseconds. Of the two time stamps the one that nobody can set.
inline std::int64_t changed_at(const struct stat& status) noexcept {
  return status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec;
}

/// A time of change that is not the next change's too: file systems count it in ticks, of up to two seconds. Else 0.
std::int64_t settled(std::int64_t changed) noexcept;

struct Mapping {
  MapRequest request;
  std::byte* start = nullptr;
  std::size_t bytes = 0;  ///< Whole pages of the kernel's.
  FileIdentity file;
  std::string path;
  std::shared_ptr<MappedFileStore> store;
  std::shared_ptr<OverlayStore> overlay;  ///< Of a private mapping that can be written.
  Region region;
  std::size_t slot = ServedRanges::none;
  bool in_children = true;   ///< madvise(MADV_DONTFORK) not given.
  bool others_told = false;  ///< That what this process changes in the file by calls it changes.
  /// When the file was last changed, as far as the region knows: in nanoseconds. 0 if that cannot be known.
  std::atomic<std::int64_t> changed{0};

  std::byte* end() const noexcept { return start + bytes; }
  bool shared_and_writable() const noexcept;
  bool is_private() const noexcept;
  /// For a mapping of the kernel's in its place. Of a flag more the kernel would make no one mapping of it and others.
  int kernel_flags() const noexcept;
  /// All that it has open; some may be negative.
  std::array<int, 5> descriptors() const noexcept;
};

/// What becomes of a call that changes a file where dirty pages of the same bytes cannot be written: it fails, or it
/// cuts them off anyway.
enum class IfUnwritten { fail, go_on };

/// Sets the calling thread's flag for a while. Not nested: entered() says whether it was set already.
class Inside {
 public:
  Inside() noexcept { ++depth(); }
  ~Inside() { --depth(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static bool entered() noexcept { return depth() != 0; }

 private:
  static int& depth() noexcept;
};

class Mappings {
 public:
  explicit Mappings(Settings settings);

  /// Looks without a lock.
  const ServedRanges& served() const noexcept { return served_; }
  const Settings& settings() const noexcept { return settings_; }
  Outcome& outcome() noexcept { return outcome_; }
  /// Whether this process, and no child that shares its memory for a moment (vfork), is asking.
  bool owned_by_caller() const noexcept;

  // --- Addresses. Each is told only of ranges that overlap what is served, but for map().

  /// As mmap(): the region's address, or what the kernel answers.
  void* map(const MapRequest& request);
  int unmap(std::byte* address, std::size_t length);
  int protect(std::byte* address, std::size_t length, int protection);
  /// Before the kernel makes what it maps writable; to be called only if there is something of which that can be.
  bool has_kernels_to_protect() const noexcept { return kernels_to_protect_; }
  void before_protect_of_kernels(const std::byte* address, std::size_t length) noexcept;
  int advise(std::byte* address, std::size_t length, int advice);
  int synchronise(std::byte* address, std::size_t length, int flags);
  void* remap(std::byte* address, std::size_t old_length, std::size_t new_length, int flags, void* target);
  /// Gives what is served in the range to the kernel.
  bool give_back(std::byte* address, std::size_t length, const char* reason);
  void give_back_all(const char* reason);
  /// As mlockall() and munlockall().
  int lock_all(int flags) noexcept;
  int unlock_all() noexcept;
  /// Gives everything back, and ends the engine and its threads until something is to be served again.
  void end_engine(const char* reason) noexcept;
  /// From here on everything is the kernel's.
  void serve_nothing_more(const char* reason) { refuse_all_ = reason; }

  // --- Files. Each is told only of files that are served, but for note_stream() and note_lock().

  /// Before the file's bytes are read by a call: writes back what is dirty of them. 0, or the errno value of why the
  /// file has not got it all.
  int before_read(FileIdentity file, std::uint64_t offset, std::uint64_t bytes);
  /// Around a call that changes them. `bytes` may go past every end. 0, or the errno value of why what is dirty there
  /// cannot be written: then `change` has not run, unless it is to run anyway.
  int around_change(FileIdentity file, std::uint64_t offset, std::uint64_t bytes, IfUnwritten if_unwritten,
                    const std::function<void()>& change);
  /// A stream of stdio is opened (1) on the file, or closed (-1): what it reads and writes cannot be seen.
  void note_stream(FileIdentity file, bool writes, int change);
  /// The program got, or is about to give up, a lock on the file: others may have changed it, or want to see it.
  void locked(FileIdentity file);
  void unlocking(FileIdentity file);
  /// The program locks a part of the file for writing.
  void note_lock_of_part(FileIdentity file);
  /// What is served of the file is the kernel's from now on.
  void give_back_file(FileIdentity file, const char* reason);
  /// The program uses locks, which end when descriptors are closed.
  void note_lock() noexcept { locks_.store(true, std::memory_order_relaxed); }
  RecordLockedFiles& record_locked() noexcept { return record_locked_; }
  bool has_locks() const noexcept { return locks_.load(std::memory_order_relaxed); }
  bool has_retired() const noexcept { return retired_count_.load(std::memory_order_acquire) != 0; }
  /// The program has closed a descriptor of the file, and lost its locks: what was kept open for them goes.
  void release_retired(FileIdentity file);
  OwnDescriptors& own_descriptors() noexcept { return own_descriptors_; }
  /// For calls that write where a descriptor of the file stands, or at the file's end: one at a time.
  std::mutex& position_lock(FileIdentity file) noexcept { return position_locks_[file.inode % position_locks_.size()]; }
  /// Of files of which nothing is served.
  ChangesUnderWay& changes_under_way() noexcept { return changes_under_way_; }

  // --- Processes.

  /// 0, or the errno value of what could not be written.
  int write_back_all() noexcept;
  /// A child is to be started that shares no more with the program than files; one has ended, or stopped.
  void before_child() noexcept;
  void after_child() noexcept;
  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child() noexcept;
  /// Before that ends: writes back, and reports.
  void at_end(Ending ending) noexcept;
  /// The same for the process's end, also in a handler that interrupted malloc().
  void at_process_end() noexcept;
  /// Also to be called before a signal ends the program; at other ends whoever gave it sees to that.
  void end_with(void (*call)()) noexcept { end_with_.store(call); }
  /// It did not end: the exec() failed.
  void go_on() noexcept { ended_ = false; }

 private:
  using Each = std::function<void(Mapping&)>;
  struct FileHistory {
    void note_kernel_mapping(bool may_write) noexcept {
      kernel_maps = true;
      kernel_writes = kernel_writes || may_write;
    }
    bool kernel_maps = false;    ///< The kernel has a mapping of it, or had when we looked last.
    bool kernel_writes = false;  ///< One of those is shared, and can be written or made so.
    bool to_protect = false;     ///< One that is only read can be made so, and who serves the file is not told yet.
    bool parts_locked = false;   ///< By this process, for writing.
    bool logged = false;         ///< A database, or its index, that others may change.
    int streams = 0;             ///< Of stdio, open now.
    int writing_streams = 0;     ///< Those of them that may write.
  };

  FittingFiles& fitting();
  MappingTable* table() noexcept;
  void* map_entered(const MapRequest& request, const MappingTable::Entered& entered);
  MappingTable::Entered enter(const MapRequest& request, bool writes);
  void enter_to_write(const std::byte* address, std::size_t length);
  void add_kernels_to_protect(const std::byte* address, std::size_t length, std::set<FileIdentity>& files) const;
  const char* why_not_beside_others(const MapRequest& request, const MappingTable::Entered& entered) const;
  bool give_back_to_others(FileIdentity file);
  void share_memory();
  MappingTable::Share share_out(std::size_t processes);
  MappingTable::Share take_share(std::size_t processes);
  void tell_others_of_end(FileIdentity file) noexcept;
  void join_others_in_child() noexcept;
  void tell_others_of_change(FileIdentity file) noexcept;
  void note_kernel_mapping(FileIdentity file, bool may_write);
  void forget_unmapped_files();
  void note_earlier_mappings();
  /// The program maps a file that may be the index of a database's write-ahead log.
  void leave_logged_database(int descriptor, FileIdentity index) noexcept;
  void pass_over_small(const MapRequest& request, FileIdentity file) noexcept;
  void* map_by_kernel(const MapRequest& request, const struct stat* status);
  std::optional<void*> try_serve(const MapRequest& request, const struct stat& status, const std::string& path);
  const char* why_not(const MapRequest& request) const;
  const char* why_not_shared(const MapRequest& request, FileIdentity file);
  void prepare_end(bool stores) noexcept;
  bool start_cache();
  bool end_cache(const char* reason) noexcept;
  void give_up_cache(const char* problem);
  void serve_again_after_locks() noexcept;
  std::unique_ptr<Mapping> make_mapping(const MapRequest& request, const struct stat& status, const std::string& path,
                                        const RegionOptions& options);
  bool convert(Mapping& mapping, const char* reason) noexcept;
  bool convert_range(std::byte* address, std::size_t length, const char* reason);
  bool replace_private(const Mapping& mapping) noexcept;
  int write_back(Mapping& mapping, ByteRange range) const noexcept;
  int make_way(std::byte* address, std::size_t length);
  int clear_range(std::byte* address, std::size_t length);
  int clear(Mapping& mapping) noexcept;
  void end_mapping(Mapping& mapping);
  bool retire_if_locked(FileIdentity file, const std::shared_ptr<MappedFileStore>& store);
  void forget(Mapping& mapping, bool by_kernel);
  void* move_larger(Mapping& mapping, std::size_t new_length);
  static void read_anew(Mapping& mapping) noexcept;
  void for_each(const std::byte* address, std::size_t length, const Each& each);
  void for_each_gap(std::byte* address, std::size_t length, const std::function<void(std::byte*, std::size_t)>& each);
  void convert_file(FileIdentity file, const char* reason, bool writable_only);
  int advise_one(Mapping& mapping, ByteRange range, int advice);
  void change_next(const std::vector<std::pair<Mapping*, ByteRange>>& pieces, std::size_t index,
                   const std::function<void()>& change);
  void change_noting_times(FileIdentity file, const std::function<void()>& change);
  static ByteRange range_in(const Mapping& mapping, const std::byte* address, std::size_t length) noexcept;

  const Settings settings_;
  Outcome outcome_;
  ServedRanges served_;
  WriterFirstMutex lock_;  ///< Or a program whose threads write files all the time would never map another.
  std::vector<std::unique_ptr<Mapping>> mappings_;  ///< By start.
  std::map<FileIdentity, FileHistory> histories_;
  std::atomic<bool> kernels_to_protect_{false};  ///< Some of them may be made writable that others take for read.
  bool earlier_noted_ = false;                   ///< What was mapped before this library was ready.
  std::size_t most_histories_ = 1024;            ///< From so many on, those are forgotten that are of no use any more.
  std::vector<std::pair<FileIdentity, std::shared_ptr<MappedFileStore>>> retired_;
  std::atomic<std::size_t> retired_count_{0};
  std::atomic<bool> locks_{false};
  RecordLockedFiles record_locked_;
  OwnDescriptors own_descriptors_;
  std::array<std::mutex, 64> position_locks_;
  ChangesUnderWay changes_under_way_;
  std::optional<FittingFiles> fitting_;  ///< Made when first asked.
  std::atomic<const char*> refuse_all_{nullptr};
  std::unique_ptr<MappingTable> table_;              ///< Once a file is mapped that others may map too.
  std::atomic<MappingTable*> known_table_{nullptr};  ///< The same, for whoever has not the lock.
  std::string table_problem_;                        ///< Why there is none.
  std::uint64_t whole_budget_bytes_ = 0;             ///< Of the cache, if this were the only process.
  Cache* cache_ = nullptr;                           ///< Made for the first mapping, and destroyed only by end_cache().
  std::optional<Statistics> ended_statistics_;       ///< Of the one that was destroyed last.
  std::unique_ptr<EndingSignals> ending_signals_;    ///< Once something is to be done at the end.
  std::atomic<void (*)()> end_with_{nullptr};
  bool cache_refused_ = false;
  std::string cache_problem_;
  std::uint64_t page_bytes_ = 0;    ///< Of the mapping made last; 0 where it follows the access.
  std::atomic<bool> ended_{false};  ///< The report was made.
  pid_t owner_;
};

}  // namespace tiermap::preload
