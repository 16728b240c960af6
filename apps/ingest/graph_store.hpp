// Where the graph is put: the URL that was given or that of a scratch file, in as many segments as were asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tiermap {

/// The URL of the store to be made, without its segments' size: `file`, or a scratch path if that is empty, which is
/// that of a sparse store if there are to be segments. Throws OptionError if `segments` do not go with `file`.
std::string choose_store(const std::string& file, std::optional<std::uint64_t> segments);

/// The size of a segment of a sparse store of `bytes` bytes that is to have so many: a multiple of 4 KiB, so that a
/// small store has fewer.
std::uint64_t segment_bytes_for(std::uint64_t bytes, std::uint64_t segments) noexcept;

/// A sparse store's URL with that size in it.
std::string with_segment_bytes(const std::string& url, std::uint64_t segment_bytes);

}  // namespace tiermap
