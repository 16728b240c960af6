// Making the pages of an address range present before anyone touches them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tiermap {

/// Makes the pages of [memory, memory + bytes) present for reading, both multiples of 4096, and returns when they are:
/// by MADV_POPULATE_READ, or before Linux 5.14 by reading a byte of each in a system call, which fails where a load
/// would raise SIGBUS. Returns 0, or -EIO if a page cannot be read, or another negative errno value.
int populate_pages(std::byte* memory, std::uint64_t bytes) noexcept;

/// Gives [memory, memory + bytes), writable anonymous memory that holds nothing yet, pages of any content that lie side
/// by side in physical memory, as far as the kernel has such: as huge pages that are split at once, so that each 4 KiB
/// page can be moved and freed alone. Both are multiples of 2 MiB, and the range is one that otherwise wants no huge
/// pages. Safe in signal handlers. Returns 0, or a negative errno value where the kernel cannot (then nothing was
/// populated).
int populate_in_one_piece(std::byte* memory, std::uint64_t bytes) noexcept;

/// The way for kernels before 5.14.
int populate_pages_one_by_one(std::byte* memory, std::uint64_t bytes) noexcept;

}  // namespace tiermap
