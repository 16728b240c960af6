// The kernel's page cache of a file: writing it back, dropping it, and asking what it holds.
#pragma once

#include <cstdint>

namespace tiermap {

/// Starts to write what is dirty of a piece of a file, and with `wait` waits until it is written (not durable: metadata
/// and the disk's cache are fdatasync's). Returns 0 or a negative errno value.
int write_file_cache(int file_descriptor, std::uint64_t offset, std::uint64_t bytes, bool wait) noexcept;

/// Forgets what is clean and mapped nowhere of a piece of a file. Never loses anything.
void drop_file_cache(int file_descriptor, std::uint64_t offset, std::uint64_t bytes) noexcept;

enum class CacheState : std::uint8_t { clean, dirty, unknown };
/// Whether a piece of a file holds anything that is not on its disk yet; unknown before Linux 6.5, and for files in
/// memory.
CacheState file_cache_state(int file_descriptor, std::uint64_t offset, std::uint64_t bytes) noexcept;

}  // namespace tiermap
