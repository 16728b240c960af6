// The file behind a place of a store, as it is now: others may have made it longer or shorter since the store looked.
#pragma once

#include <cstdint>
#include <optional>

#include "tiermap/store.hpp"

namespace tiermap {

/// How many bytes the file has that come from `offset` of the store on, where the store's page there (`offset` is a
/// multiple of 4096) lies in a plain file and is no hole; nullopt elsewhere.
std::optional<std::uint64_t> file_bytes_from(const Store& store, std::uint64_t offset) noexcept;

}  // namespace tiermap
