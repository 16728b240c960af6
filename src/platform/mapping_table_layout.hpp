// What lies in the file of a MappingTable: as many zeros are an empty one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "platform/file_identity.hpp"
#include "platform/mapping_table.hpp"

namespace tiermap {

struct MappingTable::Layout {
  static constexpr std::uint64_t magic_and_version = 0x3130'5041'4D52'5449;  ///< "ITRMAP01" in memory.
  static constexpr std::uint64_t magic_mask = 0xFFFF'FFFF'FFFF;
  static constexpr std::size_t most_processes = 1024;
  static constexpr std::size_t most_entries = 4096;
  static constexpr std::uint32_t generation_bits = 22;
  static constexpr std::uint32_t generation_mask = (1U << generation_bits) - 1;
  static constexpr std::size_t slot_of(std::uint32_t owner) noexcept { return owner >> generation_bits; }

  struct Slot {
    std::atomic<std::uint32_t> generation;  ///< Of those who have had the slot.
    std::atomic<std::uint32_t> bell;        ///< Goes up when somebody asks for something.
    std::atomic<std::uint32_t> sharing;     ///< Its generation, if that takes a share of the memory.
    std::atomic<std::uint32_t> taking;      ///< 1 while it takes another share: it answers after that.
    std::atomic<std::uint64_t> process;
    std::atomic<std::uint64_t> process_namespace;
  };

  struct Entry {
    std::atomic<std::uint64_t> word;  ///< 0 if it is free.
    std::atomic<std::uint64_t> device;
    std::atomic<std::uint64_t> inode;
    FileIdentity file() const noexcept { return {device.load(), inode.load()}; }
  };

  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> used;  ///< No entry from here on was ever taken.
  std::array<Slot, most_processes> slots;
  std::array<Entry, most_entries> entries;
};

}  // namespace tiermap
