// The kernel ages pages by clearing their accessed bits, at any moment, as here without a pause. Nothing may be lost by
// it, however pages come and go meanwhile.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "region/engine_fixture.hpp"

namespace tiermap {
namespace {

class AgedPages : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, AgedPages, every_engine, engine_name);

constexpr std::uint64_t page = 64 * kib;
constexpr std::uint64_t pages = 64;

/// Writes to pages of its own for a while, each time finding what it wrote last.
void write_and_check(std::byte* memory, unsigned writer, unsigned writers, const std::atomic<bool>& done) {
  std::mt19937_64 random(writer);
  std::vector<std::uint64_t> last(pages, 0);
  for (std::uint64_t count = 1; !done.load(); ++count) {
    const std::uint64_t mine = random() % (pages / writers) * writers + writer;
    auto* word = reinterpret_cast<std::uint64_t*>(memory + mine * page);
    ASSERT_EQ(*word, last[mine]) << "page " << mine;
    *word = count;
    last[mine] = count;
  }
}

TEST_P(AgedPages, LoseNothing) {
  Cache cache(cache_options(pages / 4 * page));
  Region region = cache.map(std::make_shared<MemoryStore>(pages * page), read_write(page));
  std::atomic<bool> done{false};
  std::thread ageing([&] {
    while (!done.load()) {
      for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
        ::madvise(region.data() + offset, 4096, MADV_COLD);
      }
    }
  });
  std::vector<std::thread> writers;
  constexpr unsigned writer_count = 4;
  for (unsigned writer = 0; writer < writer_count; ++writer) {
    writers.emplace_back([&, writer] { write_and_check(region.data(), writer, writer_count, done); });
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  done.store(true);
  for (std::thread& writer : writers) {
    writer.join();
  }
  ageing.join();
}

}  // namespace
}  // namespace tiermap
