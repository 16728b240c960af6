// A heap that could not be closed, and went on, was not closed: whatever of that is on the disk when the process is
// killed, or power fails.
#include <fstream>

#include "checkpoint/disk_in_memory.hpp"
#include "heap/damaged_heap.hpp"
#include "heap/guarded_store.hpp"
#include "heap/heap_fixture.hpp"
#include "heap/heap_implementation.hpp"

namespace tiermap {
namespace {

struct OnFailingStores;  // No type that a heap holds.

}  // namespace

/// Heap lets this class see its constructor: here it makes a heap of stores in place of files.
template <>
class HeapObjectMaker<OnFailingStores> {
 public:
  static std::unique_ptr<Heap> open(const HeapOptions& options, HeapFiles files) {
    return std::unique_ptr<Heap>(
        new Heap(std::make_unique<HeapImplementation>("in memory", options, true, std::move(files))));
  }
};

namespace {

using Kind = DiskChange::Kind;

/// Of close() without checkpoints: after the region's, and the one of all that the state speaks for.
constexpr int last_flush = 2;

class HeapFailedClose : public HeapTest {
 protected:
  static HeapOptions options(bool checkpoints) {
    HeapOptions options = small();
    options.capacity_bytes = 4 << 20;
    options.checkpoints = checkpoints;
    return options;
  }

  std::unique_ptr<Heap> open(bool checkpoints) {
    {
      Heap made = Heap::create(path_, options(checkpoints));
      made.construct<int>("answer")(1);
    }
    const auto bytes_of = [](const std::string& path) {
      const std::string content = read_file(path);
      return Bytes(content.begin(), content.end());
    };
    data_ = std::make_shared<FileOnDisk>("data", bytes_of(path_ + "/data"), log_, 0);
    journal_ = std::make_shared<FileOnDisk>("journal", bytes_of(path_ + "/journal"), log_, 1);
    return HeapObjectMaker<OnFailingStores>::open(options(checkpoints), {journal_, data_});
  }

  /// Makes path_ what a kill would leave now.
  void kill() {
    const auto put = [](const std::string& path, const Bytes& content) {
      std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    };
    put(path_ + "/data", data_->content());
    put(path_ + "/journal", journal_->content());
  }

  /// From now on these of the data's flushes fail, counted from 0.
  void fail_flushes(int first, int end) {
    data_->refuse = [first, end, count = 0](Kind kind) mutable {
      const int number = kind == Kind::flush ? count++ : -1;
      return number >= first && number < end ? EIO : 0;
    };
  }

  const std::shared_ptr<DiskLog> log_ = std::make_shared<DiskLog>();
  std::shared_ptr<FileOnDisk> data_;
  std::shared_ptr<FileOnDisk> journal_;
};

TEST_F(HeapFailedClose, without_checkpoints_says_so_before_it_goes_on) {
  const auto heap = open(false);
  fail_flushes(last_flush, last_flush + 1);
  EXPECT_TRUE(says(refusal<StoreError>([&] { heap->close(); }), "cannot be saved"));
  const std::size_t failed = log_->size();
  kill();
  EXPECT_FALSE(Heap::consistent(path_));
  *heap->find<int>("answer") = 2;
  heap->checkpoint();
  ASSERT_EQ((*log_)[failed - 2].offset, HeapLayout::state_offset);
  EXPECT_EQ((*log_)[failed - 1].kind, Kind::flush) << "the state that takes it back is durable before anything else";
  kill();
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "was not closed"));
  heap->close();
  kill();
  EXPECT_TRUE(Heap::consistent(path_));
  EXPECT_EQ(*Heap::open_read_only(path_, small()).find<int>("answer"), 2);
}

TEST_F(HeapFailedClose, without_checkpoints_changes_nothing_that_may_count_as_closed) {
  const auto heap = open(false);
  fail_flushes(last_flush, 1000);
  EXPECT_THROW(heap->close(), StoreError);
  const std::size_t failed = log_->size();
  *heap->find<int>("answer") = 2;
  heap->construct<int>("other")(3);
  EXPECT_THROW(heap->checkpoint(), StoreError);
  EXPECT_THROW(heap->close(), StoreError);
  for (std::size_t change = failed; change < log_->size(); ++change) {
    EXPECT_EQ((*log_)[change].kind, Kind::write);
    EXPECT_EQ((*log_)[change].offset, HeapLayout::state_offset) << "until the disk has it that it is open";
  }
  data_->refuse = nullptr;
  heap->close();
  kill();
  EXPECT_TRUE(Heap::consistent(path_));
  EXPECT_EQ(*Heap::open_read_only(path_, small()).find<int>("other"), 3);
}

TEST_F(HeapFailedClose, with_checkpoints_was_not_closed) {
  for (const bool to_the_end : {false, true}) {
    auto heap = open(true);
    *heap->find<int>("answer") = 2;
    fail_flushes(0, 1000);
    EXPECT_THROW(heap->close(), StoreError);
    *heap->find<int>("answer") = 3;
    if (to_the_end) {
      heap.reset();
    }
    kill();
    EXPECT_FALSE(Heap::consistent(path_));
    EXPECT_EQ(Heap::check(path_).condition, HeapCondition::checkpoint);
    data_->refuse = nullptr;
    EXPECT_EQ(*Heap::open(path_, small()).find<int>("answer"), 2);
    EXPECT_TRUE(Heap::consistent(path_));
    heap.reset();
    Heap::remove(path_);
  }
}

TEST_F(HeapFailedClose, with_checkpoints_ended_before_anything_was_committed) {
  auto heap = open(true);
  *heap->find<int>("answer") = 2;
  bool full = true;
  journal_->refuse = [&full](Kind kind) { return full && kind == Kind::resize ? ENOSPC : 0; };
  EXPECT_THROW(heap->close(), StoreError);
  heap.reset();
  full = false;
  kill();
  EXPECT_FALSE(Heap::consistent(path_));
  EXPECT_EQ(*Heap::open_read_only(path_, small()).find<int>("answer"), 1);
}

TEST_F(HeapFailedClose, opening_in_vain_leaves_it_as_it_was) {
  HeapOptions impossible = small();
  impossible.budget_bytes = 1;
  Heap::create(path_, small()).construct<int>("answer")(1);
  EXPECT_THROW(Heap::open(path_, impossible), Error);
  EXPECT_TRUE(Heap::consistent(path_));
  in_killed_process([&] { new Heap(Heap::open(path_, small())); });
  EXPECT_FALSE(Heap::consistent(path_));
  EXPECT_THROW(Heap::open(path_, impossible), Error);
  EXPECT_FALSE(Heap::consistent(path_));
  HeapOptions direct = small();
  direct.checkpoints = false;
  Heap::open(path_, direct).close();
  EXPECT_TRUE(Heap::consistent(path_));
}

TEST(GuardedStore, changes_nothing_until_what_has_to_come_first_is_durable) {
  const auto file = std::make_shared<FileOnDisk>("file", Bytes(8192, 'a'));
  GuardedStore store(file);
  EXPECT_EQ(store.write("b", 1, 0), 1);
  file->refuse = [](Kind kind) { return kind == Kind::flush ? EIO : 0; };
  const std::array<std::byte, 2> first = {std::byte{'x'}, std::byte{'y'}};
  store.require_first(4096, first);
  EXPECT_EQ(store.write("c", 1, 0), -EIO);
  EXPECT_EQ(store.punch(0, 4096), -EIO);
  EXPECT_EQ(store.resize(100), -EIO);
  Extent extent;
  EXPECT_FALSE(store.locate_write(0, 1, extent));
  EXPECT_EQ(file->content()[0], 'b');
  file->refuse = nullptr;
  EXPECT_EQ(store.write("c", 1, 0), 1);
  EXPECT_EQ(file->content()[4096], 'x');
}

}  // namespace
}  // namespace tiermap
