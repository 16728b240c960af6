#include "ycsb/record.hpp"

#include <bit>
#include <cstring>

#include "parallel/random.hpp"
#include "ycsb/checksum.hpp"

namespace tiermap {
namespace {

/// A bijection of the words of so many bits: each of its steps is one.
std::uint64_t permute(std::uint64_t number, unsigned bits) noexcept {
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - bits);
  number = ((number ^ (number >> (bits / 2))) * 0xbf58476d1ce4e5b9U) & mask;
  number = ((number ^ (number >> (bits / 2 - 2))) * 0x94d049bb133111ebU) & mask;
  return number ^ (number >> (bits / 2));
}

std::uint64_t value_word(std::uint64_t key, std::uint64_t version, std::uint64_t index) noexcept {
  return mix_word(key + version * 0x9e3779b97f4a7c15U + index);
}

std::uint64_t value_checksum(std::span<const std::byte> record, std::uint64_t key, std::uint64_t version) noexcept {
  return checksum_of(record.subspan(sizeof(RecordHead)), mix_word(key) + version);
}

}  // namespace

RecordHead head_of(std::span<const std::byte> record) noexcept {
  RecordHead head;
  std::memcpy(&head, record.data(), sizeof(head));
  return head;
}

RecordFormat::RecordFormat(std::uint32_t partitions, std::uint64_t value_bytes)
    : partition_bits_(static_cast<unsigned>(std::countr_zero(partitions))), value_bytes_(value_bytes) {}

std::uint64_t RecordFormat::first_key(std::uint32_t partition) const noexcept {
  return partition_bits_ == 0 ? 0 : std::uint64_t{partition} << (64 - partition_bits_);
}

std::uint64_t RecordFormat::key_of(std::uint32_t partition, std::uint64_t number) const noexcept {
  return first_key(partition) | permute(number, 64 - partition_bits_);
}

void RecordFormat::fill(std::span<std::byte> record, std::uint64_t key, std::uint64_t version) const noexcept {
  for (std::uint64_t index = 0; index < value_bytes_ / sizeof(std::uint64_t); ++index) {
    const std::uint64_t word = value_word(key, version, index);
    std::memcpy(record.data() + sizeof(RecordHead) + index * sizeof(word), &word, sizeof(word));
  }
  const RecordHead head{key, version, value_checksum(record, key, version)};
  std::memcpy(record.data(), &head, sizeof(head));
}

bool RecordFormat::is_whole(std::span<const std::byte> record, std::uint64_t key,
                            std::uint64_t version) const noexcept {
  const RecordHead head = head_of(record);
  return head.key == key && head.version == version && head.checksum == value_checksum(record, key, version);
}

bool RecordFormat::is_right(std::span<const std::byte> record, std::uint64_t key,
                            std::uint64_t version) const noexcept {
  for (std::uint64_t index = 0; index < value_bytes_ / sizeof(std::uint64_t); ++index) {
    std::uint64_t word = 0;
    std::memcpy(&word, record.data() + sizeof(RecordHead) + index * sizeof(word), sizeof(word));
    if (word != value_word(key, version, index)) {
      return false;
    }
  }
  return is_whole(record, key, version);
}

}  // namespace tiermap
