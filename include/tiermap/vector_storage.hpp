// What is common to all vectors, whatever their elements: bytes of a store that may grow, under a budget. Programs use
// Vector<T> (tiermap/vector.hpp); transactions are built on this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tiermap/cache.hpp"
#include "tiermap/options.hpp"
#include "tiermap/region.hpp"
#include "tiermap/store.hpp"
#include "tiermap/tiers.hpp"

namespace tiermap {

class OpenTransactions;
class VectorImplementation;

struct VectorOptions {
  /// DRAM for the vector's pages, of a cache of its own. Default: as in CacheOptions, for each vector anew.
  std::optional<std::uint64_t> budget_bytes = std::nullopt;
  /// The cache to page through instead; only used while the vector is opened, which keeps of it what it needs.
  Cache* cache = nullptr;
  /// As in RegionOptions; fixed while the vector is open.
  std::optional<std::uint64_t> page_size_bytes = std::nullopt;
  /// As in RegionOptions.
  Advice advice = Advice::normal;
  /// As in RegionOptions.
  std::optional<std::uint64_t> read_ahead_bytes = std::nullopt;
  /// Address space to grow into, in bytes. Takes no memory. Of stores that cannot grow, their size.
  std::uint64_t capacity_bytes = 256ULL << 30;
  /// As in RegionOptions, of the capacity.
  void* address = nullptr;
  Replacement replacement = Replacement::none;
};

/// Elements of a vector, one after the other.
struct VectorRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// Part `rank` of `parts` of so many elements: every element is in one part, and no part has more than one element more
/// than another. Throws OptionError if `rank` is no part.
VectorRange partition(std::uint64_t elements, std::uint64_t rank, std::uint64_t parts);

/// What all vectors are, whatever their elements: bytes of a store that may grow. Vector<T> is what programs use.
class VectorStorage {
 public:
  enum class How : std::uint8_t { create, open, open_read_only, open_or_create, temporary };
  /// Throws as Vector's functions of these names.
  VectorStorage(How how, const std::string& url, const ElementLayout& elements, std::uint64_t count,
                const VectorOptions& options);
  /// Throws as Vector::on().
  VectorStorage(std::shared_ptr<Store> store, const ElementLayout& elements, const VectorOptions& options);
  VectorStorage(VectorStorage&&) noexcept;
  VectorStorage& operator=(VectorStorage&&) noexcept;
  ~VectorStorage();

  /// Of one that was moved to another these five are 0, false and an empty text, and all others, but for close(), throw
  /// OptionError (EBADF). Of a closed one they are what they were, but for the address; what needs its elements throws.
  std::byte* data() const noexcept;
  std::uint64_t size() const noexcept;
  std::uint64_t capacity() const noexcept;
  bool writable() const noexcept;
  const std::string& url() const noexcept;
  /// Throws OptionError (EBADF) unless it is open.
  void require_open() const;
  /// Throws OptionError (EROFS) of one that is open for reading alone.
  void require_writable() const;
  /// Of a closed one, a region that is not mapped.
  Region& region();
  /// Makes room for `count` more and returns the index of the first. Thread-safe.
  std::uint64_t extend(std::uint64_t count);
  void resize(std::uint64_t count);
  void bound_memory(std::uint64_t bytes);
  void sync();
  void close();
  /// Throws what destroy() throws where there is no one file to remove.
  void require_removable() const;
  void destroy();
  ByteRange bytes_of(VectorRange range) const;
  /// Nobody needs these elements soon: their pages, but for one that they do not fill, go to the store in the
  /// background and leave memory first.
  void leave(VectorRange range);
  /// As Store::score() and Store::read_microseconds(), of the store that it lies in; nothing and 0 unless it is open.
  void score(ByteRange range, double score, std::uint64_t sharer) noexcept;
  double read_microseconds(ByteRange range) const noexcept;
  std::vector<TierReport> tier_reports() const;
  /// How many transactions share its cache's memory now, those of other vectors in it too, and not those that say how
  /// large a window they want.
  std::uint32_t open_transactions() const;
  /// Of those that are open resize() cuts off nothing that they have still to access.
  std::shared_ptr<OpenTransactions> transactions() const;
  std::uint64_t element_bytes() const;
  /// Throws OptionError (ERANGE).
  void require_index(std::uint64_t index) const;
  /// Throws OptionError unless an array of these extents has as many elements.
  void require_extents(std::span<const std::uint64_t> extents) const;

 private:
  VectorImplementation& implementation() const;

  std::unique_ptr<VectorImplementation> implementation_;
};

}  // namespace tiermap
