// What the interface has once a process: the cache, made when the first region is mapped, the regions, the settings.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "platform/ending_signals.hpp"
#include "tiermap/cache.hpp"
#include "umap/store/Store.hpp"
#include "umap_interface/descriptor_store.hpp"
#include "umap_interface/mapped_region.hpp"
#include "umap_interface/settings.hpp"

namespace tiermap::umap_interface {

/// The arguments of umap_ex().
struct MapRequest {
  void* address;
  std::size_t length;
  int protection;
  int flags;
  int descriptor;
  off_t offset;
  Umap::Store* store;
};

/// Thread-safe. Locks, in this order: making_ (maps, and changes the cache), regions_mutex_, settings_mutex_; the last
/// two are never held while the engine or a store is called, so that a program's store may ask for settings.
class Process {
 public:
  /// Of this process: a forked child has its own, without cache and regions. Never destroyed.
  static Process& instance();

  /// Throws Error.
  void* map(const MapRequest& request);
  /// Throws Error.
  void unmap(void* address);
  /// All regions, even after one has failed; throws Error for the first that did.
  void sync();
  /// Addresses in no region are left out; returns how many were.
  std::size_t prefetch(std::span<void* const> addresses);
  /// Throws Error.
  void pin(void* address, std::uint64_t bytes);

  /// What is in effect; while nothing is mapped, what would be. Throws OptionError for a variable that cannot be used.
  Settings settings();
  /// Throws OptionError.
  void set(Setting setting, std::uint64_t value);

  /// Around a fork, so that the child finds regions and settings whole.
  void hold();
  void release();
  /// Of a parent that was held: what was set, and where its regions, and those of its parents, began.
  void inherit(const Process& parent);
  /// At the end of the process, perhaps in a handler that interrupted malloc(): writes back what the program left
  /// mapped.
  void end() noexcept;

 private:
  struct Plan;

  void make_cache(const Settings& settings);
  void prepare_end() noexcept;
  void sync_at_exit() noexcept;
  Plan plan(const MapRequest& request, const Settings& settings);
  Region place(const MapRequest& request, const Plan& plan);
  bool overlaps(const void* address, std::uint64_t bytes) const;
  std::shared_ptr<MappedRegion> find(const void* address) const;
  std::vector<std::shared_ptr<MappedRegion>> all() const;
  bool has_regions() const;

  std::mutex making_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<EndingSignals> ending_;  ///< Only for its thread: signals are the program's.
  OpenFiles files_;

  mutable std::shared_mutex regions_mutex_;
  std::map<const void*, std::shared_ptr<MappedRegion>> regions_;  ///< By their first address.
  std::vector<const void*> inherited_;                            ///< Of the parent, at the fork.

  std::mutex settings_mutex_;
  Choices set_in_code_;
  std::optional<Settings> in_effect_;  ///< Of the cache, once there is one.
};

}  // namespace tiermap::umap_interface
