// Tiers: faster places in front of a slower store, DRAM beyond the cache's frames, NVMe, SSD, HDD, another node's DRAM.
// docs/tiers.md teaches them by example. The idea is MegaMmap's (Logan and others, sections III.C and III.D): what is
// needed soonest lies in the fastest place, and moves while the program computes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tiermap/store.hpp"

namespace tiermap {

/// What a tier lies in.
enum class TierKind : std::uint8_t {
  memory,     ///< DRAM of this process, beside every cache's budget, for each store anew; as far as there is some left.
  directory,  ///< A file without a name in a directory: nothing of it is left afterwards, whatever happens.
  emulated,   ///< As slow as its bandwidth and latency say: in a directory if it has a path, else in DRAM.
  remote,     ///< A memory server (docs/cluster.md). Has copies alone, of what is in the backing store as well.
};

struct TierOptions {
  std::string name;
  TierKind kind = TierKind::memory;
  std::string path;                  ///< The directory.
  std::string url;                   ///< Of kind remote, the server: remote://HOST:PORT, with any of its options.
  std::uint64_t capacity_bytes = 0;  ///< At least a block.
  double bytes_per_second = 0;       ///< Measured (`tiermap doctor --tiers`), or of an emulated tier imposed.
  double latency_microseconds = 0;   ///< The same.
  double cost_per_gigabyte = 0;      ///< Of 10^9 bytes, in any currency; 0: nobody said. Of tiers that are as fast
                                     ///< as each other by their figures the cheapest is used first.
};

struct TieringOptions {
  /// The fastest one first; those whose bandwidth or latency is known change places where these say otherwise of a
  /// block. None: everything is in the backing store.
  std::vector<TierOptions> tiers;
  /// What moves between tiers at once; a power of two from 4 KiB to 64 MiB. Best the page size of the region above.
  std::uint64_t block_bytes = 256 << 10;
  /// For so long the highest of several sharers' scores of a block holds.
  double score_window_seconds = 1;
  /// A score that was not renewed is worth half after so long.
  double score_half_life_seconds = 30;
  /// How often the organizer looks at the scores; sooner when a tier is full.
  double organize_seconds = 0.1;
  /// What was not written to for so long goes to the backing store in the background.
  double write_down_seconds = 1;
  /// A tier that failed or is full is tried again after so long, twice as long each time, up to 128 times. 0: never.
  double retry_seconds = 30;
  /// The backing store's own: of a store that is to be as slow as this, with `backing_emulated`.
  double backing_bytes_per_second = 0;
  double backing_latency_microseconds = 0;
  bool backing_emulated = false;
  double backing_cost_per_gigabyte = 0;  ///< For reports.
  /// Told in one line of a tier that has less memory than its capacity; of one whose place is full, once; of one that
  /// fails, once until it takes blocks again, and of that; and of tiers that changed places. Default: standard error.
  std::function<void(const std::string&)> warn;
};

/// What a tier holds and did. Counters are since the store was opened.
struct TierReport {
  std::string name;                  ///< With "emulated" where it is; "backing" is the last one.
  std::uint64_t capacity_bytes = 0;  ///< Of one whose place is full, what fitted.
  std::uint64_t used_bytes = 0;
  std::uint64_t dirty_bytes = 0;  ///< Not in the backing store yet.
  std::uint64_t reads = 0;        ///< Of the engine, answered from here.
  std::uint64_t writes = 0;
  std::uint64_t read_bytes = 0;  ///< By these reads and writes.
  std::uint64_t written_bytes = 0;
  std::uint64_t promoted_in = 0;  ///< Blocks that the organizer brought from slower tiers.
  std::uint64_t demoted_in = 0;   ///< From faster ones.
  bool failed = false;            ///< Takes nothing now.
  double cost_per_gigabyte = 0;   ///< As it was said, of 10^9 bytes; 0: it was not.
  /// What is there to be used, and what is in use, in the currency of cost_per_gigabyte.
  double capacity_cost() const noexcept { return static_cast<double>(capacity_bytes) / 1e9 * cost_per_gigabyte; }
  double used_cost() const noexcept { return static_cast<double>(used_bytes) / 1e9 * cost_per_gigabyte; }
};

/// A YAML file of tiers as `tiermap doctor --tiers` writes it. Throws OptionError, one line with path, line and remedy,
/// for an unknown key, a value that cannot be, two tiers in one place or of one name, or more in memory than there is.
TieringOptions read_tiering_options(const std::string& path);

/// `backing` with tiers in front. As thread-safe as any Store. What was written is in the backing store once the region
/// over it is closed (Region::unmap()), and durable there after Region::sync(): tiers lose what they hold with the
/// process, as a page cache does. Throws OptionError for options that cannot be, StoreError for a directory that is
/// missing or takes no file, and a server that is not there or has no room.
std::shared_ptr<Store> make_tiered_store(std::shared_ptr<Store> backing, const TieringOptions& options);

/// Of a store that make_tiered_store() or a `tiered:` URL made: its tiers, and at last the backing store. Throws
/// OptionError for any other. Thread-safe.
std::vector<TierReport> tier_reports(const Store& store);

/// The same for people: a line a tier, what it holds of what it has room for, how much of that is not in the backing
/// store yet, and what both cost, if somebody said; of those one more for all together.
std::string format_tier_reports(const std::vector<TierReport>& reports);

}  // namespace tiermap
