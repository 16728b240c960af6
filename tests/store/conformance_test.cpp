// Every store holds what was written to it and nothing else: random reads and writes beside a plain array, by extents
// and by calls, aligned and not, from one thread and from many, with an end that is no multiple of anything.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#ifdef TIERMAP_HAS_S3
#include "s3/strict_server.hpp"
#endif
// UCX is not compiled with ThreadSanitizer, which then sees nothing of what orders its threads.
#if defined(TIERMAP_HAS_UCX) && !defined(__SANITIZE_THREAD__)
#define TIERMAP_TEST_REMOTE
#endif
#ifdef TIERMAP_TEST_REMOTE
#include "cluster/served_stores.hpp"
#endif
#include "store/callback_store.hpp"
#include "store/concat_store.hpp"
#include "store/faulty_store.hpp"
#include "store/file_store.hpp"
#include "store/memory_store.hpp"
#include "store/overlay_store.hpp"
#include "store/reference_check.hpp"
#include "store/sparse_store.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/tiers.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t store_bytes = 3'000'001;  // Ends in the middle of a block.

struct Kind {
  const char* name;
  std::function<std::shared_ptr<Store>(const TemporaryDirectory&)> make;
  const char* parent = ".";
};

void PrintTo(const Kind& kind, std::ostream* stream) {
  *stream << kind.name;
}

std::shared_ptr<Store> make_file(const TemporaryDirectory& directory, bool direct) {
  FileOptions options;
  options.direct = direct;
  return FileStore::open(directory / "file", OpenMode::create, store_bytes, options);
}

std::shared_ptr<Store> make_sparse(const TemporaryDirectory& directory, std::uint64_t segment, bool direct) {
  SparseOptions options;
  options.segment_bytes = segment;
  options.file.direct = direct;
  return SparseStore::open(directory / "sparse", OpenMode::create, store_bytes, options);
}

/// Cuts at places that are aligned and at places that are not, one part in the middle of its file.
std::shared_ptr<Store> make_concat(const TemporaryDirectory& directory) {
  FileStore::open(directory / "a", OpenMode::create, 1'048'576, {});
  FileStore::open(directory / "b", OpenMode::create, 777'777, {});
  FileStore::open(directory / "c", OpenMode::create, 5'000'000, {});
  std::vector<ConcatStore::Part> parts = {
      {directory / "a", 0, false, 0},
      {directory / "b", 0, false, 0},
      {directory / "c", 8192, true, 1'000'000},
      {directory / "c", 1'500'000, true, store_bytes - 1'048'576 - 777'777 - 1'000'000}};
  return std::make_shared<ConcatStore>(std::move(parts), true, "concat", FileOptions());
}

std::shared_ptr<Store> make_overlay(const TemporaryDirectory& directory) {
  // Its base is a read-only file, shorter than the overlay.
  FileStore::open(directory / "base", OpenMode::create, 2'000'000, {});
  std::shared_ptr<Store> base = FileStore::open(directory / "base", OpenMode::read_only, 0, {});
  return std::make_shared<OverlayStore>(base, store_bytes, directory.path());
}

std::shared_ptr<Store> make_callback() {
  tiermap_store_functions functions = {};
  functions.struct_bytes = sizeof(functions);
  functions.context = new MemoryStore(store_bytes);
  functions.size = [](void* context) { return static_cast<std::int64_t>(static_cast<Store*>(context)->size_bytes()); };
  functions.read = [](void* context, void* buffer, std::size_t bytes, std::uint64_t offset) {
    return static_cast<Store*>(context)->read(buffer, bytes, offset);
  };
  functions.write = [](void* context, const void* buffer, std::size_t bytes, std::uint64_t offset) {
    return static_cast<Store*>(context)->write(buffer, bytes, offset);
  };
  functions.destroy = [](void* context) { delete static_cast<MemoryStore*>(context); };
  return std::make_shared<CallbackStore>(functions);
}

/// So small, and so restless, that blocks come and go all the time.
std::shared_ptr<Store> make_tiered(const TemporaryDirectory& directory) {
  TieringOptions options;
  options.block_bytes = 16 << 10;
  options.organize_seconds = 0.001;
  options.write_down_seconds = 0.001;
  options.tiers.resize(2);
  options.tiers[0].capacity_bytes = 200 << 10;
  options.tiers[1].kind = TierKind::directory;
  options.tiers[1].path = directory.path();
  options.tiers[1].capacity_bytes = 1 << 20;
  return make_tiered_store(make_file(directory, true), options);
}

#ifdef TIERMAP_HAS_S3
/// With the server that it is on, which is gone after the store.
std::shared_ptr<Store> make_s3(const TemporaryDirectory&) {
  auto server = std::make_unique<StrictServer>();
  std::unique_ptr<Store> made = open_store(server->url("key"), OpenMode::create, store_bytes);
  Store* const store = made.release();
  return {store, [server = std::shared_ptr<StrictServer>(std::move(server))](Store* gone) { delete gone; }};
}
#endif

const Kind kinds[] = {
    {"file", [](const TemporaryDirectory& directory) { return make_file(directory, true); }},
    {"file_buffered", [](const TemporaryDirectory& directory) { return make_file(directory, false); }},
    {"file_tmpfs", [](const TemporaryDirectory& directory) { return make_file(directory, true); }, "/dev/shm"},
    {"sparse", [](const TemporaryDirectory& directory) { return make_sparse(directory, 1 << 20, true); }},
    {"sparse_small", [](const TemporaryDirectory& directory) { return make_sparse(directory, 3 * 4096, true); }},
    {"sparse_buffered", [](const TemporaryDirectory& directory) { return make_sparse(directory, 1 << 16, false); }},
    {"sparse_tmpfs", [](const TemporaryDirectory& directory) { return make_sparse(directory, 1 << 16, true); },
     "/dev/shm"},
    {"concat", make_concat},
    {"concat_tmpfs", make_concat, "/dev/shm"},
    {"memory", [](const TemporaryDirectory&) { return std::make_shared<MemoryStore>(store_bytes); }},
    {"overlay", make_overlay},
    {"overlay_tmpfs", make_overlay, "/dev/shm"},
    {"tiered", make_tiered},
#ifdef TIERMAP_HAS_S3
    {"s3", make_s3},
#endif
    {"callback", [](const TemporaryDirectory&) { return make_callback(); }},
#ifdef TIERMAP_TEST_REMOTE
    {"remote", [](const TemporaryDirectory&) { return make_remote(1, "", store_bytes); }},
    {"remote_striped",
     [](const TemporaryDirectory&) { return make_remote(3, "?layout=striped&stripe=12KiB", store_bytes); }},
    {"remote_striped_twice",
     [](const TemporaryDirectory&) { return make_remote(3, "?layout=striped&stripe=64KiB&copies=2", store_bytes); }},
    {"remote_replicated", [](const TemporaryDirectory&) { return make_remote(2, "?layout=replicated", store_bytes); }},
#endif
};

class Conformance : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (::access(GetParam().parent, W_OK) != 0) {
      GTEST_SKIP() << GetParam().parent << " cannot be written on this machine";
    }
    directory_ = std::make_unique<TemporaryDirectory>(GetParam().parent);
    store_ = GetParam().make(*directory_);
  }
  std::unique_ptr<TemporaryDirectory> directory_;
  std::shared_ptr<Store> store_;
  std::vector<char> expected_ = std::vector<char>(store_bytes);
};

TEST_P(Conformance, a_new_store_is_all_zeros) {
  expect_equal(*store_, expected_);
}

TEST_P(Conformance, random_work_matches_an_array) {
  random_work(*store_, expected_, 0, store_bytes, 600, 1);
  expect_equal(*store_, expected_);
  EXPECT_EQ(store_->flush(), 0);
  expect_equal(*store_, expected_);
}

TEST_P(Conformance, many_threads_on_ranges_that_share_blocks) {
  constexpr int threads = 6;
  std::vector<std::thread> workers;
  for (int thread = 0; thread < threads; ++thread) {
    // Borders lie anywhere in a block, so that neighbours write to parts of one block at once.
    const std::uint64_t begin = store_bytes * static_cast<std::uint64_t>(thread) / threads;
    const std::uint64_t end = store_bytes * static_cast<std::uint64_t>(thread + 1) / threads;
    workers.emplace_back([this, begin, end, thread] {
      random_work(*store_, expected_, begin, end, 250, static_cast<std::uint64_t>(thread) + 10);
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  expect_equal(*store_, expected_);
}

TEST_P(Conformance, small_neighbours_in_one_block) {
  // The sharpest case of the one above: eight threads, each with its own bytes of the same blocks.
  constexpr std::size_t threads = 8;
  std::vector<std::thread> workers;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    workers.emplace_back([this, thread] {
      for (std::uint64_t block = 0; block < 100; ++block) {
        const std::vector<char> mine(512, static_cast<char>(thread + 1));
        const std::uint64_t offset = block * 4096 + thread * 512;
        EXPECT_EQ(store_->write(mine.data(), mine.size(), offset), 512);
        std::memcpy(expected_.data() + offset, mine.data(), mine.size());
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  expect_equal(*store_, expected_);
}

TEST_P(Conformance, the_end_cuts_reads_short) {
  const AlignedBuffer buffer = aligned_buffer(8192);
  const std::uint64_t last_block = store_bytes / 4096 * 4096;
  EXPECT_EQ(store_->read(buffer.get(), 4096, last_block), static_cast<std::int64_t>(store_bytes - last_block));
  EXPECT_EQ(store_->read(buffer.get(), 10, store_bytes - 1), 1);
  EXPECT_EQ(store_->read(buffer.get(), 10, store_bytes), 0);
  EXPECT_EQ(store_->read(buffer.get(), 10, std::uint64_t{1} << 60), 0);
  EXPECT_EQ(store_->read(buffer.get(), 0, 0), 0);
  Extent extent;
  if (store_->locate_read(store_bytes + 4096 - store_bytes % 4096, 4096, extent)) {
    EXPECT_TRUE(extent.hole);
  }
}

TEST_P(Conformance, alignment_is_a_power_of_two_up_to_a_page) {
  const std::uint32_t alignment = store_->direct_alignment();
  EXPECT_TRUE(alignment > 0 && alignment <= 4096 && (alignment & (alignment - 1)) == 0) << alignment;
  EXPECT_FALSE(store_->name().empty());
  EXPECT_TRUE(store_->writable());
}

TEST_P(Conformance, a_resize_leaves_no_stale_bytes) {
  if (store_->resize(store_bytes) == -ENOTSUP) {
    EXPECT_EQ(store_->resize(1), -ENOTSUP);
    expect_equal(*store_, expected_);  // A fixed size is fixed.
    return;
  }
  std::vector<char> ones(store_bytes, 1);
  ASSERT_EQ(store_->write(ones.data(), ones.size(), 0), static_cast<std::int64_t>(store_bytes));
  ASSERT_EQ(store_->resize(1'234'567), 0);
  std::vector<char> expected(1'234'567, 1);
  expect_equal(*store_, expected);
  ASSERT_EQ(store_->resize(store_bytes + 5000), 0);
  expected.resize(store_bytes + 5000, 0);
  expect_equal(*store_, expected);
  random_work(*store_, expected, 0, expected.size(), 100, 3);
  expect_equal(*store_, expected);
}

TEST_P(Conformance, growing_stores_end_with_the_last_byte_written) {
  if (!store_->growable()) {
    const char byte = 1;
    EXPECT_LT(store_->write(&byte, 1, store_bytes), 0);
    EXPECT_EQ(store_->size_bytes(), store_bytes);
    return;
  }
  const std::vector<char> data(10'000, 7);
  const std::uint64_t offset = store_bytes + 12'345;
  ASSERT_EQ(store_->write(data.data(), data.size(), offset), 10'000);
  expected_.resize(offset);
  expected_.insert(expected_.end(), data.begin(), data.end());
  expect_equal(*store_, expected_);
}

TEST_P(Conformance, faults_of_a_wrapped_store_reach_the_caller) {
  FaultyStore faulty(store_);
  faulty.on_read(
      [](const FaultyStore::Call& call) { return call.number == 1 ? FaultyStore::fail(EIO) : FaultyStore::cut(100); });
  char buffer[256];
  EXPECT_EQ(faulty.read(buffer, 256, 0), 100);
  EXPECT_EQ(faulty.read(buffer, 256, 0), -EIO);
  EXPECT_EQ(faulty.reads(), 2U);
  faulty.on_write([](const FaultyStore::Call&) { return FaultyStore::stall(); });
  std::thread writer([&] { EXPECT_EQ(faulty.write("x", 1, 0), 1); });
  while (faulty.stalled() == 0) {
    std::this_thread::yield();
  }
  faulty.on_read(nullptr);
  EXPECT_EQ(faulty.read(buffer, 1, 0), 1);  // Overlaps the write in flight: seen and counted.
  faulty.release();
  writer.join();
  EXPECT_EQ(faulty.overlap_violations(), 1U);
  EXPECT_EQ(faulty.most_writes_at_once(), 1U);
}

INSTANTIATE_TEST_SUITE_P(stores, Conformance, testing::ValuesIn(kinds),
                         [](const testing::TestParamInfo<Kind>& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace tiermap
