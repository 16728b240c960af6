// A Cache owns DRAM: a fixed arena of frames under an exact budget, the threads that fill and evict them, and the fault
// engine. Regions are mapped through it. A program may have several caches; they share nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tiermap/options.hpp"
#include "tiermap/region.hpp"
#include "tiermap/statistics.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Owns the frames and threads that serve its regions. All members are thread-safe. Frames and threads live until the
/// cache and the last of its regions are gone, in any order. In a forked child neither can be used: an access to a
/// region raises SIGSEGV there, a call throws Error with ECHILD, and destroying them does nothing.
class Cache {
 public:
  /// Throws OptionError for a value out of range, PlatformError if `fault_mode` was asked for and cannot be had. A
  /// TIERMAP_ variable that nothing reads and that is nearly one that something does is named on standard error, once
  /// for a process.
  explicit Cache(const CacheOptions& options = {});
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  /// Maps what a URL names (see open_store()); the store is created if `options` ask for write access, it does not
  /// exist, and `options.length` is set. Throws StoreError, OptionError or PlatformError; then nothing is mapped or
  /// created.
  Region map(std::string_view url, const RegionOptions& options = {});

  /// Maps a store of the caller's. The region keeps it alive.
  Region map(std::shared_ptr<Store> store, const RegionOptions& options = {});

  /// The budget in bytes, now.
  std::uint64_t budget_bytes() const noexcept;

  /// Changes the budget. Shrinking evicts at once and returns when memory is under the new budget. Throws OptionError
  /// if it is under minimum_budget_bytes(), Error with ENOMEM (and keeps the old one) if pinned or unwritable pages
  /// stand in the way.
  void set_budget_bytes(std::uint64_t bytes);

  /// The least budget that can serve the regions mapped now.
  std::uint64_t minimum_budget_bytes() const noexcept;

  /// The engine in use (never automatic), and one line on why it was chosen and what would give more.
  FaultMode fault_mode() const noexcept;
  const std::string& fault_mode_reason() const noexcept;

  /// The sum over all regions, those unmapped since included.
  Statistics statistics() const;

 private:
  friend class Region;
  friend class VectorImplementation;
  std::shared_ptr<class Engine> engine_;
  /// How many transactions share its memory, of all vectors in it. Kept by those for as long as they need it.
  const std::shared_ptr<std::atomic<std::uint32_t>> sharers_ = std::make_shared<std::atomic<std::uint32_t>>(0);
};

}  // namespace tiermap
