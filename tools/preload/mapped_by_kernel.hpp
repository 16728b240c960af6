// Whether the kernel maps a file into this process: served mappings are anonymous memory to it.
#pragma once

#include "preload/served_ranges.hpp"

namespace tiermap::preload {

/// By the file's number alone, as devices of some file systems have other numbers there: another file of the same
/// number counts too. True if it cannot be told.
bool mapped_by_kernel(FileIdentity file);

}  // namespace tiermap::preload
