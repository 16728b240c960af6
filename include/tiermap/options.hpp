// What a program may choose: for a cache (how much memory, which engine, which policy) and for a region (page size,
// access, read-ahead). Every member is optional: what is not set here is taken from the environment (TIERMAP_...), then
// from the YAML file that TIERMAP_CONFIG names, then from the default written beside it. docs/reference.md lists them.
#pragma once

#if __cplusplus < 202002L
#error "Tiermap's C++ headers are C++20: compile with -std=c++20 or later"
#endif

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tiermap/access_source.hpp"

namespace tiermap {

/// How an access to an absent page reaches Tiermap.
enum class FaultMode : std::uint8_t {
  automatic,     ///< The best of the others that this machine allows; Cache::fault_mode_reason() says which and why.
  notify,        ///< userfaultfd messages to manager threads; serves every access, those of system calls included.
  self_serving,  ///< The faulting thread serves itself in a SIGBUS handler; fastest; a system call that is handed an
                 ///< absent page fails with EFAULT instead of faulting it in.
  kernel,        ///< No userfaultfd: plain mmap, kept near its budget with madvise. Plain files only.
};

/// How a filled page is put into the application's address range.
enum class Placement : std::uint8_t {
  automatic,  ///< move where the kernel has UFFDIO_MOVE (Linux 6.8), but for pages up to 16 KiB that a fault brings;
              ///< copy elsewhere.
  move,       ///< UFFDIO_MOVE: page-table entries change hands, nothing is copied.
  copy,       ///< UFFDIO_COPY: the kernel allocates a page and copies into it.
};

/// Whether a region may be written.
enum class Access : std::uint8_t { read_only, read_write };

/// Where the writes to a region go.
enum class Sharing : std::uint8_t {
  shared,        ///< To the store.
  private_copy,  ///< Never to the store; dirty pages that must leave memory go to an unlinked scratch file.
};

/// What may be mapped at the address that a region is to have.
enum class Replacement : std::uint8_t {
  none,         ///< Nothing.
  mapping,      ///< Whatever is there goes, in one step, as with MAP_FIXED (not what Tiermap mapped: unmap that first).
  reservation,  ///< The same in a range that the program has reserved (PROT_NONE) and goes on owning: unmapping, or a
                ///< failure to map, leaves it reserved.
};

/// What the program is about to do with a region, or with a range of it.
enum class Advice : std::uint8_t {
  normal,      ///< Detect sequential and strided streams and read ahead of them.
  sequential,  ///< Read ahead at full width at once, and give up pages behind the reader first: read once, in order.
  random,      ///< Never read ahead.
  will_need,   ///< Fetch the range in the background.
  dont_need,   ///< Write back what is dirty and give the range's memory back to the system.
  cold,        ///< Evict the range before others.
  hot,         ///< Evict the range after others.
};

/// Options of a Cache: the DRAM it may use and the machinery that serves its regions.
struct CacheOptions {
  /// DRAM for pages and the bookkeeping of their frames; words of 8 bytes a page, given out by 4 KiB for each 512 pages
  /// of which one is touched, and the kernel's page tables, come on top. TIERMAP_BUFFER_SIZE. Default: 50% of available
  /// memory, less what other caches and tiers of this process may still take of it.
  std::optional<std::uint64_t> budget_bytes = std::nullopt;
  /// TIERMAP_FAULT_MODE. Default: automatic.
  std::optional<FaultMode> fault_mode = std::nullopt;
  /// TIERMAP_PLACEMENT. Default: automatic.
  std::optional<Placement> placement = std::nullopt;
  /// TIERMAP_POLICY: fifo, lru, hot-fifo, segmented-fifo, small-main, cyclic. See docs/policies.md for the default.
  std::optional<std::string> policy = std::nullopt;
  /// hot-fifo: share of the frames for hot pages, 0 to 75. TIERMAP_HOT_SHARE.
  std::optional<std::uint32_t> hot_share_percent = std::nullopt;
  /// Share of the frames kept unmapped but resident, 0 to 75. TIERMAP_UNMAPPED_SHARE.
  std::optional<std::uint32_t> unmapped_share_percent = std::nullopt;
  /// Frames in use that wake the evictors, 1 to 100; a policy that keeps a larger share unmapped wakes them earlier.
  /// TIERMAP_HIGH_WATERMARK. Default: 95.
  std::optional<std::uint32_t> high_watermark_percent = std::nullopt;
  /// Frames in use at which they rest, 0 to high. TIERMAP_LOW_WATERMARK. Default: 90. Where neither is chosen, of the
  /// part of memory that pages up to 16 KiB take at most 4 MiB stay free, or 1 MiB a processor where that is more.
  std::optional<std::uint32_t> low_watermark_percent = std::nullopt;
  /// Threads that read from stores, 1 to 256. TIERMAP_FILLERS. Default: 2.
  std::optional<std::uint32_t> fillers = std::nullopt;
  /// Threads that write back and free, 1 to 256. TIERMAP_EVICTORS. Default: 1.
  std::optional<std::uint32_t> evictors = std::nullopt;
  /// Threads that read fault messages (notify), all but one only when called, 1 to 64. TIERMAP_MANAGERS. Default: 2.
  std::optional<std::uint32_t> managers = std::nullopt;
  /// Fault messages read at once, 1 to 1024. TIERMAP_MAX_FAULT_EVENTS. Default: 64.
  std::optional<std::uint32_t> max_fault_events = std::nullopt;
  /// userfaultfds; regions are dealt out among them, 1 to 64, but fewer where their number times the machine's memory,
  /// or times the budget if that is more, is over 8 TiB. TIERMAP_SHARDS. Default: 1 for every 16 processors.
  std::optional<std::uint32_t> shards = std::nullopt;
  /// How long an idle manager polls before it sleeps, 0 to 1000. TIERMAP_SPIN. Default: 20.
  std::optional<std::uint32_t> spin_microseconds = std::nullopt;
  /// Follow the machine's free memory. TIERMAP_ADAPT. Default: false.
  std::optional<bool> adapt_budget = std::nullopt;
  /// N of the forecast (Peng et al., TPDS, section 3.1.1), 1 to 100. TIERMAP_ADAPT_HISTORY. Default: 5.
  std::optional<std::uint32_t> adapt_history_periods = std::nullopt;
  /// M of the forecast, 1 to 100. TIERMAP_ADAPT_FORECAST. Default: 10.
  std::optional<std::uint32_t> adapt_forecast_periods = std::nullopt;
  /// Time between looks at the machine, 10 to 60000. TIERMAP_ADAPT_PERIOD. Default: 100.
  std::optional<std::uint32_t> adapt_period_milliseconds = std::nullopt;
  /// Let `tiermap top` of the same user see this cache. TIERMAP_PUBLISH. Default: true.
  std::optional<bool> publish_statistics = std::nullopt;
  /// Shown by `tiermap top`. TIERMAP_NAME. Default: the program's name.
  std::optional<std::string> name = std::nullopt;
  /// File in which the accesses that the engine sees are recorded, for `tiermap replay`. TIERMAP_TRACE. Default: none.
  std::optional<std::string> trace_file = std::nullopt;
  /// Tells the evictors of hits; see AccessSource. In code only. Default: none.
  std::shared_ptr<AccessSource> access_source = nullptr;
};

/// Options of a Region: which bytes of the store, how they are paged.
struct RegionOptions {
  Access access = Access::read_only;
  Sharing sharing = Sharing::shared;
  /// First byte of the store; a multiple of 4096.
  std::uint64_t offset = 0;
  /// Bytes to map, any number; 0 means to the store's end. Bytes past the store's end read as zero.
  std::uint64_t length = 0;
  /// Address space kept for resize(); 0 means just the length.
  std::uint64_t reserve_bytes = 0;
  /// Where to map, a multiple of the page size (and of 2 MiB for larger pages); nullptr means anywhere. Never
  /// overwrites a mapping unless `replacement` says so.
  void* address = nullptr;
  /// With an address: what may be mapped there.
  Replacement replacement = Replacement::none;
  /// Nothing reaches the store until sync() or flush(); dirty pages stay in memory, and a fault that finds nothing else
  /// to evict gets SIGBUS.
  bool manual_flush = false;
  /// normal, sequential or random, or will_need for all of it.
  Advice advice = Advice::normal;
  /// UPage: a power of two, 4 KiB to 64 MiB. TIERMAP_PAGE_SIZE. Not set, it follows the access: pages of 64 KiB, of
  /// 4 KiB where those that are missed lie far apart, and of 1 MiB where all of one is read ahead; 4 KiB throughout
  /// with `advice` random.
  std::optional<std::uint64_t> page_size_bytes = std::nullopt;
  /// Most that is read ahead of one stream; 0 turns it off. TIERMAP_READ_AHEAD. Default: 4 MiB.
  std::optional<std::uint64_t> read_ahead_bytes = std::nullopt;
};

}  // namespace tiermap
