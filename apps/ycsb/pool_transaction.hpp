// What one transaction would change in the pool, as long as it is not committed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace tiermap {

/// Copies of the pool's pages that a transaction edits, and new bytes for places that it does not read. The pool stays
/// as it is: who commits takes changes() to the log, and only then to the pool.
class PoolTransaction {
 public:
  explicit PoolTransaction(std::span<std::byte> pool) noexcept : pool_(pool) {}

  /// An object of the pool as the transaction left it. It lies in one page of 4 KiB, as those of edit().
  template <typename T>
  const T& view(std::uint64_t offset) const {
    const auto edited = pages_.find(offset / page_bytes);
    const std::byte* page =
        edited == pages_.end() ? pool_.data() + offset / page_bytes * page_bytes : edited->second->data();
    return *reinterpret_cast<const T*>(page + offset % page_bytes);
  }
  /// The same, to be changed. Other transactions change nothing in its page meanwhile. Stays valid.
  template <typename T>
  T& edit(std::uint64_t offset) {
    return *reinterpret_cast<T*>(page_for_edit(offset / page_bytes) + offset % page_bytes);
  }
  /// New bytes for a place that view() and edit() are not asked for. Multiples of 8.
  void replace(std::uint64_t offset, std::span<const std::byte> bytes);

  /// All changes: what was replaced, and the words by which edited pages differ from the pool's.
  std::span<const std::byte> changes();

 private:
  static constexpr std::uint64_t page_bytes = 4096;
  struct alignas(64) Page : std::array<std::byte, page_bytes> {};

  std::byte* page_for_edit(std::uint64_t number);

  std::span<std::byte> pool_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::vector<std::byte> changes_;
};

}  // namespace tiermap
