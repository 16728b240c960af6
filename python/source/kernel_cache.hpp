// What several processes write goes through the page cache of the kernel, byte by byte. The other engines write back
// whole blocks of 4 KiB, and would put back what a neighbour had changed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tiermap/cache.hpp"

namespace tiermap::python {

/// A cache in fault mode kernel beside another, of the same budget, made when it is first needed. Thread-safe.
class KernelCache {
 public:
  KernelCache(std::uint64_t budget_bytes, std::optional<std::string> name);

  /// False where environment or file ask for a trace, of which fault mode kernel has none. Throws OptionError.
  static bool can_be_made();
  /// Throws as Cache does.
  Cache& cache();
  void set_budget_bytes(std::uint64_t bytes);

 private:
  std::mutex mutex_;
  std::uint64_t budget_bytes_;
  const std::optional<std::string> name_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace tiermap::python
