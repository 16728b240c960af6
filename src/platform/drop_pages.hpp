// Giving the memory of many address ranges back to the kernel at once.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace tiermap {

/// MADV_DONTNEED on each range (multiples of 4096, of private memory). Every such call interrupts the other processors
/// that run the program, to empty their translation caches; Linux since 6.14 takes all ranges in one call, and since
/// 6.16 with one interrupt. Before, they go one by one. At most 1024 ranges. Safe in signal handlers.
void drop_pages(std::span<const iovec> ranges) noexcept;

/// One range. As the other, also where the program has locked its memory: before Linux 5.18 that unlocks it.
void drop_pages(void* start, std::size_t bytes) noexcept;

/// munlock() that sanitizers, which leave all locking out, let pass. Safe in signal handlers.
void unlock_pages(void* start, std::size_t bytes) noexcept;

}  // namespace tiermap
