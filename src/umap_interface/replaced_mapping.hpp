// What UMAP_FIXED took the place of, and what is put there again at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tiermap::umap_interface {

/// What is mapped in a range, of which the rest is reserved (PROT_NONE) at once: before the engine allocates anything,
/// which could come to lie there, and be overwritten. Once the region there is gone (which leaves the range reserved
/// and inaccessible), give_back() makes of it what it was: addresses that nothing was mapped at become free, anonymous
/// memory is accessible as before, with zeros in it, and anything else stays reserved.
class ReplacedMapping {
 public:
  ReplacedMapping() = default;
  /// Throws PlatformError where the range cannot be mapped at all; then nothing is reserved.
  ReplacedMapping(void* address, std::size_t bytes);

  void give_back() const noexcept;

 private:
  struct Piece {
    std::uintptr_t start;
    std::uintptr_t end;
    int protection;
    bool anonymous;
  };

  void look();
  /// False where the kernel cannot be asked.
  bool query();
  void read();
  bool reserve_rest() const noexcept;

  std::uintptr_t start_ = 0;
  std::uintptr_t end_ = 0;
  std::vector<Piece> pieces_;  ///< In order.
};

}  // namespace tiermap::umap_interface
