#include "heap/block_transfer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "heap/base_writer.hpp"
#include "heap/store_bytes.hpp"

namespace tiermap {
namespace {

constexpr std::size_t batch_blocks = 1024;

struct FreeBatch {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};

/// A part of the entries in memory, one behind the other.
class Batch {
 public:
  Batch()
      : memory_(static_cast<std::byte*>(std::aligned_alloc(journal_block_bytes, batch_blocks * journal_block_bytes))) {
    if (memory_ == nullptr) {
      throw std::bad_alloc();
    }
  }

  int fill(const Journal& journal, std::span<const JournalEntry> entries) {
    for (std::size_t index = 0; index < entries.size();) {
      std::size_t count = 1;
      while (index + count < entries.size() && entries[index + count].slot == entries[index].slot + count) {
        ++count;
      }
      const SlotRun run = {entries[index].slot, static_cast<std::uint32_t>(count)};
      if (const int result = journal.read(block(index), run); result != 0) {
        return result;
      }
      index += count;
    }
    for (std::size_t index = 0; index < entries.size(); ++index) {
      if (journal_checksum({block(index), journal_block_bytes}) != entries[index].checksum) {
        return -EIO;
      }
    }
    return 0;
  }

  int empty(std::span<const JournalEntry> entries, BaseWriter& base, std::uint64_t size) const {
    for (std::size_t index = 0; index < entries.size();) {
      std::size_t count = 1;
      while (index + count < entries.size() && entries[index + count].block == entries[index].block + count) {
        ++count;
      }
      const std::uint64_t offset = entries[index].block * journal_block_bytes;
      const std::uint64_t bytes = std::min(count * journal_block_bytes, size - std::min(size, offset));
      base.write(block(index), static_cast<std::size_t>(bytes), offset);
      index += count;
    }
    return base.finish();
  }

 private:
  std::byte* block(std::size_t index) const noexcept { return memory_.get() + index * journal_block_bytes; }
  std::unique_ptr<std::byte, FreeBatch> memory_;
};

/// A store that is longer than it will be has zeros to lose up to its end.
int clear_in_base(std::span<const JournalEntry> entries, Store& base) {
  const std::uint64_t end = base.size_bytes();
  for (const JournalEntry& entry : entries) {
    const std::uint64_t offset = entry.block * journal_block_bytes;
    if (!entry.zeros() || offset >= end) {
      continue;
    }
    const std::uint64_t bytes = std::min<std::uint64_t>(entry.count * journal_block_bytes, end - offset);
    if (const int result = clear_bytes(base, offset, bytes); result != 0) {
      return result;
    }
  }
  return 0;
}

}  // namespace

int copy_to_base(const Journal& journal, std::span<const JournalEntry> entries, Store& base, std::uint64_t size) {
  if (const int result = clear_in_base(entries, base); result != 0) {
    return result;
  }
  Batch batch;
  BaseWriter writer(base);
  std::vector<JournalEntry> part;
  part.reserve(batch_blocks);
  for (std::size_t index = 0; index < entries.size(); ++index) {
    if (!entries[index].zeros()) {
      part.push_back(entries[index]);
    }
    if (part.size() == batch_blocks || (index + 1 == entries.size() && !part.empty())) {
      int result = batch.fill(journal, part);
      result = result == 0 ? batch.empty(part, writer, size) : result;
      if (result != 0) {
        return result;
      }
      part.clear();
    }
  }
  return 0;
}

}  // namespace tiermap
