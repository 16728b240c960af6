// Taking the files of a heap away.
#pragma once

#include <string>

namespace tiermap {

/// Takes the files of a heap, or of a part of one, and its directory away: locked, so that nobody opens or makes one
/// there meanwhile. False if there is nothing, or an empty directory, which stays. Throws StoreError.
bool remove_heap_files(const std::string& path);

/// The same of what was made in vain, by who holds the lock of its journal: of that directory alone, which is open as
/// `directory`. Left alone where it fails, as what it is called for has failed already.
void remove_own_files(const std::string& path, int directory) noexcept;

}  // namespace tiermap
