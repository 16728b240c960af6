// Which pages of an address range are in memory and mapped, from the process's own page tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tiermap {

/// Pages that follow each other, in bytes from the start of the range that was asked for.
struct PageRun {
  std::uint64_t offset;
  std::uint64_t bytes;
};

/// Owns a descriptor of /proc/self/pagemap. Asks with PAGEMAP_SCAN (Linux 6.7), which passes over holes as large as a
/// page-table page at once, and by reading a word a page where the kernel has none. Thread-safe.
class PresentPages {
 public:
  /// `may_scan` false reads word by word even where the kernel can scan. Throws PlatformError without /proc.
  explicit PresentPages(bool may_scan = true);
  ~PresentPages();
  PresentPages(const PresentPages&) = delete;
  PresentPages& operator=(const PresentPages&) = delete;

  /// Appends the runs of present pages of [memory, memory + bytes), both multiples of 4096, until `most_bytes` of them
  /// are found. Returns how far it looked, `bytes` if to the end. `written_too` takes pages that a private mapping has
  /// made its own as well. A kernel that refuses ends the search with what was found.
  std::uint64_t find(const std::byte* memory, std::uint64_t bytes, std::uint64_t most_bytes, bool written_too,
                     std::vector<PageRun>& runs) const;
  /// Bytes of present pages.
  std::uint64_t count(const std::byte* memory, std::uint64_t bytes, bool written_too = true) const;

 private:
  std::uint64_t scan(const std::byte* memory, std::uint64_t bytes, std::uint64_t most_bytes, bool written_too,
                     std::vector<PageRun>& runs) const;
  std::uint64_t read_words(const std::byte* memory, std::uint64_t bytes, std::uint64_t most_bytes, bool written_too,
                           std::vector<PageRun>& runs) const;

  int file_descriptor_;
  bool can_scan_;
};

/// Bytes of files and shared memory that this process has mapped and present now, as the kernel counts them; 0 without
/// /proc. Costs a few microseconds whatever the size. Thread-safe.
std::uint64_t process_file_bytes() noexcept;

}  // namespace tiermap
