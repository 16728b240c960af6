// A heap is made, closed, opened again, and refused where it cannot be opened; blocks of it.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "heap/heap_fixture.hpp"
#include "heap/heap_layout.hpp"
#include "heap/saved_heap.hpp"

namespace tiermap {
namespace {

struct Setting {
  HeapBacking backing;
  bool checkpoints;
};

class HeapKinds : public HeapTest, public testing::WithParamInterface<Setting> {
 protected:
  static HeapOptions options() {
    HeapOptions chosen = small();
    chosen.backing = GetParam().backing;
    chosen.checkpoints = GetParam().checkpoints;
    return chosen;
  }
};

TEST_P(HeapKinds, what_was_stored_is_there_again) {
  {
    Heap heap = Heap::create(path_, options());
    auto* const numbers = heap.construct<std::uint64_t>("numbers")[4096](7U);
    numbers[4095] = 8;
    heap.close();
    heap.close();
    EXPECT_THROW(heap.checkpoint(), OptionError);
    EXPECT_THROW(heap.find<int>("numbers"), OptionError);
  }
  EXPECT_TRUE(Heap::consistent(path_));
  {
    Heap heap = Heap::open_or_create(path_, options());
    const auto numbers = heap.find_all<std::uint64_t>("numbers");
    ASSERT_EQ(numbers.size(), 4096U);
    EXPECT_EQ(numbers.front(), 7U);
    EXPECT_EQ(numbers.back(), 8U);
    EXPECT_TRUE(heap.destroy<std::uint64_t>("numbers"));
    EXPECT_FALSE(heap.destroy<std::uint64_t>("numbers"));
    EXPECT_EQ(heap.statistics().live_blocks, 0U);
  }
  const Heap heap = Heap::open_read_only(path_, options());
  EXPECT_EQ(heap.find<std::uint64_t>("numbers"), nullptr);
}

TEST_P(HeapKinds, may_lie_at_any_path) {
  for (const std::string& name : {std::string(200, 'p'), std::string("new\nline"), std::string("blank \x7f")}) {
    const std::string path = directory_ / name;
    Heap::create(path, options()).construct<int>("number")(5);
    EXPECT_EQ(*Heap::open_read_only(path, options()).find<int>("number"), 5);
  }
}

TEST_P(HeapKinds, changes_hands_between_checkpoints_and_none) {
  HeapOptions chosen = options();
  Heap::create(path_, chosen).construct<int>("rounds")(0);
  for (int round = 1; round < 4; ++round) {
    chosen.checkpoints = !chosen.checkpoints;
    Heap heap = Heap::open(path_, chosen);
    EXPECT_EQ(*heap.find<int>("rounds"), round - 1);
    *heap.find<int>("rounds") = round;
  }
}

TEST_P(HeapKinds, snapshot_is_a_heap) {
  Heap heap = Heap::create(path_, options());
  heap.construct<int>("answer")(42);
  heap.snapshot(directory_ / "copy");
  *heap.find<int>("answer") = 43;
  EXPECT_TRUE(Heap::consistent(directory_ / "copy"));
  Heap copy = Heap::open(directory_ / "copy", options());
  EXPECT_EQ(*copy.find<int>("answer"), 42);
  EXPECT_TRUE(says(refusal<StoreError>([&] { heap.snapshot(directory_ / "copy"); }), "there already"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, HeapKinds,
                         testing::Values(Setting{HeapBacking::file, true}, Setting{HeapBacking::file, false},
                                         Setting{HeapBacking::sparse, true}, Setting{HeapBacking::sparse, false}),
                         [](const testing::TestParamInfo<Setting>& information) {
                           return std::string(information.param.backing == HeapBacking::file ? "file" : "sparse") +
                                  (information.param.checkpoints ? "_with_checkpoints" : "_without_checkpoints");
                         });

TEST_F(HeapTest, a_path_may_be_long_and_odd) {
  const std::string path = directory_ / (std::string(120, 'x') + "\t\n name");
  Heap::create(path, small()).construct<int>("answer")(42);
  EXPECT_EQ(*Heap::open(path, small()).find<int>("answer"), 42);
}

TEST_F(HeapTest, one_writer_or_many_readers) {
  {
    Heap heap = Heap::create(path_, small());
    heap.construct<int>("answer")(42);
    heap.checkpoint();
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "in use"));
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open_read_only(path_, small()); }), "by a writer"));
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::remove(path_); }), "in use"));
    EXPECT_EQ(*heap.find<int>("answer"), 42);
  }
  const Heap first = Heap::open_read_only(path_, small());
  Heap second = Heap::open_read_only(path_, small());
  EXPECT_EQ(*first.find<int>("answer"), 42);
  EXPECT_EQ(*second.find<int>("answer"), 42);
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "in use"));
  EXPECT_TRUE(says(refusal<OptionError>([&] { static_cast<void>(second.allocate(1)); }), "only for reading"));
  EXPECT_TRUE(says(refusal<OptionError>([&] { second.construct<int>("other")(1); }), "only for reading"));
  EXPECT_THROW(second.checkpoint(), OptionError);
  const HeapVector<int> outside(second);
  EXPECT_THROW(HeapVector<int>(1, 0, second), OptionError);
}

TEST_F(HeapTest, is_refused_by_name_where_there_is_none) {
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "no such directory"));
  EXPECT_FALSE(Heap::remove(path_));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::create(path_ + "/in/none", small()); }), "cannot be made"));
  std::filesystem::create_directory(path_);
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "not a heap"));
  write_file(path_ + "/something", "else");
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::create(path_, small()); }), "no heap"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::remove(path_); }), "left as it is"));
  EXPECT_EQ(read_file(path_ + "/something"), "else");
  const std::string other = directory_ / "other";
  HeapOptions tiny = small();
  tiny.capacity_bytes = 1000;
  EXPECT_TRUE(says(refusal<OptionError>([&] { Heap::create(other, tiny); }), "too small"));
  HeapOptions odd = small();
  odd.page_size_bytes = 5000;
  EXPECT_THROW(Heap::create(other, odd), OptionError);
  EXPECT_FALSE(std::filesystem::exists(other));
  Heap::create(other, small());
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::create(other, small()); }), "exists already"));
  EXPECT_TRUE(Heap::remove(other));
  EXPECT_FALSE(std::filesystem::exists(other));
}

TEST_F(HeapTest, a_sparse_one_without_its_metadata_is_refused_and_can_be_removed) {
  HeapOptions options = small();
  options.backing = HeapBacking::sparse;
  Heap::create(path_, options).close();
  std::filesystem::remove(path_ + "/data/metadata");
  const std::string expected = "heap " + path_ + " was made only in part";
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, options); }), expected));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open_read_only(path_, options); }), expected));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open_or_create(path_, options); }), expected));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::consistent(path_); }), expected));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::check(path_); }), expected));
  EXPECT_TRUE(Heap::remove(path_));
}

TEST_F(HeapTest, damage_and_other_layouts_are_refused_by_name) {
  Heap::create(path_, small()).construct<int>("answer")(42);
  const std::string data = path_ + "/data";
  const auto with_byte = [&](std::streamoff at, char value, const auto& check) {
    std::fstream file(data, std::ios::in | std::ios::out | std::ios::binary);
    char before = 0;
    file.seekg(at).get(before);
    file.seekp(at).put(value).flush();
    check(refusal<StoreError>([&] { Heap::open(path_, small()); }));
    check(refusal<StoreError>([&] { Heap::open_read_only(path_, small()); }));
    file.seekp(at).put(before).flush();
  };
  const auto expect = [](const char* part) {
    return [part](const std::string& text) { EXPECT_TRUE(says(text, part)); };
  };
  with_byte(0, 'X', expect("does not begin as a heap's"));
  with_byte(12, 9, expect("layout version 9"));
  with_byte(16, 4, expect("pointers have 4 bytes"));
  with_byte(33, 1, expect("superblock, at byte 0"));
  with_byte(4096 + 16, 99, expect("state block, at byte 4096"));
  with_byte(8192 + 16, 99, expect("/heap is damaged: the "));
  with_byte(static_cast<std::streamoff>(HeapLayout(64 << 20).names_offset), 99, expect("its names, at byte"));
  {
    std::fstream file(data, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8).write("\x01\x02\x03\x04", 4).flush();
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "other endianness"));
    file.seekp(8).write("\x04\x03\x02\x01", 4).flush();
  }
  EXPECT_EQ(*Heap::open(path_, small()).find<int>("answer"), 42);
  std::filesystem::resize_file(data, 100'000);
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "truncated"));
  std::filesystem::resize_file(data, 100);
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "heap " + path_));
}

TEST_F(HeapTest, wrong_frees_are_errors) {
  Heap heap = Heap::create(path_, small());
  Heap other = Heap::create(directory_ / "other", small());
  auto* const block = static_cast<std::byte*>(heap.allocate(100));
  heap.deallocate(nullptr);
  EXPECT_TRUE(says(refusal<OptionError>([&] { heap.deallocate(block + 16); }), "inside the block"));
  int local = 0;
  EXPECT_TRUE(says(refusal<OptionError>([&] { heap.deallocate(&local); }), "not of this heap"));
  EXPECT_TRUE(says(refusal<OptionError>([&] { other.deallocate(block); }), "not of this heap"));
  heap.deallocate(block);
  EXPECT_TRUE(says(refusal<OptionError>([&] { heap.deallocate(block); }), "freed before"));
  for (const std::size_t alignment : {0U, 3U, 8192U}) {
    EXPECT_TRUE(says(refusal<OptionError>([&] { static_cast<void>(heap.allocate(1, alignment)); }), "heap " + path_));
  }
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(heap.allocate_aligned(alignment + 1, alignment)) % alignment, 0U);
  }
}

TEST_F(HeapTest, a_full_heap_says_so_and_goes_on) {
  Heap heap = Heap::create(path_, small());
  EXPECT_TRUE(says(refusal<std::bad_alloc>([&] { static_cast<void>(heap.allocate(65 << 20)); }), "no room"));
  std::vector<void*> blocks;
  EXPECT_THROW(
      for (;;) {
        blocks.push_back(heap.allocate(1 << 20));
        std::memset(blocks.back(), 1, 4096);
      },
      HeapFullError);
  EXPECT_GT(blocks.size(), 50U);
  heap.checkpoint();
  // Every other one: much is free, and none of it is long.
  for (std::size_t index = 0; index < blocks.size(); index += 2) {
    heap.deallocate(blocks[index]);
    blocks[index] = nullptr;
  }
  EXPECT_GT(heap.statistics().free_bytes, 25U << 20);
  EXPECT_LT(heap.statistics().largest_free_bytes, 3U << 20);
  EXPECT_GT(heap.statistics().fragmentation(), 0.9);
  EXPECT_THROW(heap.construct<HeapVector<char>>("large")(std::size_t{20 << 20}), std::bad_alloc);
  EXPECT_EQ(heap.find<HeapVector<char>>("large"), nullptr);
  for (void* const block : blocks) {
    heap.deallocate(block);
  }
  EXPECT_EQ(heap.statistics().fragmentation(), 0);
  EXPECT_NO_THROW(heap.construct<HeapVector<char>>("large")(std::size_t{20 << 20}));
}

TEST_F(HeapTest, unclean_without_checkpoints_is_refused) {
  HeapOptions direct = small();
  direct.checkpoints = false;
  Heap::create(path_, direct);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Heap heap = Heap::open(path_, direct);
    heap.construct<int>("answer")(42);
    heap.checkpoint();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_FALSE(Heap::consistent(path_));
  for (const bool checkpoints : {false, true}) {
    HeapOptions options = small();
    options.checkpoints = checkpoints;
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, options); }), "was not closed"));
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open_read_only(path_, options); }), "was not closed"));
  }
  EXPECT_TRUE(Heap::remove(path_));
}

TEST_F(HeapTest, removing_leaves_what_is_not_of_the_heap) {
  Heap::create(path_, small()).close();
  const std::string link = directory_ / "link";
  std::filesystem::create_directory_symlink(path_, link);
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::remove(link); }), "symbolic link"));
  std::filesystem::create_directory(path_ + "/mine");
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::remove(path_); }), "mine"));
  EXPECT_TRUE(Heap::consistent(path_));
  std::filesystem::remove(path_ + "/mine");
  EXPECT_TRUE(Heap::remove(path_));
}

TEST_F(HeapTest, removing_looks_at_more_than_names) {
  std::filesystem::create_directories(path_ + "/data/2025");
  std::ofstream(path_ + "/data/2025/a.csv") << "1,2\n";
  std::ofstream(path_ + "/journal") << "Dear diary\n";
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::remove(path_); }), "journal"));
  std::filesystem::resize_file(path_ + "/journal", 0);
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::remove(path_); }), "data"));
  std::filesystem::remove_all(path_ + "/data");
  std::ofstream(path_ + "/data") << "1,2,3,4,5\n";
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::remove(path_); }), "data"));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/journal"));
}

TEST_F(HeapTest, killed_before_a_checkpoint_it_was_not_closed) {
  Heap::create(path_, small()).construct<int>("answer")(42);
  EXPECT_TRUE(Heap::consistent(path_));
  const pid_t child = ::fork();
  if (child == 0) {
    Heap heap = Heap::open(path_, small());
    *heap.find<int>("answer") = 43;
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(Heap::consistent(path_));
  const HeapCheck check = Heap::check(path_);
  EXPECT_TRUE(check.sound());
  EXPECT_EQ(check.condition, HeapCondition::checkpoint);
  EXPECT_EQ(*Heap::open_read_only(path_, small()).find<int>("answer"), 42);
  EXPECT_FALSE(Heap::consistent(path_)) << "reading does not close it";
  Heap::open(path_, small()).close();
  EXPECT_TRUE(Heap::consistent(path_));
}

TEST_F(HeapTest, closing_frees_it_though_a_child_lives) {
  Heap heap = Heap::create(path_, small());
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
  }
  heap.close();
  EXPECT_NO_THROW(Heap::open(path_, small()));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(HeapTest, a_child_does_not_give_up_its_parents_lock) {
  Heap::create(path_, small()).close();
  auto reader = std::make_unique<SavedHeap>(path_);
  const pid_t child = ::fork();
  if (child == 0) {
    reader.reset();
    ::_exit(0);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "in use"));
}

TEST_F(HeapTest, a_segment_that_was_cut_off_is_noticed) {
  HeapOptions options = small();
  options.backing = HeapBacking::sparse;
  Heap::create(path_, options).construct<int>("answer")(42);
  std::filesystem::resize_file(path_ + "/data/segment-0000000000", 1 << 20);
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, options); }), "truncated"));
  const HeapCheck check = Heap::check(path_);
  ASSERT_FALSE(check.sound());
  EXPECT_TRUE(says(check.findings.front().what, "segment-0000000000"));
  EXPECT_EQ(check.findings.front().byte, 1U << 20);
  EXPECT_EQ(std::filesystem::file_size(path_ + "/data/segment-0000000000"), 1U << 20);
}

TEST_F(HeapTest, what_was_never_touched_is_freed_without_a_trace) {
  HeapOptions options = small();
  options.capacity_bytes = std::uint64_t{1} << 40;
  Heap heap = Heap::create(path_, options);
  void* const block = heap.allocate(std::size_t{100} << 30);
  heap.checkpoint();
  heap.deallocate(block);
  heap.checkpoint();
  EXPECT_LT(heap.statistics().journal_bytes, 1U << 20);
}

TEST_F(HeapTest, what_is_freed_before_a_checkpoint_is_not_written) {
  HeapOptions options = small();
  options.budget_bytes = 32 << 20;
  Heap heap = Heap::create(path_, options);
  constexpr std::size_t bytes = 16 << 20;
  void* const block = heap.allocate(bytes);
  std::memset(block, 1, bytes);
  heap.deallocate(block);
  heap.checkpoint();
  EXPECT_LT(std::filesystem::file_size(path_ + "/journal"), 4U << 20);
}

TEST_F(HeapTest, a_heap_that_was_renamed_is_the_one_that_is_copied) {
  Heap heap = Heap::create(path_, small());
  heap.construct<int>("answer")(42);
  std::filesystem::rename(path_, directory_ / "moved");
  Heap other = Heap::create(path_, small());
  other.construct<int>("answer")(999);
  other.close();
  heap.snapshot(directory_ / "copy");
  EXPECT_EQ(*Heap::open_read_only(directory_ / "copy", small()).find<int>("answer"), 42);
}

TEST_F(HeapTest, many_that_open_or_create_it_at_once_find_one_whole) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> open{0};
    std::atomic<int> opened{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        try {
          Heap heap = Heap::open_or_create(path_, small());
          EXPECT_EQ(++open, 1);
          EXPECT_EQ(*heap.find_or_construct<int>("answer")(42), 42);
          ++opened;
          --open;
          heap.close();
        } catch (const StoreError& error) {
          EXPECT_EQ(error.code().value(), EBUSY) << error.what();
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_GT(opened, 0);
    EXPECT_EQ(*Heap::open(path_, small()).find<int>("answer"), 42);
    Heap::remove(path_);
  }
}

TEST_F(HeapTest, a_forked_child_leaves_it_alone) {
  Heap heap = Heap::create(path_, small());
  heap.construct<int>("answer")(42);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      heap.checkpoint();
      ::_exit(1);
    } catch (const OptionError& error) {
      heap.close();  // Does nothing.
      Heap gone = std::move(heap);
      static_cast<void>(gone);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  heap.checkpoint();
  *heap.find<int>("answer") = 43;
  heap.close();
  EXPECT_EQ(*Heap::open(path_, small()).find<int>("answer"), 43);
}

std::uint64_t bytes_read_by_this_process() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::uint64_t bytes = 0;
  io >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

TEST_F(HeapTest, one_made_to_be_read_at_random_has_small_pages) {
  HeapOptions options = small();
  for (const auto& [advice, bytes] : {std::pair(Advice::normal, 64U << 10), std::pair(Advice::random, 4U << 10)}) {
    options.advice = advice;
    Heap::create(path_, options).close();
    EXPECT_EQ(SavedHeap(path_).page_size_bytes(), bytes);
    Heap::remove(path_);
  }
}

TEST_F(HeapTest, opening_a_large_one_reads_little) {
  HeapOptions large = small();
  large.capacity_bytes = 1ULL << 40;
  {
    Heap heap = Heap::create(path_, large);
    for (int index = 0; index < 10; ++index) {
      static_cast<void>(heap.allocate(1ULL << 30));
    }
    heap.construct<int>("answer")(42);
  }
  const std::uint64_t before = bytes_read_by_this_process();
  Heap heap = Heap::open(path_, large);
  EXPECT_LT(bytes_read_by_this_process() - before, 4U << 20);
  EXPECT_EQ(*heap.find<int>("answer"), 42);
  struct stat status = {};
  ASSERT_EQ(::stat((path_ + "/data").c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 8 << 20);
}

}  // namespace
}  // namespace tiermap
