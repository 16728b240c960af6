// Files whose checksums are right, and that say what cannot be: they are refused in one line, and take neither memory
// nor room by what they claim.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "heap/heap_copy.hpp"
#include "heap/heap_fixture.hpp"
#include "heap/heap_layout.hpp"
#include "heap/journal_layout.hpp"
#include "store/file_descriptor.hpp"

namespace tiermap {
namespace {

/// More than is needed, and far less than what is claimed. Sanitizers keep what is freed, and their own account of it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t much_memory = 512 << 20;
#else
constexpr std::uint64_t much_memory = 64 << 20;
#endif

class HeapCrafted : public HeapTest {
 protected:
  HeapCrafted() {
    HeapOptions options = small();
    options.capacity_bytes = capacity_bytes;
    Heap::create(path_, options).construct<int>("answer")(42);
    HeapBlock block;
    at("/data", 0, block, false);
    superblock_ = decode_superblock(block, path_);
    at("/data", HeapLayout::state_offset, block, false);
    state_ = decode_state(block, layout_, path_);
  }

  template <typename Block>
  void at(const char* file, std::uint64_t offset, Block& block, bool write) const {
    const FileDescriptor opened(::open((path_ + file).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const auto position = static_cast<off_t>(offset);
    const ssize_t done = write ? ::pwrite(opened.get(), block.data(), block.size(), position)
                               : ::pread(opened.get(), block.data(), block.size(), position);
    ASSERT_EQ(done, static_cast<ssize_t>(block.size()));
  }

  /// A journal whose last commit is of that size, and makes these blocks zeros.
  void craft_journal(std::uint64_t size_bytes, CommitState state, std::optional<JournalEntry> zeros = std::nullopt) {
    std::filesystem::resize_file(path_ + "/journal", 0);
    JournalBlock block;
    CommitRecord record{superblock_.identity, 5, state, no_slot, 0, 0, size_bytes, 0};
    if (zeros) {
      const std::uint64_t checksum = encode_index_block({superblock_.identity, 5, no_slot}, {&*zeros, 1}, block);
      at("/journal", journal_header_blocks * journal_block_bytes, block, true);
      record.first_index_slot = 0;
      record.index_blocks = 1;
      record.entries = 1;
      record.index_checksum = journal_checksum(std::as_bytes(std::span(&checksum, 1)));
    }
    encode_journal_header(superblock_.identity, block);
    at("/journal", 0, block, true);
    encode_commit_record(record, block);
    at("/journal", journal_block_bytes, block, true);
    at("/journal", 2 * journal_block_bytes, block, true);
  }

  void put_superblock(const HeapSuperblock& superblock) {
    HeapBlock block;
    encode_superblock(superblock, block);
    at("/data", 0, block, true);
  }
  void put_state(const HeapStateBlock& state) {
    HeapBlock block;
    encode_state(state, block);
    at("/data", HeapLayout::state_offset, block, true);
  }

  /// Memory of its own that the process has.
  static std::uint64_t memory_bytes() {
    std::uint64_t all = 0;
    std::uint64_t resident = 0;
    std::uint64_t shared = 0;
    std::ifstream("/proc/self/statm") >> all >> resident >> shared;
    return (resident - std::min(resident, shared)) * 4096;
  }

  void expect_refused(const std::string& part) {
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), part));
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open_read_only(path_, small()); }), part));
  }

  void expect_salvaged() {
    const std::string copy = directory_ / "salvaged";
    ASSERT_NO_THROW(salvage_heap(path_, copy));
    EXPECT_EQ(*Heap::open_read_only(copy, small()).find<int>("answer"), 42);
    Heap::remove(copy);
  }

  static constexpr std::uint64_t capacity_bytes = 256ULL << 30;
  const HeapLayout layout_{capacity_bytes};
  HeapSuperblock superblock_;
  HeapStateBlock state_;
};

TEST_F(HeapCrafted, a_commit_gives_the_data_no_other_size) {
  for (const CommitState state : {CommitState::committed, CommitState::applied}) {
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1 << 20}, layout_.end - 1, layout_.end + 4096,
                                     std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
      SCOPED_TRACE(size);
      craft_journal(size, state);
      expect_refused("speaks of " + std::to_string(size) + " bytes");
      EXPECT_EQ(std::filesystem::file_size(path_ + "/data"), layout_.end);
      const HeapCheck check = Heap::check(path_);
      ASSERT_EQ(check.findings.size(), 1U);
      EXPECT_EQ(check.findings[0].file, "journal");
      EXPECT_EQ(check.findings[0].byte, journal_block_bytes);
    }
  }
  expect_salvaged();
}

TEST_F(HeapCrafted, zeros_take_memory_only_where_there_was_data) {
  const std::uint64_t block = layout_.data_offset / journal_block_bytes;
  craft_journal(layout_.end, CommitState::committed,
                JournalEntry{block, no_slot, static_cast<std::uint32_t>(capacity_bytes / journal_block_bytes), 0});
  const std::uint64_t before = memory_bytes();
  {
    const Heap heap = Heap::open_read_only(path_, small());
    EXPECT_EQ(*heap.find<int>("answer"), 0);
    EXPECT_LT(memory_bytes(), before + much_memory);
  }
  const Heap heap = Heap::open(path_, small());
  EXPECT_EQ(*heap.find<int>("answer"), 0);
  EXPECT_LT(memory_bytes(), before + much_memory);
}

TEST_F(HeapCrafted, names_take_memory_only_where_they_were_written) {
  HeapStateBlock claims = state_;
  claims.names_bytes = layout_.names_capacity_bytes;
  put_state(claims);
  const std::uint64_t before = memory_bytes();
  expect_refused("state block, at byte 4096 of its data, speaks of " + std::to_string(claims.names_bytes));
  const HeapCheck check = Heap::check(path_);
  ASSERT_FALSE(check.sound());
  EXPECT_EQ(check.findings[0].byte, HeapLayout::state_offset);
  EXPECT_EQ(check.doubtful.size() + check.intact.size(), 1U);
  expect_salvaged();
  EXPECT_LT(memory_bytes(), before + much_memory);
}

TEST_F(HeapCrafted, impossible_page_sizes_are_refused) {
  for (const std::uint64_t page : {0ULL, 3ULL, 2048ULL, 12288ULL, 1ULL << 27, 1ULL << 40}) {
    HeapSuperblock claims = superblock_;
    claims.page_size_bytes = page;
    put_superblock(claims);
    expect_refused("speaks of pages of " + std::to_string(page) + " bytes");
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::check(path_); }), "pages of"));
  }
  put_superblock(superblock_);
  EXPECT_TRUE(Heap::check(path_).sound());
}

}  // namespace
}  // namespace tiermap
