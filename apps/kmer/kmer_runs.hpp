// Sorting more k-mers than memory holds. Threads gather (key, taxon) in buffers; a full one is sorted, equal ones are
// counted, and it goes to a scratch file as a run. Then the runs are mapped by the memory system that will search the
// database, cut into ranges of keys that are small enough to be merged in memory, and handed over in order.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "kmer/taxonomy.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

struct KeyCount {
  std::uint64_t key = 0;
  TaxonId taxon = no_taxon;
  std::uint32_t count = 0;
};

/// Sorts by key and taxon, and adds up the counts of equal ones. Returns how many are left, at the front.
std::size_t sort_and_count(std::span<KeyCount> records);

class KmerRuns {
 public:
  /// The file must not exist, and is gone when this goes. It has room for `most_records`; each thread's buffer takes
  /// `buffer_bytes`. Throws OptionError if the disk has not the room.
  KmerRuns(const std::string& path, std::uint64_t most_records, std::uint64_t buffer_bytes);

  /// One thread's buffer.
  class Filler {
   public:
    explicit Filler(KmerRuns& runs);
    void add(std::uint64_t key, TaxonId taxon) {
      records_[used_++] = {key, taxon, 1};
      if (used_ == records_.size()) {
        make_room();
      }
    }
    /// Writes what is left.
    void finish();

   private:
    void make_room();

    KmerRuns& runs_;
    AlignedBuffer buffer_;
    std::span<KeyCount> records_;
    std::size_t used_ = 0;
  };

  /// All taxa of one key, ascending; keys come in ascending order, on the calling thread.
  using Sink = std::function<void(std::uint64_t key, std::span<const KeyCount> taxa)>;

  /// Maps the runs. No Filler may work any more.
  void map(MemorySystem& system);
  void merge(ThreadTeam& team, bool prefetch, ProgressDisplay& progress, const Sink& sink);
  /// Records in all runs.
  std::uint64_t records() const noexcept { return records_; }

 private:
  struct Run {
    std::uint64_t first = 0;  ///< Counted in records.
    std::uint64_t count = 0;
    std::vector<std::uint64_t> samples;  ///< Every sample_step-th key.
  };
  static constexpr std::uint64_t sample_step = 1024;

  void write_run(std::span<const KeyCount> records);
  /// Where the ranges of keys begin.
  std::vector<std::uint64_t> range_begins() const;
  /// The first of the run's records whose key is no less.
  std::uint64_t place_of(const Run& run, std::uint64_t key) const;
  void announce(std::uint64_t from, std::uint64_t to) const;
  void gather(std::uint64_t from, std::uint64_t to, std::vector<KeyCount>& records) const;

  std::uint64_t buffer_bytes_;
  Backing file_;
  std::unique_ptr<MappedBytes> mapped_;
  std::mutex mutex_;  ///< Guards what follows while there are Fillers.
  std::vector<Run> runs_;
  std::uint64_t next_record_ = 0;
  std::uint64_t records_ = 0;
};

}  // namespace tiermap
