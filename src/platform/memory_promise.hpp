// How much memory the caches and tiers of this process may still take. What is given by default is a part of the rest:
// each for itself would be given what others are about to take, and the kernel ends a program that takes it all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tiermap {

class MemoryAccount;

/// So much memory may be taken in all, as long as this lives; of a forked child's memory it says nothing, as there is
/// nobody there who would take it. Of its members only those of different promises may be called at once.
class MemoryPromise {
 public:
  /// Of nothing.
  MemoryPromise() noexcept;
  explicit MemoryPromise(std::uint64_t bytes);
  /// Of as much as `choose(left_bytes)` returns; meanwhile nobody else is promised anything, and `choose` may not ask.
  /// `spared_bytes` of the memory, or an eighth of what is available if that is less, count as used.
  explicit MemoryPromise(const std::function<std::uint64_t(std::uint64_t)>& choose, std::uint64_t spared_bytes = 0);
  ~MemoryPromise();
  MemoryPromise(MemoryPromise&& other) noexcept;
  MemoryPromise& operator=(MemoryPromise&& other) noexcept;

  std::uint64_t bytes() const noexcept;
  void change(std::uint64_t bytes) noexcept;
  /// How much of it is taken by now; without this, nothing is. Called by any thread, until *this is gone.
  void count_taken(std::function<std::uint64_t()> taken);

  /// So much is always left, or an eighth of what may be taken if that is less: programs have many caches of which few
  /// are ever full.
  static constexpr std::uint64_t least_left_bytes = std::uint64_t{32} << 20;
  /// What may be taken besides: of the memory, less what is promised and not taken yet, and of a limit of addresses
  /// addresses_for_budgets(), less all that is promised. 0: not known.
  static std::uint64_t left_bytes();

 private:
  friend class MemoryAccount;
  struct Entry;
  std::unique_ptr<Entry> entry_;  ///< Null: of nothing.
};

}  // namespace tiermap
