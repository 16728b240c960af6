// The store under a rank's private frames of a shared vector: pages come from home, and what changed goes there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "cluster/job/home_client.hpp"
#include "cluster/job/twins.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Parts of `now` that differ from `before`, whole units at a time. `unit` divides the lengths.
std::vector<ByteRange> changed_units(std::span<const std::byte> before, std::span<const std::byte> now,
                                     std::uint64_t unit);

/// What the engine writes is compared with the twin, unit by unit: a unit that differs is sent as a whole, and nothing
/// else is. A unit is an element where elements do not lie in two blocks, else a byte.
class CoherentStore final : public Store {
 public:
  CoherentStore(std::shared_ptr<HomeClient> home, std::uint64_t element_bytes, std::uint64_t twin_memory_bytes,
                const std::string& scratch_folder);

  std::uint64_t size_bytes() const override { return home_->bytes(); }
  bool writable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// To the home, if it lies over tiers.
  void score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept override;
  double read_microseconds(std::uint64_t, std::uint64_t bytes) const noexcept override {
    const PlacingGate::Pass pass(home_->gate());
    return home_->scores().read_microseconds(bytes);
  }
  std::string name() const override { return "shared vector " + home_->name(); }

  /// What was written must be home, and no page be in memory. Without twins nothing can be written (-EROFS).
  void keep_twins(bool keep) noexcept;
  /// What is read of the range comes by the tree of ranks, until as many stop_tree().
  void start_tree(ByteRange range);
  void stop_tree(ByteRange range) noexcept;
  bool has_tree() const {
    const std::shared_lock lock(tree_mutex_);
    return !by_tree_.empty();
  }
  /// What is read comes by way of what the ranks of this node keep for each other.
  void fetch_by_node(bool by_node) noexcept { by_node_.store(by_node, std::memory_order_release); }
  Twins& twins() noexcept { return twins_; }
  HomeClient& home() noexcept { return *home_; }
  std::uint64_t unit() const noexcept { return unit_; }

 private:
  bool comes_by_tree(ByteRange range) const;
  int fetch(std::span<std::byte> content, std::uint64_t offset);
  int keep_twin(std::uint64_t block, std::span<const std::byte> bytes);
  /// Tells of it, and returns `error`.
  int scratch_failed(int error);

  const std::shared_ptr<HomeClient> home_;
  const std::uint64_t unit_;
  Twins twins_;
  std::atomic<bool> keeps_twins_{true};
  std::atomic<bool> by_node_{false};
  mutable std::shared_mutex tree_mutex_;
  std::vector<ByteRange> by_tree_;  ///< Guarded by tree_mutex_.
};

}  // namespace tiermap
