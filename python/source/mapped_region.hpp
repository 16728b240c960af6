// MappedRegion: the memory under an array, by whomever it is served. Where several processes map a plain file, and one
// of them writes to it, their memory is the kernel's page cache; where this is the only one it is the engine's, unless
// it has mapped bytes of the file twice. So a region may become the kernel's at any time, at the same addresses, and
// without the program's notice.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <utility>

#include "bindings.hpp"
#include "errand.hpp"
#include "platform/file_identity.hpp"
#include "platform/writer_first_mutex.hpp"
#include "tiermap/options.hpp"
#include "tiermap/region.hpp"

namespace tiermap::python {

/// How many regions there are, those included that nobody has any more and that are still being written.
struct RegionCount {
  std::atomic<std::int64_t> value{0};
};

/// How a region is to be mapped.
struct RegionWish {
  RegionOptions options;
  std::optional<FileIdentity> file;  ///< If the store is one plain file, which others may map too.
  bool among_processes = false;      ///< By the kernel, whatever others do.
};

/// Members may be called from any thread, without the GIL, but for construction in a child and destruction.
class MappedRegion {
 public:
  /// Waits for others who have the file. Throws as Cache::map() does.
  MappedRegion(CacheHandle& cache, std::shared_ptr<Store> store, const RegionWish& wish);
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;
  /// Needs the GIL, and releases it while it writes back.
  ~MappedRegion();

  /// In a forked child: the same bytes at the same address, which is held, served by a cache of the child's own.
  void map_again(CacheHandle& cache, std::shared_ptr<Store> store, bool among_processes);

  bool is_mapped() const noexcept { return address_ != nullptr; }
  std::byte* address() const noexcept { return address_; }
  std::uint64_t size() const noexcept { return size_; }
  const RegionOptions& options() const noexcept { return wish_.options; }
  bool in_python() const noexcept { return in_python_; }
  /// Whether its memory is the kernel's page cache.
  bool through_kernel() const noexcept { return through_kernel_; }
  /// All that is served of the file becomes the kernel's. Returns whether this has. Waits for what uses it.
  bool give_file_to_kernel();
  Errands& errands() noexcept { return errands_; }
  void count_in(std::shared_ptr<RegionCount> count);

  /// Calls `use` with the region, which stays what it is meanwhile. The GIL is not to be taken in it.
  template <typename Use>
  auto use(const Use& use) {
    const std::shared_lock held(uses_->lock);
    return use(region_);
  }
  void pin(ByteRange range);
  /// Also of what was pinned before the kernel had it, which nothing keeps in memory any more.
  void unpin(ByteRange range);

 private:
  friend struct LiveRegions;
  using Range = std::pair<std::uint64_t, std::uint64_t>;
  struct Uses {
    WriterFirstMutex lock;  ///< Alone for whoever puts another region in the place of this.
    std::mutex pins_mutex;
    std::multiset<Range> pinned;
    std::multiset<Range> pinned_before;  ///< By the region that the kernel's has replaced.
  };

  void map(CacheHandle& cache, RegionOptions options, bool among_processes);
  bool kernel_is_to_map(bool by_others) const;
  bool overlaps(const MappedRegion& other) const noexcept;
  bool others_differ(bool from_others) const;
  bool is_of(FileIdentity file) const noexcept;
  bool is_served() const noexcept { return !through_kernel_ && wish_.options.sharing == Sharing::shared; }
  bool give_to_kernel();
  void hand_over_to_kernel();
  void belongs_here();
  bool forget();
  void unmap() noexcept;

  Region region_;
  RegionWish wish_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<KernelCache> kernel_;
  const bool in_python_;  ///< The store is: its calls may take as long as they like.
  const bool writes_;     ///< What is stored in it is to reach the store, without Python's help.
  bool may_be_handed_over_ = false;
  std::atomic<bool> through_kernel_{false};
  std::byte* address_ = nullptr;
  std::uint64_t size_ = 0;
  pid_t owner_ = ::getpid();
  std::shared_ptr<RegionCount> count_;  ///< Null if it is in none.
  Errands errands_;
  std::unique_ptr<Uses> uses_ = std::make_unique<Uses>();
};

/// Another process maps the file: what is served of it here becomes the kernel's. As MappingTable::GiveBack.
bool give_back_to_others(FileIdentity file);

/// Behind all that Python does at its end: functions given to `atexit` before this package was imported run after its
/// own, and may write to an array that a daemon thread has, which is never given up.
void write_what_lives();

/// The same, and waits for what is being unmapped. Also called by the library that `tiermap run` preloads, in a thread
/// of that.
void write_all_back();

/// With the preloaded library's, if there is one: a signal is taken over by that or by this one.
void find_preloaded_library();

}  // namespace tiermap::python
