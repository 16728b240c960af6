// Making the pages of an address range present before anyone touches them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tiermap {

/// Makes the pages of [memory, memory + bytes) present for reading, both multiples of 4096, and returns when they are: by
/// MADV_POPULATE_READ, or before Linux 5.14 by reading a byte of each in a system call, which fails where a load would
/// raise SIGBUS. Returns 0, or -EIO if a page cannot be read, or another negative errno value.
int populate_pages(std::byte* memory, std::uint64_t bytes) noexcept;

/// The way for kernels before 5.14.
int populate_pages_one_by_one(std::byte* memory, std::uint64_t bytes) noexcept;

}  // namespace tiermap
