// Heap::check(): a flipped bit in each part of the metadata is found where it is, in a heap that was closed, killed
// with checkpoints and without; and nothing is written.
#include "heap/damaged_heap.hpp"

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <random>

#include "heap/heap_contents.hpp"
#include "heap/heap_copy.hpp"
#include "heap/heap_layout.hpp"
#include "heap/journal.hpp"
#include "heap/metadata_records.hpp"
#include "heap/saved_heap.hpp"

namespace tiermap {
namespace {

class HeapCheckTest : public FilledHeapTest {
 protected:
  static constexpr std::uint64_t capacity = 64 << 20;
  static constexpr std::uint64_t slabs = capacity >> slab_shift;

  HeapCheckTest() {
    const char* const given = std::getenv("TIERMAP_TEST_SEED");
    seed_ = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    random_.seed(seed_);
  }

  /// Those of the journal that hold a block of the last commit.
  std::vector<std::uint32_t> slots_of_index() const {
    const HeapFiles files = open_heap_files(path_, false);
    const HeapSuperblock superblock = read_superblock(*files.data, path_);
    const Journal journal(files.journal, superblock.identity, files.data->size_bytes(), false);
    std::vector<std::uint32_t> index;
    std::vector<std::uint32_t> slots;
    for (const JournalEntry& entry : journal.load_index(index)) {
      if (!entry.zeros()) {
        slots.push_back(entry.slot);
      }
    }
    return slots;
  }

  /// One flipped bit in [begin, end) of the file: check() finds something there, and nothing once it is back.
  void expect_found(const std::string& file, std::uint64_t begin, std::uint64_t end, std::uint64_t named) {
    const std::uint64_t byte = begin + random_() % (end - begin);
    const auto bit = static_cast<unsigned char>(1U << random_() % 8);
    SCOPED_TRACE(file + ", byte " + std::to_string(byte) + ", bits " + std::to_string(bit) +
                 ", TIERMAP_TEST_SEED=" + std::to_string(seed_));
    const FlippedByte flipped(path_ + "/" + file, byte, bit);
    const HeapCheck check = Heap::check(path_);
    EXPECT_FALSE(check.sound());
    const bool there = std::ranges::any_of(
        check.findings, [&](const HeapFinding& finding) { return finding.file == file && finding.byte == named; });
    EXPECT_TRUE(there) << "found elsewhere: byte " << (check.findings.empty() ? 0 : check.findings.front().byte)
                       << ", not " << named;
    for (const HeapFinding& finding : check.findings) {
      EXPECT_FALSE(finding.what.empty() || finding.meaning.empty());
    }
  }

  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
};

/// Where the bitmap of the first span that has one is, and how long it is.
std::pair<std::uint64_t, std::uint64_t> first_bitmap(const std::string& data, std::uint64_t slabs) {
  const int file = ::open(data.c_str(), O_RDONLY | O_CLOEXEC);
  std::array<std::byte, slab_record_bytes> bytes;
  EXPECT_EQ(
      ::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(HeapLayout::metadata_offset + slab_record_place(0))),
      static_cast<ssize_t>(bytes.size()));
  ::close(file);
  SavedSlabs entries;
  decode_slab_record(0, bytes, entries);
  for (std::uint64_t slab = 0; slab < slabs_per_record; ++slab) {
    if (entries[slab].content == SlabContent::span && !has_inline_bits(size_classes[entries[slab].size_class])) {
      return {HeapLayout::metadata_offset + metadata_bitmap_place(slabs, slab),
              bitmap_bytes(size_classes[entries[slab].size_class])};
    }
  }
  ADD_FAILURE() << "there is no bitmap";
  return {};
}

TEST_F(HeapCheckTest, a_closed_heap_is_sound_and_its_objects_are_intact) {
  for (const HeapBacking backing : {HeapBacking::file, HeapBacking::sparse}) {
    make_closed(backing);
    const HeapCheck check = Heap::check(path_);
    EXPECT_TRUE(check.sound()) << check.findings.front().what;
    EXPECT_EQ(check.condition, HeapCondition::closed);
    EXPECT_EQ(check.intact.size(), FilledHeap::named);
    EXPECT_TRUE(check.doubtful.empty());
    EXPECT_EQ(check.journal_bytes_to_apply, 0U);
    const HeapStatistics statistics = Heap::open_read_only(path_, small()).statistics();
    EXPECT_EQ(check.live_blocks, statistics.live_blocks);
    EXPECT_EQ(check.live_bytes, statistics.live_bytes);
    Heap::remove(path_);
  }
}

TEST_F(HeapCheckTest, an_empty_heap_is_sound) {
  Heap::create(path_, small()).close();
  const HeapCheck check = Heap::check(path_);
  EXPECT_TRUE(check.sound());
  EXPECT_EQ(check.live_blocks, 0U);
}

TEST_F(HeapCheckTest, a_flipped_bit_is_found_in_each_part) {
  make_closed();
  const HeapLayout layout(capacity);
  const auto [bitmap, bitmap_length] = first_bitmap(path_ + "/data", slabs);
  constexpr std::uint64_t metadata = HeapLayout::metadata_offset;
  for (int round = 0; round < 20; ++round) {
    expect_found("data", 0, 4096, 0);
    expect_found("data", 4096, 8192, 4096);
    expect_found("data", metadata, metadata + metadata_header_bytes, metadata);
    expect_found("data", metadata + slab_record_place(0), metadata + slab_record_place(1),
                 metadata + slab_record_place(0));
    expect_found("data", bitmap, bitmap + bitmap_length, bitmap);
    expect_found("data", layout.names_offset, layout.names_offset + 300, layout.names_offset);
    expect_found("journal", 0, 64, 0);
    expect_found("journal", 4096, 4096 + 72, 4096);
    expect_found("journal", 8192, 8192 + 72, 8192);
  }
  EXPECT_TRUE(Heap::check(path_).sound()) << "all bits are as they were";
  EXPECT_TRUE(FilledHeap::whole(Heap::open(path_, small())));
}

TEST_F(HeapCheckTest, a_journal_to_be_finished_is_told_and_verified) {
  make_killed();
  const HeapCheck check = Heap::check(path_);
  EXPECT_TRUE(check.sound());
  EXPECT_EQ(check.condition, HeapCondition::checkpoint);
  EXPECT_GT(check.journal_bytes_to_apply, 1U << 20);
  EXPECT_EQ(check.intact.size(), FilledHeap::named);
  const std::vector<std::uint32_t> slots = slots_of_index();
  ASSERT_FALSE(slots.empty());
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t slot = (journal_header_blocks + slots[random_() % slots.size()]) * journal_block_bytes;
    expect_found("journal", slot, slot + journal_block_bytes, slot);
  }
  EXPECT_TRUE(Heap::check(path_).sound());
  EXPECT_TRUE(FilledHeap::whole(Heap::open(path_, small())));
}

TEST_F(HeapCheckTest, a_heap_killed_without_checkpoints_says_what_can_be_saved) {
  make_killed(false);
  const HeapCheck check = Heap::check(path_);
  ASSERT_EQ(check.findings.size(), 1U);
  EXPECT_EQ(check.condition, HeapCondition::unsaved);
  EXPECT_EQ(check.findings.front().byte, HeapLayout::state_offset);
  EXPECT_EQ(check.intact.size(), FilledHeap::named);
  EXPECT_TRUE(check.doubtful.empty());
  refusal<StoreError>([&] { Heap::open(path_, small()); });
}

TEST_F(HeapCheckTest, truncated_data_is_found_where_it_ends) {
  make_closed();
  const HeapLayout layout(capacity);
  for (const std::uint64_t end : {layout.end - 1, layout.data_offset + 70'000, layout.names_offset + 10,
                                  HeapLayout::metadata_offset + 5000, std::uint64_t{4097}}) {
    ASSERT_EQ(::truncate((path_ + "/data").c_str(), static_cast<off_t>(end)), 0);
    const HeapCheck check = Heap::check(path_);
    ASSERT_FALSE(check.sound());
    EXPECT_EQ(check.findings.front().file, "data");
    EXPECT_EQ(check.findings.front().byte, end);
  }
  ASSERT_EQ(::truncate((path_ + "/data").c_str(), 0), 0);
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::check(path_); }), "does not begin as a heap's does"));
}

TEST_F(HeapCheckTest, data_that_grew_is_no_mixture_where_all_was_applied) {
  make_closed();
  const auto end = static_cast<off_t>(HeapLayout(capacity).end);
  ASSERT_EQ(::truncate((path_ + "/data").c_str(), end + 1), 0);
  const HeapCheck check = Heap::check(path_);
  ASSERT_EQ(check.findings.size(), 1U);
  EXPECT_TRUE(says(check.findings.front().what, "bytes"));
  EXPECT_FALSE(says(check.findings.front().meaning, "mixture"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "bytes"));
  ASSERT_EQ(::truncate((path_ + "/data").c_str(), end), 0);
  EXPECT_TRUE(FilledHeap::whole(Heap::open(path_, small())));
}

TEST_F(HeapCheckTest, a_truncated_journal_is_found_if_it_is_needed) {
  make_killed();
  ASSERT_EQ(::truncate((path_ + "/journal").c_str(), 20'000), 0);
  const HeapCheck check = Heap::check(path_);
  ASSERT_FALSE(check.sound());
  EXPECT_EQ(check.findings.front().file, "journal");
}

/// Of a commit that was being applied the data may have any part.
TEST_F(HeapCheckTest, a_journal_that_was_emptied_is_missed_by_everybody) {
  make_killed();
  ASSERT_EQ(::truncate((path_ + "/journal").c_str(), 0), 0);
  for (const bool checkpoints : {true, false}) {
    HeapOptions options = small();
    options.checkpoints = checkpoints;
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, options); }), "journal is empty"));
  }
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open_read_only(path_, small()); }), "journal is empty"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::consistent(path_); }), "journal is empty"));
  const HeapCheck check = Heap::check(path_);
  ASSERT_EQ(check.findings.size(), 1U);
  EXPECT_EQ(check.findings.front().file, "journal");
  salvage_heap(path_, copy_);
  EXPECT_NO_THROW(Heap::open(copy_, small()));
}

TEST_F(HeapCheckTest, a_journal_that_was_filled_with_zeros_is_missed_by_everybody) {
  for (const bool killed : {true, false}) {
    killed ? make_killed() : make_closed();
    const auto bytes = std::filesystem::file_size(path_ + "/journal");
    for (const auto end : {bytes, std::uintmax_t{5000}, std::uintmax_t{12288}}) {
      write_file(path_ + "/journal", std::string(end, '\0'));
      for (const auto& call : std::initializer_list<std::function<void()>>{
               [&] { Heap::open(path_, small()); }, [&] { Heap::open_or_create(path_, small()); },
               [&] { Heap::open_read_only(path_, small()); }, [&] { static_cast<void>(Heap::consistent(path_)); },
               [&] { static_cast<void>(SavedHeap(path_)); }}) {
        EXPECT_TRUE(says(refusal<StoreError>(call), "its journal is zeros where its header"));
      }
      const HeapCheck check = Heap::check(path_);
      ASSERT_EQ(check.findings.size(), 1U);
      EXPECT_EQ(check.findings.front().file, "journal");
      EXPECT_EQ(check.findings.front().byte, 0U);
      EXPECT_TRUE(says(check.findings.front().what, "zeros"));
    }
    salvage_heap(path_, copy_);
    EXPECT_NO_THROW(Heap::open(copy_, small()));
    Heap::remove(path_);
    Heap::remove(copy_);
  }
}

/// A process that was killed, or a power failure, while it gave a heap that had none its journal.
TEST_F(HeapCheckTest, a_journal_that_was_never_finished_is_none) {
  HeapOptions directly = small();
  directly.checkpoints = false;
  Heap::create(path_, directly).construct<int>("answer")(42);
  for (const std::size_t bytes : {4096U, 12288U}) {
    write_file(path_ + "/journal", std::string(bytes, '\0'));
    EXPECT_TRUE(Heap::consistent(path_));
    EXPECT_TRUE(Heap::check(path_).sound());
    EXPECT_EQ(*Heap::open_read_only(path_, small()).find<int>("answer"), 42);
  }
  // Slots come after the header.
  write_file(path_ + "/journal", std::string(20'480, '\0'));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "header (bytes 0 to 63) is gone"));
  EXPECT_FALSE(Heap::check(path_).sound());
  write_file(path_ + "/journal", std::string(12'288, '\0'));
  EXPECT_EQ(*Heap::open(path_, small()).find<int>("answer"), 42);
}

/// A kill while it was closed may have left a state block that says so, and blocks that are not there yet.
TEST_F(HeapCheckTest, the_journal_of_a_closed_heap_is_missed_too) {
  make_closed();
  ASSERT_EQ(::truncate((path_ + "/journal").c_str(), 0), 0);
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "journal is empty"));
  EXPECT_FALSE(Heap::check(path_).sound());
  salvage_heap(path_, copy_);
  EXPECT_TRUE(FilledHeap::whole(Heap::open(copy_, small())));
}

TEST_F(HeapCheckTest, a_heap_that_gets_a_journal_needs_it_from_then_on) {
  HeapOptions directly = small();
  directly.checkpoints = false;
  Heap::create(path_, directly).construct<int>("answer")(42);
  EXPECT_EQ(std::filesystem::file_size(path_ + "/journal"), 0U);
  EXPECT_EQ(*Heap::open(path_, directly).find<int>("answer"), 42);
  Heap::open(path_, small()).snapshot(copy_);
  EXPECT_EQ(std::filesystem::file_size(copy_ + "/journal"), 0U);
  EXPECT_EQ(*Heap::open_read_only(copy_, small()).find<int>("answer"), 42);
  in_killed_process([&] { new Heap(Heap::open(copy_, small())); });
  for (const std::string& heap : {path_, copy_}) {
    ASSERT_EQ(::truncate((heap + "/journal").c_str(), 0), 0);
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(heap, directly); }), "journal is empty"));
  }
}

TEST_F(HeapCheckTest, what_is_damaged_is_said_of_the_heap_by_whoever_reads_it) {
  make_closed();
  const FlippedByte record(path_ + "/data", HeapLayout::metadata_offset + slab_record_place(0) + 20, 1);
  EXPECT_TRUE(says(refusal<StoreError>([&] { SavedHeap(path_).space(); }), "heap " + path_));
  EXPECT_TRUE(says(refusal<StoreError>([&] { HeapContents contents(path_); }), "heap " + path_));
}

TEST_F(HeapCheckTest, the_journal_of_another_heap_is_found) {
  make_closed();
  const std::string other = directory_ / "other";
  Heap::create(other, small()).close();
  ASSERT_EQ(::rename((other + "/journal").c_str(), (path_ + "/journal").c_str()), 0);
  const HeapCheck check = Heap::check(path_);
  ASSERT_EQ(check.findings.size(), 1U);
  EXPECT_EQ(check.findings.front().file, "journal");
  EXPECT_TRUE(says(check.findings.front().what, "another heap"));
}

TEST_F(HeapCheckTest, nothing_is_written) {
  for (const auto& make : std::initializer_list<std::function<void()>>{[&] { make_closed(); }, [&] { make_killed(); },
                                                                       [&] { make_killed(false); }}) {
    make();
    std::vector<struct stat> before(2);
    std::vector<struct stat> after(2);
    const auto look = [&](std::vector<struct stat>& found) {
      ASSERT_EQ(::stat((path_ + "/data").c_str(), &found[0]), 0);
      ASSERT_EQ(::stat((path_ + "/journal").c_str(), &found[1]), 0);
    };
    look(before);
    Heap::check(path_);
    look(after);
    for (std::size_t file = 0; file < 2; ++file) {
      EXPECT_EQ(before[file].st_mtim.tv_sec, after[file].st_mtim.tv_sec);
      EXPECT_EQ(before[file].st_mtim.tv_nsec, after[file].st_mtim.tv_nsec);
      EXPECT_EQ(before[file].st_ctim.tv_nsec, after[file].st_ctim.tv_nsec);
    }
    Heap::remove(path_);
  }
}

TEST_F(HeapCheckTest, an_open_heap_is_refused_for_writing_and_taken_for_reading) {
  make_closed();
  {
    const Heap heap = Heap::open(path_, small());
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::check(path_); }), "in use"));
  }
  const Heap reader = Heap::open_read_only(path_, small());
  EXPECT_TRUE(Heap::check(path_).sound());
}

TEST_F(HeapCheckTest, other_layouts_and_what_is_no_heap_are_refused) {
  make_closed();
  {
    const FlippedByte wrong_order_first(path_ + "/data", 8, 1 ^ 4);
    const FlippedByte wrong_order_second(path_ + "/data", 9, 0x2 ^ 0x3);
    const FlippedByte wrong_order_third(path_ + "/data", 10, 0x2 ^ 0x3);
    const FlippedByte wrong_order_last(path_ + "/data", 11, 1 ^ 4);
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::check(path_); }), "endianness"));
  }
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::check(directory_ / "none"); }), "missing"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::check(directory_.path()); }), "not a heap"));
}

TEST_F(HeapCheckTest, progress_reaches_its_end) {
  make_closed();
  std::uint64_t last = 0;
  std::uint64_t total = 1;
  Heap::check(path_, [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  });
  EXPECT_EQ(last, total);
}

}  // namespace
}  // namespace tiermap
