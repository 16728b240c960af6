// Opening the file that a journal is in, and locking it.
#pragma once

#include <memory>
#include <string>

#include "tiermap/store.hpp"

namespace tiermap {

/// Opens a journal's file as a store, locked until the last copy of the pointer is gone: by one writer alone, or by any
/// number of readers (OpenMode::read_only). The kernel releases the lock of a process that dies; a child made by fork()
/// keeps it. Throws StoreError that names the file, or the heap around it: EBUSY when it is locked elsewhere.
std::shared_ptr<Store> open_journal_file(const std::string& path, OpenMode mode);

}  // namespace tiermap
