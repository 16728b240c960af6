// Whatever a heap's journal holds, it is refused with a StoreError or opens, with the same content read-only, recovered
// and opened once more. The input is a journal; then it is the entries of a journal's only index block, whose checksums
// are right.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "../checkpoint/disk_in_memory.hpp"
#include "heap/checkpointed_store.hpp"
#include "tiermap/error.hpp"

namespace {

using tiermap::Bytes;
using tiermap::FileOnDisk;
using tiermap::JournalBlock;
using tiermap::JournalEntry;

constexpr std::uint64_t identity = 4711;
constexpr std::size_t base_bytes = 40'000;
constexpr std::uint32_t slots = 8;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

Bytes open(const std::shared_ptr<FileOnDisk>& base, const Bytes& journal, bool writable) {
  tiermap::CheckpointedStore store(base, std::make_shared<FileOnDisk>("journal", journal), identity, writable);
  Bytes content(static_cast<std::size_t>(store.size_bytes()));
  require(store.read(content.data(), content.size(), 0) == static_cast<std::int64_t>(content.size()));
  return content;
}

void recover(const Bytes& journal) {
  const auto base = std::make_shared<FileOnDisk>("base", Bytes(base_bytes, 'b'));
  try {
    const Bytes seen = open(base, journal, false);
    require(base->content() == Bytes(base_bytes, 'b'));
    require(open(base, journal, true) == seen);
    require(base->content() == seen);
    require(open(base, journal, true) == seen);
  } catch (const tiermap::StoreError& error) {
    require(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
    require(base->content() == Bytes(base_bytes, 'b'));
  }
}

void append(Bytes& journal, const JournalBlock& block) {
  const char* const bytes = reinterpret_cast<const char*>(block.data());
  journal.insert(journal.end(), bytes, bytes + block.size());
}

std::uint64_t number_from(std::span<const std::uint8_t> input, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t index = 0; index < count && at + index < input.size(); ++index) {
    value |= static_cast<std::uint64_t>(input[at + index]) << (8 * index);
  }
  return value;
}

/// A journal with these entries in slot 0 and blocks of one letter each in the other slots.
Bytes journal_of(std::span<const std::uint8_t> input) {
  std::vector<JournalEntry> entries;
  for (std::size_t at = 0; at < input.size() && entries.size() < tiermap::most_index_entries; at += 12) {
    JournalEntry entry = {number_from(input, at, 4), static_cast<std::uint32_t>(number_from(input, at + 4, 4)),
                          static_cast<std::uint32_t>(number_from(input, at + 8, 4)), 0};
    if (!entry.zeros()) {
      const std::vector<std::byte> content(tiermap::journal_block_bytes,
                                           static_cast<std::byte>('a' + entry.slot % slots));
      entry.checksum = tiermap::journal_checksum(content);
    }
    entries.push_back(entry);
  }
  Bytes journal;
  JournalBlock header;
  JournalBlock index;
  JournalBlock record_block;
  tiermap::encode_journal_header(identity, header);
  const std::uint64_t checksum = tiermap::encode_index_block({identity, 1, tiermap::no_slot}, entries, index);
  tiermap::CommitRecord record = {identity, 1, tiermap::CommitState::committed, 0, 1, entries.size(), base_bytes, 0};
  record.index_checksum = tiermap::journal_checksum(std::as_bytes(std::span(&checksum, 1)));
  tiermap::encode_commit_record(record, record_block);
  append(journal, header);
  append(journal, record_block);
  append(journal, record_block);
  append(journal, index);
  for (std::uint32_t slot = 1; slot < slots; ++slot) {
    journal.insert(journal.end(), tiermap::journal_block_bytes, static_cast<char>('a' + slot));
  }
  return journal;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  recover(Bytes(data, data + size));
  recover(journal_of({data, size}));
  return 0;
}
