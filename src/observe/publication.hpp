// A cache's numbers where `tiermap top` can find them: a file of the user's own in memory, gone when the cache is.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "observe/counters.hpp"

namespace tiermap {

/// One region as others see it.
struct PublishedRegion {
  std::atomic<std::uint32_t> in_use;  ///< 0 free, 1 in use.
  char name[108];                     ///< Of its store; cut off at the front if longer.
  std::atomic<std::uint64_t> length_bytes;
  std::atomic<std::uint64_t> page_size_bytes;
  CounterBlock counters;
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

  CounterBlock& cache_counters() noexcept;
  /// A slot for a region's numbers, all zero; nullptr when all are taken (the region then keeps its own).
  PublishedRegion* add_region(const std::string& store_name, std::uint64_t length_bytes, std::uint64_t page_size_bytes);
  void remove_region(PublishedRegion* region) noexcept;

 private:
  PublishedCache* memory_ = nullptr;
  std::string path_;
};

/// What `tiermap top` reads of each live cache of this user; files left by processes that died are removed.
struct ObservedRegion {
  std::string name;
  std::uint64_t length_bytes;
  std::uint64_t page_size_bytes;
  Statistics statistics;
};
struct ObservedCache {
  pid_t process;
  std::string name;
  std::string policy;
  std::string fault_mode;
  Statistics statistics;
  std::vector<ObservedRegion> regions;
};
std::vector<ObservedCache> observe_caches();

}  // namespace tiermap
