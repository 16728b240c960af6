// The journal file of a heap, byte by byte. All numbers are little-endian; a checksum is XXH3 with 64 bits and seed 0.
//
// The file is an array of blocks of 4096 bytes:
//
//   block 0       header, written once when the journal is made
//   blocks 1, 2   the commit record, twice with the same content
//   block 3 + s   slot s: a block of the heap, or a block of an index
//
// Header (the rest of its block is zeros and not looked at):
//    0   8  "TIERHPJN"
//    8   4  version, 1
//   12   4  bytes of a block, 4096
//   16   8  identity of the heap
//   24  32  zeros
//   56   8  checksum of bytes 0 to 55
//
// Commit record (the rest of its block likewise):
//    0   8  "TIERCMIT"
//    8   8  identity of the heap
//   16   8  generation: how many commits there were; 0 in a new journal
//   24   4  state: 1 committed (its blocks may still have to be applied to the base), 2 applied (they have been),
//           3 opened (they have been, and a process has begun to write what may become the next commit)
//   28   4  slot of the first index block; 4294967295 for none
//   32   4  how many index blocks
//   36   4  zeros
//   40   8  how many entries they have together
//   48   8  size of the heap's store in bytes
//   56   8  checksum of the index blocks' checksums, 8 bytes each, in order
//   64   8  checksum of bytes 0 to 63
//
// Index block (in a slot):
//    0   8  generation
//    8   4  slot of the next index block; 4294967295 for none
//   12   4  how many entries, 1 to 169
//   16   8  identity of the heap
//   24  24  each entry; zeros behind the last
// 4080   8  zeros
// 4088   8  checksum of bytes 0 to 4087
//
// Entry: blocks that a commit changed. Those of one index are in order and do not overlap.
//    0   8  first block, its offset in the heap's store divided by 4096
//    8   4  slot that holds it; 4294967295: blocks that read as zeros
//   12   4  how many blocks; 1 if there is a slot
//   16   8  checksum of the slot's 4096 bytes; 0 for zeros
//
// A record lies in one sector of the disk, which is written whole or not at all. That is the only thing assumed of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tiermap {

inline constexpr std::string_view journal_magic = "TIERHPJN";
inline constexpr std::uint32_t journal_version = 1;
inline constexpr std::uint64_t journal_block_bytes = 4096;
inline constexpr std::uint64_t journal_header_blocks = 3;
inline constexpr std::size_t journal_header_bytes = 64;
inline constexpr std::size_t commit_record_bytes = 72;
inline constexpr std::size_t most_index_entries = 169;
/// In place of a slot: there is none, or the blocks are zeros.
inline constexpr std::uint32_t no_slot = 0xffff'ffff;
/// Slots are numbered below this.
inline constexpr std::uint32_t most_slots = 0xffff'fff0;

using JournalBlock = std::array<std::byte, journal_block_bytes>;

enum class CommitState : std::uint32_t { committed = 1, applied = 2, opened = 3 };

struct CommitRecord {
  std::uint64_t identity = 0;
  std::uint64_t generation = 0;
  CommitState state = CommitState::applied;
  std::uint32_t first_index_slot = no_slot;
  std::uint32_t index_blocks = 0;
  std::uint64_t entries = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t index_checksum = 0;

  bool operator==(const CommitRecord&) const = default;
};

/// An entry of an index.
struct JournalEntry {
  std::uint64_t block = 0;
  std::uint32_t slot = no_slot;
  std::uint32_t count = 1;
  std::uint64_t checksum = 0;

  bool zeros() const noexcept { return slot == no_slot; }
  bool operator==(const JournalEntry&) const = default;
};

/// What an index block says beside its entries.
struct IndexLink {
  std::uint64_t identity = 0;
  std::uint64_t generation = 0;
  std::uint32_t next_slot = no_slot;
};

/// XXH3, as everywhere in the file.
std::uint64_t journal_checksum(std::span<const std::byte> bytes) noexcept;

/// A header block for a heap of this identity.
void encode_journal_header(std::uint64_t identity, JournalBlock& block) noexcept;

/// Throws StoreError unless `block` is the header of a journal that this program reads and that belongs to the heap.
/// `name` is the file's, for messages.
void check_journal_header(const JournalBlock& block, std::uint64_t identity, const std::string& name);

void encode_commit_record(const CommitRecord& record, JournalBlock& block) noexcept;
/// False for what is no whole record of this heap, or has impossible values.
bool decode_commit_record(const JournalBlock& block, std::uint64_t identity, CommitRecord& record) noexcept;

/// Fills a block with at most most_index_entries entries; returns its checksum.
std::uint64_t encode_index_block(const IndexLink& link, std::span<const JournalEntry> entries,
                                 JournalBlock& block) noexcept;

/// The reverse.
struct DecodedIndexBlock {
  IndexLink link;
  std::size_t count = 0;
  std::array<JournalEntry, most_index_entries> entries;
  std::uint64_t checksum = 0;
};
/// False when the checksum or the number of entries is wrong; what the entries say is for the caller to judge.
bool decode_index_block(const JournalBlock& block, DecodedIndexBlock& decoded) noexcept;

}  // namespace tiermap
