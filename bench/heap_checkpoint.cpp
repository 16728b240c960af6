// What a checkpoint of the persistent heap costs: against how much changed, and against how large the heap is.
//
// A heap of large blocks is made, of which every other one is freed, closed and opened again. Then checkpoints are
// taken: the first after opening, with one changed block of 4 KiB, and others with more of them, scattered over all of
// the heap or side by side. A line of JSON each; the time is that of checkpoint(), the best of some.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tiermap/heap.hpp"

namespace {

constexpr std::uint64_t page_bytes = 4096;

struct Wishes {
  std::string path;
  std::vector<std::uint64_t> heap_mebibytes = {256, 4096};
  std::vector<std::uint64_t> changed = {1, 16, 256, 4096};
  std::uint64_t block_kibibytes = 1024;
  std::uint64_t repeats = 3;
  bool sparse = false;
};

double milliseconds_of_checkpoint(tiermap::Heap& heap) {
  const auto begin = std::chrono::steady_clock::now();
  heap.checkpoint();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

class Measurement {
 public:
  Measurement(const Wishes& wishes, std::uint64_t bytes) : wishes_(wishes), bytes_(bytes) {
    options_.capacity_bytes = 2 * bytes + (64 << 20);
    options_.budget_bytes = 256 << 20;
    options_.backing = wishes.sparse ? tiermap::HeapBacking::sparse : tiermap::HeapBacking::file;
    tiermap::Heap::remove(wishes.path);
  }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;
  ~Measurement() { tiermap::Heap::remove(wishes_.path); }

  void run() {
    make();
    tiermap::Heap heap = tiermap::Heap::open(wishes_.path, options_);
    data_ = heap.data();
    change(1, true);
    print("first", 1, milliseconds_of_checkpoint(heap));
    for (const bool scattered : {true, false}) {
      for (const std::uint64_t count : wishes_.changed) {
        double best = 0;
        for (std::uint64_t turn = 0; turn < wishes_.repeats; ++turn) {
          change(count, scattered);
          const double took = milliseconds_of_checkpoint(heap);
          best = turn == 0 ? took : std::min(best, took);
        }
        print(scattered ? "scattered" : "side by side", count, best);
      }
    }
  }

 private:
  void make() {
    tiermap::Heap heap = tiermap::Heap::create(wishes_.path, options_);
    const std::uint64_t block_bytes = wishes_.block_kibibytes << 10;
    std::vector<void*> freed;
    for (std::uint64_t index = 0; index < bytes_ / block_bytes; ++index) {
      void* const block = heap.allocate(block_bytes);
      std::memset(block, 1, 1);
      if (index % 2 == 0) {
        freed.push_back(block);
      } else {
        kept_.push_back(static_cast<std::uint64_t>(static_cast<std::byte*>(block) - heap.data()));
      }
    }
    heap.checkpoint();
    for (void* const block : freed) {
      heap.deallocate(block);
    }
    heap.close();
  }

  void change(std::uint64_t count, bool scattered) {
    const std::uint64_t pages_of_block = (wishes_.block_kibibytes << 10) / page_bytes;
    const std::uint64_t pages = kept_.size() * pages_of_block;
    const std::uint64_t first = random_() % pages;
    for (std::uint64_t index = 0; index < count; ++index) {
      const std::uint64_t page = scattered ? random_() % pages : (first + index) % pages;
      std::byte* const at = data_ + kept_[page / pages_of_block] + page % pages_of_block * page_bytes;
      const std::uint64_t value = random_();
      std::memcpy(at, &value, sizeof(value));
    }
  }

  void print(const char* what, std::uint64_t count, double milliseconds) const {
    fmt::print("{{\"heap_bytes\": {}, \"changed\": \"{}\", \"blocks\": {}, \"milliseconds\": {:.2f}}}\n", bytes_, what,
               count, milliseconds);
  }

  const Wishes& wishes_;
  const std::uint64_t bytes_;
  tiermap::HeapOptions options_;
  std::vector<std::uint64_t> kept_;
  std::byte* data_ = nullptr;
  std::mt19937_64 random_{1};
};

}  // namespace

int main(int count, char** arguments) {
  Wishes wishes;
  CLI::App app("What a checkpoint of a heap costs");
  app.add_option("path", wishes.path, "of the heap to make, and remove afterwards")->required();
  app.add_option("--heap-mebibytes", wishes.heap_mebibytes, "sizes of the heap")->check(CLI::Range(16, 1 << 24));
  app.add_option("--changed", wishes.changed, "numbers of changed blocks")->check(CLI::PositiveNumber);
  app.add_option("--block-kibibytes", wishes.block_kibibytes, "of which the heap is made")
      ->check(CLI::Range(4, 1 << 20));
  app.add_option("--repeats", wishes.repeats)->check(CLI::PositiveNumber);
  app.add_flag("--sparse", wishes.sparse, "a sparse store's directory in place of one file");
  CLI11_PARSE(app, count, arguments);
  for (const std::uint64_t mebibytes : wishes.heap_mebibytes) {
    Measurement(wishes, mebibytes << 20).run();
  }
  return 0;
}
