#include "heap/journal.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr char from_snapshot[] = ": restore heap and journal from a snapshot";
constexpr std::uint64_t record_copies = 2;
constexpr std::uint64_t least_growth_blocks = 256;
constexpr std::size_t blocks_at_once = 256;

/// Direct I/O wants its buffers aligned.
struct FreeBlocks {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};

std::unique_ptr<std::byte, FreeBlocks> aligned_blocks(std::size_t count) {
  void* const memory = std::aligned_alloc(journal_block_bytes, count * journal_block_bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return std::unique_ptr<std::byte, FreeBlocks>(static_cast<std::byte*>(memory));
}

std::uint64_t offset_of(std::uint64_t block) noexcept {
  return block * journal_block_bytes;
}

bool is_blank(const JournalBlock& block) noexcept {
  return std::ranges::all_of(block, [](std::byte byte) { return byte == std::byte{0}; });
}

std::string place_of_slot(std::uint32_t slot) {
  return "slot " + std::to_string(slot) + " (byte " + std::to_string(offset_of(journal_header_blocks + slot)) + ")";
}

/// All of the bytes, with zeros behind the end of the store.
int read_all(Store& store, std::byte* buffer, std::size_t bytes, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < bytes) {
    const std::int64_t got = store.read(buffer + done, bytes - done, offset + done);
    if (got == -EINTR) {
      continue;
    }
    if (got < 0 || got > static_cast<std::int64_t>(bytes - done)) {
      return got < 0 ? static_cast<int>(got) : -EIO;
    }
    if (got == 0) {
      std::memset(buffer + done, 0, bytes - done);
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return 0;
}

}  // namespace

bool Journal::has_no_header(Store& file) {
  alignas(journal_block_bytes) JournalBlock header;
  if (const int result = read_all(file, header.data(), header.size(), 0); result != 0) {
    throw_file_error(-result, file.name(), "cannot be read");
  }
  return is_blank(header);
}

Journal::Journal(std::shared_ptr<Store> file, std::uint64_t identity, std::uint64_t size_bytes, bool writable)
    : file_(std::move(file)), identity_(identity) {
  alignas(journal_block_bytes) JournalBlock header;
  if (const int result = read_block(0, header); result != 0) {
    throw_file_error(-result, name(), "cannot be read");
  }
  // Records come before the header when a journal is made: without a header nothing was ever committed, unless a
  // record says otherwise.
  if (is_blank(header)) {
    for (std::uint64_t copy = 0; copy < record_copies; ++copy) {
      alignas(journal_block_bytes) JournalBlock block;
      CommitRecord record;
      if (const int result = read_block(1 + copy, block); result != 0) {
        throw_file_error(-result, name(), "cannot be read");
      }
      if (!is_blank(block) && (!decode_commit_record(block, identity_, record) || record.generation != 0)) {
        refuse("its header (bytes 0 to 63) is gone");
      }
    }
    // Nor was any slot written.
    if (file_->size_bytes() > offset_of(journal_header_blocks)) {
      refuse("its header (bytes 0 to 63) is gone");
    }
    record_ = {identity_, 0, CommitState::applied, no_slot, 0, 0, size_bytes, 0};
    if (writable) {
      create(size_bytes);
    }
    return;
  }
  check_journal_header(header, identity_, name());
  load_record();
}

void Journal::refuse(const std::string& what) const {
  throw StoreError(EINVAL, name() + " is damaged: " + what + from_snapshot);
}

void Journal::create(std::uint64_t size_bytes) {
  const CommitRecord record = {identity_, 0, CommitState::applied, no_slot, 0, 0, size_bytes, 0};
  alignas(journal_block_bytes) JournalBlock header;
  encode_journal_header(identity_, header);
  int result = make_room(journal_header_blocks);
  result = result == 0 ? write_record(record) : result;
  result = result == 0 ? write_block(0, header) : result;
  result = result == 0 ? flush() : result;
  if (result != 0) {
    throw_file_error(-result, name(), "cannot be made a journal");
  }
}

void Journal::load_record() {
  bool found = false;
  for (std::uint64_t copy = 0; copy < record_copies; ++copy) {
    alignas(journal_block_bytes) JournalBlock block;
    CommitRecord record;
    if (const int result = read_block(1 + copy, block); result != 0) {
      throw_file_error(-result, name(), "cannot be read");
    }
    if (!decode_commit_record(block, identity_, record)) {
      continue;
    }
    const bool newer = record.generation != record_.generation ? record.generation > record_.generation
                                                               : record.state != CommitState::committed;
    if (!found || newer) {
      record_ = record;
    }
    found = true;
  }
  if (!found) {
    refuse("both copies of its commit record (at bytes 4096 and 8192) are unreadable");
  }
}

int Journal::read_block(std::uint64_t block, JournalBlock& content) const {
  return read_all(*file_, content.data(), content.size(), offset_of(block));
}

int Journal::write_block(std::uint64_t block, const JournalBlock& content) {
  std::size_t done = 0;
  while (done < content.size()) {
    const std::int64_t put = file_->write(content.data() + done, content.size() - done, offset_of(block) + done);
    if (put == -EINTR) {
      continue;
    }
    if (put <= 0 || put > static_cast<std::int64_t>(content.size() - done)) {
      return put < 0 ? static_cast<int>(put) : put == 0 ? -ENOSPC : -EIO;
    }
    done += static_cast<std::size_t>(put);
  }
  return 0;
}

/// In steps that grow with the file: each changes metadata, which makes the next flush dearer.
int Journal::make_room(std::uint64_t blocks) {
  if (offset_of(blocks) <= file_->size_bytes()) {
    return 0;
  }
  const std::lock_guard lock(growth_mutex_);
  const std::uint64_t now = file_->size_bytes();
  if (offset_of(blocks) <= now) {
    return 0;
  }
  const std::uint64_t step = std::max(least_growth_blocks, blocks / 8);
  return file_->resize(offset_of(blocks == journal_header_blocks ? blocks : blocks + step));
}

int Journal::read(void* buffer, SlotRun slots) const {
  return read_all(*file_, static_cast<std::byte*>(buffer), offset_of(slots.count),
                  offset_of(journal_header_blocks + slots.first));
}

std::int64_t Journal::write(const void* buffer, SlotRun slots) {
  const std::uint64_t first = journal_header_blocks + slots.first;
  if (const int result = make_room(first + slots.count); result != 0) {
    return result;
  }
  const std::size_t bytes = offset_of(slots.count);
  std::size_t done = 0;
  while (done < bytes) {
    const std::int64_t put =
        file_->write(static_cast<const std::byte*>(buffer) + done, bytes - done, offset_of(first) + done);
    if (put == -EINTR) {
      continue;
    }
    if (put <= 0 || put > static_cast<std::int64_t>(bytes - done)) {
      if (done >= journal_block_bytes) {
        break;  // What is left is asked again, and then names its error.
      }
      return put < 0 ? put : put == 0 ? -ENOSPC : -EIO;
    }
    done += static_cast<std::size_t>(put);
  }
  return static_cast<std::int64_t>(done / journal_block_bytes);
}

int Journal::write_index(std::span<const JournalEntry> entries, std::span<const std::uint32_t> slots,
                         CommitRecord& record) {
  std::vector<std::uint64_t> checksums;
  for (std::size_t index = 0; index < slots.size(); ++index) {
    const std::uint32_t next = index + 1 < slots.size() ? slots[index + 1] : no_slot;
    const std::size_t from = index * most_index_entries;
    alignas(journal_block_bytes) JournalBlock block;
    checksums.push_back(encode_index_block({identity_, record.generation, next},
                                           entries.subspan(from, std::min(entries.size() - from, most_index_entries)),
                                           block));
    if (const std::int64_t put = write(block.data(), {slots[index], 1}); put < 0) {
      return static_cast<int>(put);
    }
  }
  record.first_index_slot = slots.empty() ? no_slot : slots.front();
  record.index_blocks = static_cast<std::uint32_t>(slots.size());
  record.entries = entries.size();
  record.index_checksum = journal_checksum(std::as_bytes(std::span(checksums)));
  return 0;
}

int Journal::write_record(const CommitRecord& record) {
  alignas(journal_block_bytes) JournalBlock block;
  encode_commit_record(record, block);
  int result = 0;
  for (std::uint64_t copy = 0; copy < record_copies && result == 0; ++copy) {
    result = write_block(1 + copy, block);
  }
  result = result == 0 ? flush() : result;
  if (result == 0) {
    record_ = record;
  }
  return result;
}

std::vector<JournalEntry> Journal::load_index(std::vector<std::uint32_t>& index_slots) const {
  const std::uint64_t blocks_in_file = file_->size_bytes() / journal_block_bytes;
  const auto in_file = [&](std::uint32_t slot) { return journal_header_blocks + slot < blocks_in_file; };
  std::vector<JournalEntry> entries;
  std::vector<std::uint64_t> checksums;
  auto decoded = std::make_unique<DecodedIndexBlock>();
  std::uint32_t slot = record_.first_index_slot;
  for (std::uint32_t number = 0; number < record_.index_blocks; ++number) {
    alignas(journal_block_bytes) JournalBlock block;
    if (!in_file(slot)) {
      refuse("block " + std::to_string(number) + " of its index lies behind its end");
    }
    if (const int result = read_block(journal_header_blocks + slot, block); result != 0) {
      throw_file_error(-result, name(), "cannot be read");
    }
    if (!decode_index_block(block, *decoded) || decoded->link.identity != identity_ ||
        decoded->link.generation != record_.generation) {
      refuse("the index block in " + place_of_slot(slot) + " is not what was committed");
    }
    for (const JournalEntry& entry : std::span(decoded->entries).first(decoded->count)) {
      const std::uint64_t free_from = entries.empty() ? 0 : entries.back().block + entries.back().count;
      const bool possible = entry.zeros() ? entry.count > 0 && entry.checksum == 0
                                          : entry.count == 1 && in_file(entry.slot) &&
                                                entry.block < record_.size_bytes / journal_block_bytes + 1;
      if (!possible || entry.block < free_from || entry.block > largest_file_bytes / journal_block_bytes) {
        refuse("an entry of the index block in " + place_of_slot(slot) + " is impossible");
      }
      entries.push_back(entry);
    }
    index_slots.push_back(slot);
    checksums.push_back(decoded->checksum);
    slot = decoded->link.next_slot;
  }
  if (slot != no_slot || entries.size() != record_.entries ||
      (record_.index_blocks > 0 && journal_checksum(std::as_bytes(std::span(checksums))) != record_.index_checksum)) {
    refuse("its index is not the one that was committed");
  }
  return entries;
}

void Journal::verify(std::span<const JournalEntry> entries) const {
  std::vector<JournalEntry> by_slot;
  std::ranges::copy_if(entries, std::back_inserter(by_slot), [](const JournalEntry& entry) { return !entry.zeros(); });
  std::ranges::sort(by_slot, {}, &JournalEntry::slot);
  const auto buffer = aligned_blocks(blocks_at_once);
  std::size_t done = 0;
  while (done < by_slot.size()) {
    std::size_t count = 1;
    while (done + count < by_slot.size() && count < blocks_at_once &&
           by_slot[done + count].slot == by_slot[done].slot + count) {
      ++count;
    }
    const SlotRun run = {by_slot[done].slot, static_cast<std::uint32_t>(count)};
    if (const int result = read(buffer.get(), run); result != 0) {
      throw_file_error(-result, name(), "cannot be read");
    }
    for (std::size_t index = 0; index < count; ++index) {
      const std::span block(buffer.get() + index * journal_block_bytes, journal_block_bytes);
      if (journal_checksum(block) != by_slot[done + index].checksum) {
        refuse("the block in " + place_of_slot(by_slot[done + index].slot) + " is not what was committed");
      }
    }
    done += count;
  }
}

int Journal::cut(std::uint32_t end) {
  const std::lock_guard lock(growth_mutex_);
  const std::uint64_t bytes = offset_of(journal_header_blocks + end);
  return file_->size_bytes() > bytes ? file_->resize(bytes) : 0;
}

}  // namespace tiermap
