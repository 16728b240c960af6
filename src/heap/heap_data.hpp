// The file or the directory of segments that the data of a heap is in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heap/heap_layout.hpp"
#include "tiermap/heap.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// What HeapFinding::file says.
inline constexpr char heap_data_file[] = "data";
inline constexpr char heap_journal_file[] = "journal";

/// Makes the data of the heap at `path`, as zeros. Throws StoreError.
std::shared_ptr<Store> create_heap_data(const std::string& path, HeapBacking backing, std::uint64_t bytes);

enum class DamagedData : std::uint8_t { refused, taken };

/// Opens what is called `entry` of the heap at `path`. Throws StoreError, also for damaged_segments() unless these are
/// taken: what they have not reads as zeros.
std::shared_ptr<Store> open_heap_data(const std::string& path, const char* entry, bool writable,
                                      DamagedData damaged = DamagedData::refused);

/// Of data in a sparse store's directory: segments that were cut, or are not there although the state that was saved
/// last says so, in order.
std::vector<HeapFinding> damaged_segments(const std::string& path, const char* entry);

/// Which there are; none if it is no sparse store.
HeapSegments segments_of(const Store& data);

}  // namespace tiermap
