#include "heap/journal_layout.hpp"

#include <xxhash.h>

#include <cerrno>
#include <cstring>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr char record_magic[] = "TIERCMIT";
constexpr std::size_t magic_length = 8;
constexpr std::size_t header_checksum_at = 56;
constexpr std::size_t record_checksum_at = 64;
constexpr std::size_t entries_at = 24;
constexpr std::size_t entry_bytes = 24;
constexpr std::size_t index_checksum_at = 4088;

static_assert(entries_at + most_index_entries * entry_bytes <= index_checksum_at);

void put_number(JournalBlock& block, std::size_t at, std::size_t count, std::uint64_t value) noexcept {
  for (std::size_t index = 0; index < count; ++index) {
    block[at + index] = static_cast<std::byte>(value >> (8 * index) & 0xff);
  }
}

std::uint64_t number_at(const JournalBlock& block, std::size_t at, std::size_t count) noexcept {
  std::uint64_t value = 0;
  for (std::size_t index = 0; index < count; ++index) {
    value |= std::to_integer<std::uint64_t>(block[at + index]) << (8 * index);
  }
  return value;
}

std::uint32_t half_number_at(const JournalBlock& block, std::size_t at) noexcept {
  return static_cast<std::uint32_t>(number_at(block, at, 4));
}

std::uint64_t checksum_of_first(const JournalBlock& block, std::size_t bytes) noexcept {
  return journal_checksum(std::span(block).first(bytes));
}

constexpr char other_copy[] = ": put back the journal that belongs to this heap, or restore both from a snapshot";

}  // namespace

std::uint64_t journal_checksum(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void encode_journal_header(std::uint64_t identity, JournalBlock& block) noexcept {
  block = {};
  std::memcpy(block.data(), journal_magic.data(), magic_length);
  put_number(block, 8, 4, journal_version);
  put_number(block, 12, 4, journal_block_bytes);
  put_number(block, 16, 8, identity);
  put_number(block, header_checksum_at, 8, checksum_of_first(block, header_checksum_at));
}

void check_journal_header(const JournalBlock& block, std::uint64_t identity, const std::string& name) {
  if (std::memcmp(block.data(), journal_magic.data(), magic_length) != 0) {
    throw StoreError(EINVAL, name + " is not the journal of a heap: its first 8 bytes are others" + other_copy);
  }
  // Before anything else, since another version may have another checksum.
  if (const std::uint64_t version = number_at(block, 8, 4); version != journal_version) {
    throw StoreError(EINVAL, name + " is of version " + std::to_string(version) + " and this program reads version " +
                                 std::to_string(journal_version) +
                                 ": open the heap with the version of Tiermap that wrote it, and close it there");
  }
  if (number_at(block, header_checksum_at, 8) != checksum_of_first(block, header_checksum_at) ||
      number_at(block, 12, 4) != journal_block_bytes) {
    throw StoreError(EINVAL, name + " is damaged: the checksum of its header (bytes 0 to 63) is wrong" +
                                 ": restore heap and journal from a snapshot");
  }
  if (number_at(block, 16, 8) != identity) {
    throw StoreError(EINVAL, name + " is the journal of another heap: the identity in it is " +
                                 std::to_string(number_at(block, 16, 8)) + " and not " + std::to_string(identity) +
                                 other_copy);
  }
}

void encode_commit_record(const CommitRecord& record, JournalBlock& block) noexcept {
  block = {};
  std::memcpy(block.data(), record_magic, magic_length);
  put_number(block, 8, 8, record.identity);
  put_number(block, 16, 8, record.generation);
  put_number(block, 24, 4, static_cast<std::uint64_t>(record.state));
  put_number(block, 28, 4, record.first_index_slot);
  put_number(block, 32, 4, record.index_blocks);
  put_number(block, 40, 8, record.entries);
  put_number(block, 48, 8, record.size_bytes);
  put_number(block, 56, 8, record.index_checksum);
  put_number(block, record_checksum_at, 8, checksum_of_first(block, record_checksum_at));
}

bool decode_commit_record(const JournalBlock& block, std::uint64_t identity, CommitRecord& record) noexcept {
  if (std::memcmp(block.data(), record_magic, magic_length) != 0 ||
      number_at(block, record_checksum_at, 8) != checksum_of_first(block, record_checksum_at) ||
      number_at(block, 8, 8) != identity || number_at(block, 36, 4) != 0) {
    return false;
  }
  const std::uint32_t state = half_number_at(block, 24);
  record.identity = identity;
  record.generation = number_at(block, 16, 8);
  record.state = static_cast<CommitState>(state);
  record.first_index_slot = half_number_at(block, 28);
  record.index_blocks = half_number_at(block, 32);
  record.entries = number_at(block, 40, 8);
  record.size_bytes = number_at(block, 48, 8);
  record.index_checksum = number_at(block, 56, 8);
  const bool indexed = record.first_index_slot != no_slot;
  return state >= 1 && state <= 3 && indexed == (record.index_blocks != 0) && record.entries >= record.index_blocks &&
         record.entries <= std::uint64_t{record.index_blocks} * most_index_entries;
}

std::uint64_t encode_index_block(const IndexLink& link, std::span<const JournalEntry> entries,
                                 JournalBlock& block) noexcept {
  block = {};
  put_number(block, 0, 8, link.generation);
  put_number(block, 8, 4, link.next_slot);
  put_number(block, 12, 4, entries.size());
  put_number(block, 16, 8, link.identity);
  std::size_t at = entries_at;
  for (const JournalEntry& entry : entries) {
    put_number(block, at, 8, entry.block);
    put_number(block, at + 8, 4, entry.slot);
    put_number(block, at + 12, 4, entry.count);
    put_number(block, at + 16, 8, entry.checksum);
    at += entry_bytes;
  }
  const std::uint64_t checksum = checksum_of_first(block, index_checksum_at);
  put_number(block, index_checksum_at, 8, checksum);
  return checksum;
}

bool decode_index_block(const JournalBlock& block, DecodedIndexBlock& decoded) noexcept {
  decoded.checksum = number_at(block, index_checksum_at, 8);
  decoded.count = half_number_at(block, 12);
  if (decoded.checksum != checksum_of_first(block, index_checksum_at) || decoded.count == 0 ||
      decoded.count > most_index_entries) {
    return false;
  }
  decoded.link = {number_at(block, 16, 8), number_at(block, 0, 8), half_number_at(block, 8)};
  std::size_t at = entries_at;
  for (std::size_t index = 0; index < decoded.count; ++index, at += entry_bytes) {
    decoded.entries[index] = {number_at(block, at, 8), half_number_at(block, at + 8), half_number_at(block, at + 12),
                              number_at(block, at + 16, 8)};
  }
  return true;
}

}  // namespace tiermap
