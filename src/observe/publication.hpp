// A cache's numbers where `tiermap top` can find them: a file of the user's own in memory, gone when the cache is.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "observe/counters.hpp"
#include "observe/published_tiers.hpp"

namespace tiermap {

/// One region as others see it.
struct PublishedRegion {
  std::atomic<std::uint32_t> in_use;  ///< 0 free, 1 in use.
  char name[108];                     ///< Of its store; cut off at the front if longer.
  std::atomic<std::uint64_t> length_bytes;
  std::atomic<std::uint64_t> page_size_bytes;
  CounterBlock counters;
  PublishedTiers tiers;  ///< Of its store, if that has any.
};

/// The file's layout, versioned; see publication.cpp for what a reader checks.
struct PublishedCache;

/// Owns the shared file and the numbers in it. If the file cannot be made (or publishing is off) the numbers live in
/// plain memory, and everything else is the same.
class Publication {
 public:
  static constexpr std::uint32_t max_regions = 1024;  ///< Regions past this are counted, but not shown one by one.

  Publication(const std::string& cache_name, const std::string& policy, const std::string& fault_mode, bool publish);
  ~Publication();
  Publication(const Publication&) = delete;
  Publication& operator=(const Publication&) = delete;

  /// The numbers of the cache as a whole; live as long as this object.
  CounterBlock& cache_counters() noexcept;
  /// A slot for a region's numbers, all zero; nullptr when all are taken or memory for it is short (the region then
  /// keeps its own). Thread-safe.
  PublishedRegion* add_region(const std::string& store_name, std::uint64_t length_bytes, std::uint64_t page_size_bytes);
  /// Gives the slot back; nothing for nullptr. Thread-safe.
  void remove_region(PublishedRegion* region) noexcept;

  /// The shared file; empty if the numbers live in plain memory.
  const std::string& path() const noexcept { return path_; }

 private:
  bool make_file();
  bool reserve(std::uint64_t end_bytes) noexcept;

  PublishedCache* memory_ = nullptr;
  std::string path_;
  int file_descriptor_ = -1;  ///< Kept open: its lock says that the file is in use.
  pid_t owner_ = 0;           ///< A forked child must not remove its parent's file.
  std::mutex mutex_;          ///< Guards the taking and giving back of slots.
};

/// What `tiermap top` reads of a region.
struct ObservedRegion {
  std::uint32_t slot = 0;  ///< Tells the regions of a cache apart from one look to the next.
  std::string name;
  std::uint64_t length_bytes = 0;
  std::uint64_t page_size_bytes = 0;
  Statistics statistics;
  std::vector<TierReport>
      tiers;  ///< Of its store: those that it has, and the one behind them. Without costs and moves.
};

/// What `tiermap top` reads of a cache.
struct ObservedCache {
  pid_t process = 0;
  std::uint32_t instance = 0;  ///< Tells the caches of a process apart.
  std::string name;
  std::string policy;
  std::string fault_mode;
  Statistics statistics;
  std::vector<ObservedRegion> regions;
};

/// Each live cache of this user, by process and instance. Files left by processes that died are removed; what is
/// foreign, truncated, of another version or no publication at all is passed over. Never throws for what a file holds.
std::vector<ObservedCache> observe_caches(const std::string& folder = "/dev/shm");

}  // namespace tiermap
