// What allocating and freeing costs: the persistent heap, and its allocator alone, beside malloc and
// Boost.Interprocess's managed_mapped_file, in processor nanoseconds an operation.
//
// Each thread allocates its share of the blocks, of 16 to 256 bytes, and writes their first 8 bytes as a program would;
// then, as often as it has blocks, frees one at random and allocates another; then frees all, in the order that this
// has left. The time is that of all threads, in user and kernel mode.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <barrier>
#include <boost/interprocess/managed_mapped_file.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "config/size.hpp"
#include "heap/allocator.hpp"
#include "tiermap/heap.hpp"

namespace {

struct Wishes {
  std::string system = "heap";
  std::uint64_t blocks = 2'000'000;
  std::uint64_t threads = 2;
  std::uint64_t least = 16;
  std::uint64_t most = 256;
  std::string path = "/var/tmp/tiermap-heap-allocation";
  std::string page_size;  ///< Empty: as Heap has it.
  bool checkpoints = false;
  bool untouched = false;
  std::uint64_t reopen_gibibytes = 0;
};

void* reserve_memory(std::uint64_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  return memory;
}

/// Touches and frees memory. A virtual machine may have given its free memory back, and whoever touches it next waits
/// for that: ten times as long as for memory that is there, and none of it the allocator's doing.
void touch_free_memory(std::uint64_t bytes) {
  void* const memory = reserve_memory(bytes);
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  ::munmap(memory, bytes);
}

/// Metadata that is never saved.
class NoArea : public tiermap::MetadataArea {
 public:
  void read_record(std::uint64_t, std::span<std::byte>) override {}
  void write_record(std::uint64_t, std::span<const std::byte>) override {}
};

/// The allocator over anonymous memory.
class AllocatorBlocks {
 public:
  explicit AllocatorBlocks(const Wishes&) : allocator_(area_, capacity, tiermap::Allocator::Content::nothing) {
    void* const memory = reserve_memory(capacity);
    // As malloc's memory is.
    ::madvise(memory, capacity, MADV_NOHUGEPAGE);
    data_ = static_cast<std::byte*>(memory);
  }
  AllocatorBlocks(const AllocatorBlocks&) = delete;
  AllocatorBlocks& operator=(const AllocatorBlocks&) = delete;
  ~AllocatorBlocks() { ::munmap(data_, capacity); }

  void* allocate(std::uint64_t bytes) { return data_ + allocator_.allocate(bytes); }
  void free(void* block) { allocator_.deallocate(static_cast<std::uint64_t>(static_cast<std::byte*>(block) - data_)); }

 private:
  static constexpr std::uint64_t capacity = 64ULL << 30;
  NoArea area_;
  tiermap::Allocator allocator_;
  std::byte* data_;
};

/// All that the blocks may need, whatever their order.
constexpr std::uint64_t file_bytes = 4ULL << 30;

/// A heap on a disk, with room for all of it in memory.
class HeapBlocks {
 public:
  explicit HeapBlocks(const Wishes& wishes)
      : path_(wishes.path), heap_(tiermap::Heap::create(path_, options(wishes))) {}
  HeapBlocks(const HeapBlocks&) = delete;
  HeapBlocks& operator=(const HeapBlocks&) = delete;
  ~HeapBlocks() {
    heap_.close();
    tiermap::Heap::remove(path_);
  }

  void* allocate(std::uint64_t bytes) { return heap_.allocate(bytes, 8); }
  void free(void* block) { heap_.deallocate(block); }

 private:
  static tiermap::HeapOptions options(const Wishes& wishes) {
    tiermap::HeapOptions options;
    options.capacity_bytes = file_bytes;
    options.budget_bytes = file_bytes / 2;
    if (!wishes.page_size.empty()) {
      options.page_size_bytes = tiermap::parse_size(wishes.page_size, "--page-size");
    }
    options.checkpoints = wishes.checkpoints;
    return options;
  }
  std::string path_;
  tiermap::Heap heap_;
};

class BoostBlocks {
 public:
  explicit BoostBlocks(const Wishes& wishes)
      : path_(wishes.path), file_(boost::interprocess::create_only, path_.c_str(), file_bytes) {}
  BoostBlocks(const BoostBlocks&) = delete;
  BoostBlocks& operator=(const BoostBlocks&) = delete;
  ~BoostBlocks() { std::filesystem::remove(path_); }

  void* allocate(std::uint64_t bytes) { return file_.allocate(bytes); }
  void free(void* block) { file_.deallocate(block); }

 private:
  std::string path_;
  boost::interprocess::managed_mapped_file file_;
};

class MallocBlocks {
 public:
  explicit MallocBlocks(const Wishes&) {}
  void* allocate(std::uint64_t bytes) { return std::malloc(bytes); }
  void free(void* block) { std::free(block); }
};

std::uint64_t processor_nanoseconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto nanoseconds = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_usec) * 1000;
  };
  return nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
}

template <typename Blocks>
class Run {
 public:
  explicit Run(const Wishes& wishes)
      : wishes_(wishes), step_(static_cast<std::ptrdiff_t>(wishes.threads) + 1), blocks_(wishes) {}

  void measure() {
    std::vector<std::thread> threads;
    for (std::uint64_t index = 0; index < wishes_.threads; ++index) {
      threads.emplace_back([this, index] { work(index); });
    }
    step_.arrive_and_wait();
    const char* const names[] = {"allocate", "churn", "free"};
    const std::uint64_t operations = wishes_.blocks / wishes_.threads * wishes_.threads;
    fmt::print("{{\"system\": \"{}\", \"threads\": {}, \"blocks\": {}", wishes_.system, wishes_.threads, operations);
    for (const char* const name : names) {
      const std::uint64_t before = processor_nanoseconds();
      step_.arrive_and_wait();
      step_.arrive_and_wait();
      fmt::print(", \"{}_cpu_nanoseconds\": {:.1f}", name,
                 static_cast<double>(processor_nanoseconds() - before) / static_cast<double>(operations));
    }
    fmt::print("}}\n");
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

 private:
  void* allocate(std::uint64_t draw) {
    void* const block = blocks_.allocate(wishes_.least + draw % (wishes_.most - wishes_.least + 1));
    if (!wishes_.untouched) {
      std::memcpy(block, &draw, sizeof(draw));
    }
    return block;
  }

  void work(std::uint64_t index) {
    std::mt19937_64 random(index);
    // All that is drawn is drawn before: it is not what is measured.
    std::vector<void*> held(wishes_.blocks / wishes_.threads);
    std::vector<std::uint64_t> draws(2 * held.size());
    for (std::uint64_t& draw : draws) {
      draw = random();
    }
    step_.arrive_and_wait();
    step_.arrive_and_wait();
    for (std::size_t place = 0; place < held.size(); ++place) {
      held[place] = allocate(draws[place]);
    }
    step_.arrive_and_wait();
    step_.arrive_and_wait();
    for (std::size_t turn = 0; turn < held.size(); ++turn) {
      const std::uint64_t draw = draws[held.size() + turn];
      void*& block = held[(draw >> 32) % held.size()];
      blocks_.free(block);
      block = allocate(draw & 0xffffffff);
    }
    step_.arrive_and_wait();
    step_.arrive_and_wait();
    for (void* const block : held) {
      blocks_.free(block);
    }
    step_.arrive_and_wait();
  }

  const Wishes& wishes_;
  std::barrier<> step_;
  Blocks blocks_;
};

template <typename Work>
double milliseconds_of(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

/// A heap of so many bytes in blocks of 16 bytes to 4 KiB, nothing in them: how long it takes to close it, to open it,
/// to allocate the first block, and to take the first checkpoint.
void measure_reopening(const Wishes& wishes) {
  const std::uint64_t bytes = wishes.reopen_gibibytes << 30;
  tiermap::HeapOptions options;
  options.capacity_bytes = 2 * bytes;
  options.budget_bytes = 256ULL << 20;
  std::mt19937_64 random(1);
  std::optional<tiermap::Heap> heap = tiermap::Heap::create(wishes.path, options);
  for (std::uint64_t filled = 0; filled < bytes;) {
    const std::uint64_t size = 16 + random() % 4080;
    heap->allocate(size, 8);
    filled += size;
  }
  const double closing = milliseconds_of([&] { heap->close(); });
  const double opening = milliseconds_of([&] { heap.emplace(tiermap::Heap::open(wishes.path, options)); });
  const double allocating = milliseconds_of([&] { heap->allocate(100, 8); });
  const double checkpoint = milliseconds_of([&] { heap->checkpoint(); });
  heap->close();
  tiermap::Heap::remove(wishes.path);
  fmt::print(
      "{{\"heap_bytes\": {}, \"close_milliseconds\": {:.1f}, \"open_milliseconds\": {:.1f}, "
      "\"allocate_milliseconds\": {:.3f}, \"checkpoint_milliseconds\": {:.1f}}}\n",
      bytes, closing, opening, allocating, checkpoint);
}

}  // namespace

int main(int count, char** arguments) {
  Wishes wishes;
  CLI::App app("What allocating and freeing blocks costs");
  app.add_option("--system", wishes.system, "heap, its allocator alone, malloc or boost")
      ->check(CLI::IsMember({"heap", "allocator", "malloc", "boost"}));
  app.add_option("--path", wishes.path, "what heap and boost make, and remove again");
  app.add_option("--page-size", wishes.page_size, "UPage size of the heap, instead of the library's own choice");
  app.add_flag("--checkpoints", wishes.checkpoints, "the heap has a journal");
  app.add_option("--blocks", wishes.blocks, "of all threads")->check(CLI::PositiveNumber);
  app.add_option("--threads", wishes.threads)->check(CLI::Range(1, 256));
  app.add_option("--least", wishes.least, "bytes of the smallest block")->check(CLI::Range(8, 1 << 20));
  app.add_option("--most", wishes.most, "bytes of the largest block")->check(CLI::Range(8, 1 << 20));
  app.add_flag("--untouched", wishes.untouched, "write nothing into the blocks");
  app.add_option("--reopen", wishes.reopen_gibibytes, "instead, close and open a heap of so many GiB")
      ->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, count, arguments);
  if (wishes.reopen_gibibytes != 0) {
    measure_reopening(wishes);
    return 0;
  }
  touch_free_memory(4 * wishes.blocks * wishes.most);
  if (wishes.system == "malloc") {
    Run<MallocBlocks>(wishes).measure();
  } else if (wishes.system == "boost") {
    Run<BoostBlocks>(wishes).measure();
  } else if (wishes.system == "allocator") {
    Run<AllocatorBlocks>(wishes).measure();
  } else {
    Run<HeapBlocks>(wishes).measure();
  }
  return 0;
}
