#include "heap/journal_check.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "heap/heap_remains.hpp"
#include "heap/journal.hpp"
#include "heap/store_bytes.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr char mixture[] =
    "the last checkpoint cannot be finished, and the data may be a mixture of it and the one before";

std::uint64_t byte_of_slot(std::uint32_t slot) noexcept {
  return (journal_header_blocks + slot) * journal_block_bytes;
}

/// The slot of the index block that comes after those that could be read.
std::uint32_t next_index_slot(const Journal& journal, const std::vector<std::uint32_t>& read) {
  if (read.empty()) {
    return journal.record().first_index_slot;
  }
  JournalBlock block;
  DecodedIndexBlock decoded;
  if (journal.read(block.data(), {read.back(), 1}) != 0 || !decode_index_block(block, decoded) ||
      decoded.link.next_slot == no_slot) {
    return read.back();
  }
  return decoded.link.next_slot;
}

bool is_intact(const Journal& journal, const JournalEntry& entry) {
  JournalBlock block;
  return entry.zeros() ||
         (journal.read(block.data(), {entry.slot, 1}) == 0 && journal_checksum(block) == entry.checksum);
}

/// Whether the block has come to the data already, so that its slot is not needed.
bool is_applied(Store& base, const JournalEntry& entry) {
  JournalBlock block;
  read_bytes(base, entry.block * journal_block_bytes, block);
  return journal_checksum(block) == entry.checksum;
}

/// True if anything was found.
bool find_damaged_slots(const Journal& journal, Store& base, const std::vector<JournalEntry>& entries,
                        HeapCheck& check) {
  const std::size_t before = check.findings.size();
  for (const JournalEntry& entry : entries) {
    if (is_intact(journal, entry)) {
      continue;
    }
    const std::string place = std::to_string(entry.block * journal_block_bytes);
    check.findings.push_back({heap_journal_file, byte_of_slot(entry.slot),
                              "the block in slot " + std::to_string(entry.slot) + " is not what was committed",
                              is_applied(base, entry)
                                  ? "the heap cannot be opened, but the data has that block already, at byte " + place
                                  : "what belongs at byte " + place + " of data is lost; " + mixture});
  }
  return check.findings.size() > before;
}

}  // namespace

void check_commit_records(Store& journal, std::uint64_t identity, HeapCheck& check) {
  std::array<JournalBlock, journal_header_blocks> blocks;
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    read_bytes(journal, index * journal_block_bytes, blocks[index]);
  }
  if (std::ranges::all_of(blocks[0], [](std::byte byte) { return byte == std::byte{0}; })) {
    return;  // Not made yet, or without its header: opening it says which.
  }
  CommitRecord record;
  std::array<bool, 2> good{};
  for (std::size_t copy = 0; copy < 2; ++copy) {
    good[copy] = decode_commit_record(blocks[1 + copy], identity, record);
  }
  for (std::size_t copy = 0; copy < 2; ++copy) {
    if (!good[copy] && good[1 - copy]) {
      check.findings.push_back({heap_journal_file, (1 + copy) * journal_block_bytes,
                                "this copy of the commit record is not what its checksum says",
                                "the other one is intact, and is used: the heap can be opened, and the next "
                                "checkpoint writes both"});
    }
  }
}

void check_damaged_journal(const std::shared_ptr<Store>& journal, Store& base, std::uint64_t identity,
                           const std::string& refusal, HeapCheck& check) {
  std::uint64_t byte = 0;
  const char* meaning = mixture;
  try {
    const Journal opened(journal, identity, base.size_bytes(), false);
    std::vector<std::uint32_t> index_slots;
    byte = journal_block_bytes;  // What is wrong, if not the index, is what the record says.
    if (opened.record().state != CommitState::committed) {
      meaning = "what was committed last is in the data, and nothing else is needed from the journal";
    } else {
      try {
        const std::vector<JournalEntry> entries = opened.load_index(index_slots);
        if (find_damaged_slots(opened, base, entries, check)) {
          return;
        }
      } catch (const StoreError&) {
        byte = byte_of_slot(next_index_slot(opened, index_slots));
      }
    }
  } catch (const StoreError&) {
    JournalBlock header;
    read_bytes(*journal, 0, header);
    try {
      check_journal_header(header, identity, "");
      byte = journal_block_bytes;  // Then it is the records.
    } catch (const StoreError&) {
    }
  }
  check.findings.push_back({heap_journal_file, byte, refusal, std::string("the heap cannot be opened; ") + meaning});
}

}  // namespace tiermap
