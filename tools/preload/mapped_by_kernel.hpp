// What the kernel has mapped into this process, by its own list: served mappings are anonymous memory to it.
#pragma once

#include <vector>

#include "platform/process_maps.hpp"
#include "preload/served_ranges.hpp"

namespace tiermap::preload {

/// True if it cannot be told.
bool mapped_by_kernel(FileIdentity file);

/// The files of shared mappings; none if nobody can tell.
std::vector<FileIdentity> files_shared_by_kernel();

/// Whether anything in the range can be read or written, served or not. True if it cannot be told.
bool can_be_touched(const void* address, std::size_t bytes);

/// On file systems that are memory already, or no files really.
bool lies_in_memory(int descriptor) noexcept;

}  // namespace tiermap::preload
