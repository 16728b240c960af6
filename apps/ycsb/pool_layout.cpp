#include "ycsb/pool_layout.hpp"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "command_line/backing.hpp"
#include "tiermap/error.hpp"
#include "ycsb/checksum.hpp"

namespace tiermap {
namespace {

constexpr const char* remedy_for_no_pool = "make one with tiermap-ycsb --file, --keep and a new name";

constexpr std::uint64_t round_up_to_page(std::uint64_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

/// As many as keys in any order can need: all nodes but the root are at least half full.
std::uint64_t most_nodes(std::uint64_t records) {
  std::uint64_t nodes = 1;
  for (std::uint64_t level = records; level > 1;) {
    level = level / (TreeNode::capacity / 2) + 1;
    nodes += level;
  }
  return nodes;
}

[[noreturn]] void refuse_file(const Store& store, const std::string& why) {
  throw StoreError(EINVAL, fmt::format("{} {}", store.name(), why));
}

/// Whether the numbers fit each other, so that no other part of the program has to ask.
bool is_sound(const PoolHeader& header) {
  return header.checksum == header.computed_checksum() && std::has_single_bit(header.partitions) &&
         header.partitions <= PoolLayout::most_partitions && header.value_bytes > 0 && header.value_bytes % 8 == 0 &&
         header.value_bytes <= PoolLayout::most_value_bytes && header.partition_records > 0 &&
         header.partition_records <= PoolLayout::most_partition_records && header.records >= header.partitions &&
         header.records <= header.partition_records * header.partitions &&
         header.file_bytes == PoolLayout(header).file_bytes();
}

}  // namespace

std::uint64_t PoolHeader::computed_checksum() const noexcept {
  return checksum_of(std::as_bytes(std::span(this, 1)).first(offsetof(PoolHeader, checksum)), version);
}

PoolLayout::PoolLayout(const PoolHeader& header, std::string name)
    : name_(std::move(name)),
      format_(header.partitions, header.value_bytes),
      partition_records_(header.partition_records),
      hash_entries_(header.partition_records * 3 / 2 + 1),
      nodes_(most_nodes(header.partition_records)),
      first_partition_at_(round_up_to_page(state_at(header.partitions))),
      records_at_(round_up_to_page(hash_entries_ * sizeof(HashEntry))),
      nodes_at_(round_up_to_page(records_at_ + partition_records_ * format_.record_bytes())),
      partition_bytes_(nodes_at_ + nodes_ * TreeNode::bytes) {}

void PoolLayout::refuse_damage(const std::string& why) const {
  throw StoreError(EIO, fmt::format("{} is damaged: {}: bring back a copy of it", name_, why));
}

PoolHeader read_pool_header(Store& store) {
  if (store.size_bytes() < PoolHeader::bytes) {
    refuse_file(store, fmt::format("is too short to be a pool: {}", remedy_for_no_pool));
  }
  AlignedBuffer buffer(PoolHeader::bytes);
  read_fully(store, buffer.data(), PoolHeader::bytes, 0);
  PoolHeader header;
  const PoolHeader expected;
  std::memcpy(&header, buffer.data(), sizeof(header));
  if (std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0) {
    refuse_file(store, fmt::format("is no pool, or its making was cut short: {}", remedy_for_no_pool));
  }
  if (header.version != PoolHeader::current_version) {
    refuse_file(store, fmt::format("is a pool of version {}, and this program knows version {}: use the program that "
                                   "made it, or {}",
                                   header.version, PoolHeader::current_version, remedy_for_no_pool));
  }
  if (!is_sound(header)) {
    refuse_file(store, fmt::format("has a damaged header: bring back a copy of it, or {}", remedy_for_no_pool));
  }
  if (store.size_bytes() < header.file_bytes) {
    refuse_file(store, fmt::format("is cut off: it has {} of {} bytes; bring back a copy of it, or {}",
                                   store.size_bytes(), header.file_bytes, remedy_for_no_pool));
  }
  return header;
}

}  // namespace tiermap
