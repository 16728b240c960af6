// Where knowledge of hits comes from. A user-space pager sees faults, not hits; kernels after 6.18 are to report which
// mapped pages were accessed. Whoever can tell, by that or by knowing the program, plugs in here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tiermap {

/// Asked by the evictors about each mapped page they are about to unmap, unless a fault waits for memory. Without one
/// (CacheOptions::access_source empty) the only hits seen are touches of pages that were unmapped and still in their
/// frame.
class AccessSource {
 public:
  virtual ~AccessSource() = default;

  /// Whether [address, address + bytes) was touched since this was last asked about it (or ever, the first time). A
  /// page that was is spared, and counts as young again. Called from several threads at once, some in signal handlers:
  /// it must not allocate, lock, throw or touch a region.
  virtual bool touched(const std::byte* address, std::uint64_t bytes) noexcept = 0;

  /// What statistics and messages call it.
  virtual std::string_view name() const noexcept = 0;
};

}  // namespace tiermap
