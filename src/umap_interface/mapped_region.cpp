#include "umap_interface/mapped_region.hpp"

#include <mutex>
#include <utility>

namespace tiermap::umap_interface {

MappedRegion::MappedRegion(Region region, ReplacedMapping replaced)
    : data_(region.data()), size_(region.size()), region_(std::move(region)), replaced_(std::move(replaced)) {}

bool MappedRegion::contains(const void* address) const noexcept {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte >= data_ && byte < data_ + size_;
}

std::uint64_t MappedRegion::offset_of(const void* address) const noexcept {
  return static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - data_);
}

void MappedRegion::prefetch(std::span<const ByteRange> ranges) {
  const std::shared_lock held(in_use_);
  if (region_) {
    region_.prefetch(ranges);
  }
}

void MappedRegion::pin(ByteRange range) {
  const std::shared_lock held(in_use_);
  if (region_) {
    region_.pin(range);
  }
}

void MappedRegion::sync() {
  const std::shared_lock held(in_use_);
  if (region_) {
    region_.sync();
  }
}

void MappedRegion::sync_if_idle() {
  const std::shared_lock held(in_use_, std::try_to_lock);
  if (held.owns_lock() && region_) {
    region_.sync();
  }
}

void MappedRegion::unmap() {
  const std::unique_lock held(in_use_);
  region_.unmap();
  replaced_.give_back();
}

}  // namespace tiermap::umap_interface
