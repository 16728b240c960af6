// The names area of a heap, record by record: heap/heap_layout.hpp has the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tiermap/heap.hpp"

namespace tiermap {

struct NameRecord {
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t alignment = 0;
  bool unique = false;
  std::string name;
  std::string type;  ///< As the compiler mangles it.
  std::string compiler;
  std::string description;
};

inline constexpr std::size_t name_record_bytes = 48;  ///< Without its texts.

void append_name_record(const NameRecord& record, std::vector<std::byte>& bytes);
/// Takes the first record off `bytes`. False if there is none that could be of a heap of that capacity.
bool take_name_record(std::span<const std::byte>& bytes, std::uint64_t capacity_bytes, NameRecord& record);

HeapObject described(const NameRecord& record);

/// The type's name as in the source, if this compiler can tell.
std::string name_in_source(const std::string& mangled);

}  // namespace tiermap
