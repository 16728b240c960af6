// Two looks at the caches of this user, and what happened between them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "observe/publication.hpp"

namespace tiermap {

/// A tier of a region's store, or, the last one, what is behind them.
struct TopTier {
  TierReport now;
  /// Since the look before, a second; 0 if that was too short a time to tell rates.
  double reads_per_second = 0;
  double writes_per_second = 0;
  double read_bytes_per_second = 0;
  double written_bytes_per_second = 0;
  /// Of all reads of the store since the look before, those that were answered from here, 0 to 1; nothing if none was.
  std::optional<double> share_of_reads;
};

/// One line of the screen: a cache, or one of its regions.
struct TopLine {
  bool is_cache = false;
  pid_t process = 0;
  std::string name;
  std::string policy;                 ///< Of a cache.
  std::string fault_mode;             ///< Of a cache.
  std::uint64_t length_bytes = 0;     ///< Of a region.
  std::uint64_t page_size_bytes = 0;  ///< Of a region.
  Statistics now;
  Statistics change;           ///< Since the look before; counters and histograms only.
  double seconds = 0;          ///< Between the two looks; 0 if too short to tell rates.
  std::vector<TopTier> tiers;  ///< Of a region.

  double per_second(Counter counter) const;
  double faults_per_second() const;
  /// Share, 0 to 1, of the pages asked for that needed no read: rescued or known to be zeros. Nothing if none was.
  std::optional<double> share_without_read() const;
  /// Of the faults between the looks; nothing if there were none.
  std::optional<double> fault_microseconds(double share) const;
};

struct Look {
  std::chrono::steady_clock::time_point time;
  std::vector<ObservedCache> caches;
};
Look take_look();

/// Lines for all that is there `after`, caches in order, each followed by its regions. What was not there `before`
/// began in between, at zero.
std::vector<TopLine> compare_looks(const Look& before, const Look& after);

}  // namespace tiermap
