// The file or the directory of segments that the data of a heap is in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tiermap/heap.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Makes the data of the heap at `path`, as zeros. Throws StoreError.
std::shared_ptr<Store> create_heap_data(const std::string& path, HeapBacking backing, std::uint64_t bytes);

/// Opens what is called `entry` of the heap at `path`. Throws StoreError, also for segments that were cut.
std::shared_ptr<Store> open_heap_data(const std::string& path, const char* entry, bool writable);

}  // namespace tiermap
