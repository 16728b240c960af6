// One region of umap(): a region of the engine's, and what stood in its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <span>

#include "tiermap/region.hpp"
#include "umap_interface/replaced_mapping.hpp"

namespace tiermap::umap_interface {

/// Members but unmap() and the destructor may be called from several threads at once; after unmap() they do nothing.
class MappedRegion {
 public:
  MappedRegion(Region region, ReplacedMapping replaced);

  std::byte* data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }
  bool contains(const void* address) const noexcept;
  std::uint64_t offset_of(const void* address) const noexcept;

  void prefetch(std::span<const ByteRange> ranges);
  /// Throws Error.
  void pin(ByteRange range);
  /// Throws Error.
  void sync();
  /// The same, unless the region is being unmapped: for the end of the process.
  void sync_if_idle();
  /// Waits for those above. Throws Error; then the region stays mapped.
  void unmap();

 private:
  std::byte* const data_;
  const std::uint64_t size_;
  Region region_;
  const ReplacedMapping replaced_;
  std::shared_mutex in_use_;  ///< Held shared by calls, exclusively by unmap().
};

}  // namespace tiermap::umap_interface
