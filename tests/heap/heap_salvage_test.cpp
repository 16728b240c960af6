// Copies of heaps that are not open: of sound ones as they would be opened, of damaged ones with what is intact.
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>

#include "heap/compaction.hpp"
#include "heap/damaged_heap.hpp"
#include "heap/disk_use.hpp"
#include "heap/heap_copy.hpp"
#include "heap/heap_layout.hpp"
#include "heap/metadata_records.hpp"

namespace tiermap {
namespace {

class HeapSalvageTest : public FilledHeapTest {
 protected:
  static constexpr std::uint64_t capacity = 64 << 20;
  static constexpr std::uint64_t metadata = HeapLayout::metadata_offset;
};

TEST_F(HeapSalvageTest, a_copy_is_a_heap_of_its_own) {
  for (const HeapBacking backing : {HeapBacking::file, HeapBacking::sparse}) {
    make_closed(backing);
    copy_heap(path_, copy_);
    EXPECT_TRUE(Heap::consistent(copy_));
    EXPECT_TRUE(Heap::check(copy_).sound());
    EXPECT_LT(bytes_on_disk(copy_), bytes_on_disk(path_) + (1 << 20)) << "holes stay holes";
    Heap heap = Heap::open(copy_, small());
    EXPECT_TRUE(FilledHeap::whole(heap));
    heap.destroy<FilledHeap::Numbers>("numbers");
    heap.close();
    EXPECT_TRUE(FilledHeap::whole(Heap::open(path_, small())));
    Heap::remove(path_);
    Heap::remove(copy_);
  }
}

TEST_F(HeapSalvageTest, a_copy_in_the_making_is_left_alone) {
  make_closed();
  int calls = 0;
  copy_heap(path_, copy_, [&](std::uint64_t, std::uint64_t) {
    if (calls++ > 0) {
      return;
    }
    for (const auto& call : {std::function<void()>([&] { Heap::remove(copy_); }),
                             std::function<void()>([&] { Heap::open(copy_, small()); }),
                             std::function<void()>([&] { Heap::create(copy_, small()); }),
                             std::function<void()>([&] { Heap::open_or_create(copy_, small()); })}) {
      EXPECT_TRUE(says(refusal<StoreError>(call), "in use"));
    }
  });
  EXPECT_GT(calls, 0);
  EXPECT_TRUE(FilledHeap::whole(Heap::open(copy_, small())));
}

TEST_F(HeapSalvageTest, a_copy_has_what_a_crash_left_in_the_journal) {
  make_killed();
  ASSERT_GT(Heap::check(path_).journal_bytes_to_apply, 0U);
  copy_heap(path_, copy_);
  EXPECT_TRUE(Heap::consistent(copy_));
  EXPECT_TRUE(FilledHeap::whole(Heap::open(copy_, small())));
  EXPECT_GT(Heap::check(path_).journal_bytes_to_apply, 0U) << "what is copied stays as it is";
}

TEST_F(HeapSalvageTest, a_copy_can_be_stopped_until_it_is_a_heap) {
  make_killed();
  int calls = 0;
  copy_heap(path_, copy_, [&](std::uint64_t, std::uint64_t) { ++calls; });
  Heap::remove(copy_);
  ASSERT_GT(calls, 1);
  for (int last = 1; last <= calls; ++last) {
    int left = last;
    const auto stop = [&](std::uint64_t, std::uint64_t) {
      if (--left == 0) {
        EXPECT_TRUE(std::filesystem::exists(copy_));
        EXPECT_FALSE(std::filesystem::exists(copy_ + "/data"));
        throw std::runtime_error("enough");
      }
    };
    EXPECT_THROW(copy_heap(path_, copy_, stop), std::runtime_error);
    EXPECT_FALSE(std::filesystem::exists(copy_));
  }
}

/// As if the crash had come before anything of the checkpoint was in the data.
TEST_F(HeapSalvageTest, a_copy_does_not_need_the_data_to_have_any_of_the_journal) {
  {
    Heap heap = Heap::create(path_, small());
    heap.allocate(100);
  }
  std::filesystem::copy(path_ + "/data", directory_ / "before");
  in_killed_process([&] {
    Heap& heap = *new Heap(Heap::open(path_, small()));
    FilledHeap::fill(heap);
    heap.checkpoint();
  });
  std::filesystem::copy(directory_ / "before", path_ + "/data", std::filesystem::copy_options::overwrite_existing);
  ASSERT_TRUE(Heap::check(path_).sound());
  copy_heap(path_, copy_);
  EXPECT_TRUE(FilledHeap::whole(Heap::open(copy_, small())));
}

TEST_F(HeapSalvageTest, a_copy_that_fails_leaves_nothing) {
  make_closed();
  EXPECT_THROW(copy_heap(path_, copy_, [](std::uint64_t, std::uint64_t) { throw std::runtime_error("enough"); }),
               std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(copy_));
  refusal<StoreError>([&] { copy_heap(path_, directory_ / "none/copy"); });
  std::filesystem::create_directory(copy_);
  EXPECT_TRUE(says(refusal<StoreError>([&] { copy_heap(path_, copy_); }), "there already"));
  EXPECT_TRUE(std::filesystem::is_empty(copy_));
  const FlippedByte flipped(path_ + "/data", metadata + 20, 1);
  std::filesystem::remove(copy_);
  EXPECT_TRUE(says(refusal<StoreError>([&] { copy_heap(path_, copy_); }), "--salvage"));
  EXPECT_FALSE(std::filesystem::exists(copy_));
}

/// So that the command can leave it to the kernel to end it until then.
TEST_F(HeapSalvageTest, nothing_is_made_before_it_was_said_that_all_is_verified) {
  make_closed();
  for (const bool salvaging : {false, true}) {
    int verified = 0;
    const auto progress = [&](std::uint64_t, std::uint64_t) { EXPECT_EQ(verified, 1); };
    const auto note = [&] {
      ++verified;
      EXPECT_FALSE(std::filesystem::exists(copy_));
    };
    salvaging ? static_cast<void>(salvage_heap(path_, copy_, progress, note)) : copy_heap(path_, copy_, progress, note);
    EXPECT_EQ(verified, 1);
    Heap::remove(copy_);
  }
  const FlippedByte flipped(path_ + "/data", metadata + 20, 1);
  EXPECT_NE(refusal<StoreError>([&] { copy_heap(path_, copy_, {}, [] { ADD_FAILURE(); }); }), "");
  const auto stop_once_it_is_made = [&](std::uint64_t, std::uint64_t) {
    if (std::filesystem::exists(copy_ + "/data")) {
      throw std::runtime_error("enough");
    }
  };
  EXPECT_THROW(salvage_heap(path_, copy_, stop_once_it_is_made), std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(copy_));
}

TEST_F(HeapSalvageTest, a_heap_killed_without_checkpoints_can_be_opened_again) {
  make_killed(false);
  EXPECT_TRUE(says(refusal<StoreError>([&] { copy_heap(path_, copy_); }), "--salvage"));
  const HeapSalvage salvage = salvage_heap(path_, copy_);
  EXPECT_EQ(salvage.kept.size(), FilledHeap::named);
  EXPECT_EQ(salvage.unknown_bytes + salvage.unsure_blocks, 0U);
  const Heap heap = Heap::open(copy_, small());
  EXPECT_EQ(heap.find<FilledHeap::Texts>("texts")->size(), FilledHeap::texts / 2);
  refusal<StoreError>([&] { Heap::open(path_, small()); });
}

TEST_F(HeapSalvageTest, all_objects_outlive_a_flipped_bit_outside_of_the_names) {
  make_closed();
  const std::uint64_t bitmaps = metadata + metadata_bitmap_place(capacity >> slab_shift, 0);
  const std::uint64_t record = metadata + slab_record_place(0);
  // Superblock, state, header, a slab record, the bitmaps of the first slabs.
  for (const std::uint64_t byte : {std::uint64_t{33}, std::uint64_t{4096 + 20}, metadata + 20, record + 500,
                                   bitmaps + 1024 + 3, bitmaps + 2048 + 3}) {
    SCOPED_TRACE(byte);
    const FlippedByte flipped(path_ + "/data", byte, 4);
    ASSERT_FALSE(Heap::check(path_).sound());
    const HeapSalvage salvage = salvage_heap(path_, copy_);
    EXPECT_TRUE(salvage.lost.empty());
    EXPECT_EQ(salvage.kept.size() + salvage.doubtful.size(), FilledHeap::named);
    EXPECT_EQ(salvage.unknown_bytes != 0, byte == record + 500);
    EXPECT_EQ(salvage.unsure_blocks != 0, byte >= bitmaps);
    Heap heap = Heap::open(copy_, small());
    ASSERT_TRUE(FilledHeap::whole(heap));
    // Nothing that may be in use is handed out.
    for (int block = 0; block < 3000; ++block) {
      std::memset(heap.allocate(static_cast<std::size_t>(block % 300)), 0xff, static_cast<std::size_t>(block % 300));
    }
    std::memset(heap.allocate(2 << 20), 0xff, 2 << 20);
    EXPECT_TRUE(FilledHeap::whole(heap));
    heap.close();
    Heap::remove(copy_);
  }
}

TEST_F(HeapSalvageTest, other_names_outlive_a_damaged_one) {
  make_closed();
  const std::uint64_t names = HeapLayout(capacity).names_offset;
  // The first letter of the first name.
  const FlippedByte flipped(path_ + "/data", names + 48, 1);
  const HeapCheck check = Heap::check(path_);
  EXPECT_TRUE(check.intact.empty()) << "any may be wrong";
  EXPECT_EQ(check.doubtful.size(), FilledHeap::named);
  const HeapSalvage salvage = salvage_heap(path_, copy_);
  EXPECT_EQ(salvage.doubtful.size(), FilledHeap::named);
  const Heap heap = Heap::open(copy_, small());
  EXPECT_NE(heap.find<FilledHeap::Texts>("texts"), nullptr);
  EXPECT_EQ(heap.find<FilledHeap::Numbers>("numbers"), nullptr) << "its name is another now";
}

TEST_F(HeapSalvageTest, random_damage_is_survived_or_refused) {
  const char* const given = std::getenv("TIERMAP_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("TIERMAP_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  make_closed();
  std::filesystem::copy(path_ + "/data", directory_ / "before");
  const HeapLayout layout(capacity);
  const std::uint64_t bitmaps = metadata + metadata_bitmap_place(capacity >> slab_shift, 0);
  int opened = 0;
  for (int round = 0; round < 12; ++round) {
    std::vector<std::unique_ptr<FlippedByte>> damage;
    for (std::uint64_t flips = 1 + random() % 12; flips > 0; --flips) {
      const std::uint64_t part = random() % 4;
      const std::uint64_t byte = part == 0   ? random() % (metadata + 64)
                                 : part == 1 ? metadata + 4096 + random() % 8192
                                 : part == 2 ? bitmaps + random() % (100 << 10)
                                             : layout.names_offset + random() % 400;
      damage.push_back(std::make_unique<FlippedByte>(path_ + "/data", byte, static_cast<unsigned char>(random() | 1)));
    }
    try {
      Heap::check(path_);
      const HeapSalvage salvage = salvage_heap(path_, copy_);
      Heap heap = Heap::open(copy_, small());
      for (const HeapObject& object : heap.objects()) {
        EXPECT_LE(object.offset + object.count * object.size_bytes, capacity);
      }
      try {
        heap.allocate(1000);
      } catch (const HeapFullError&) {
        EXPECT_GT(salvage.unknown_bytes, 0U) << "all that is not known to be free is kept";
      }
      heap.close();
      EXPECT_TRUE(Heap::check(copy_).sound());
      ++opened;
    } catch (const StoreError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
    Heap::remove(copy_);
    while (!damage.empty()) {
      damage.pop_back();
    }
  }
  EXPECT_GT(opened, 0);
  EXPECT_TRUE(Heap::check(path_).sound());
}

TEST_F(HeapSalvageTest, compacting_gives_back_free_pages_and_the_journal) {
  for (const bool killed : {false, true}) {
    killed ? make_killed() : make_closed();
    // A copy without holes, as a tool that knows nothing of them makes it.
    std::vector<char> bytes(HeapLayout(capacity).end);
    const int file = ::open((path_ + "/data").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(::pread(file, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(::pwrite(file, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    ::close(file);
    const HeapCompaction done = compact_heap(path_);
    EXPECT_GE(done.bytes_before, bytes.size());
    EXPECT_EQ(done.bytes_after, bytes_on_disk(path_));
    EXPECT_LT(done.bytes_after, 6U << 20);
    EXPECT_LE(done.journal_bytes_after, 64U << 10);
    EXPECT_TRUE(Heap::check(path_).sound());
    EXPECT_EQ(Heap::check(path_).journal_bytes_to_apply, 0U);
    EXPECT_TRUE(FilledHeap::whole(Heap::open(path_, small())));
    Heap::remove(path_);
  }
}

TEST_F(HeapSalvageTest, what_is_not_sound_or_in_use_is_not_compacted) {
  make_closed();
  {
    const FlippedByte flipped(path_ + "/data", metadata + 20, 1);
    EXPECT_TRUE(says(refusal<StoreError>([&] { compact_heap(path_); }), "not sound"));
  }
  {
    const Heap reader = Heap::open_read_only(path_, small());
    EXPECT_TRUE(says(refusal<StoreError>([&] { compact_heap(path_); }), "in use"));
  }
  EXPECT_TRUE(FilledHeap::whole(Heap::open(path_, small())));
}

}  // namespace
}  // namespace tiermap
