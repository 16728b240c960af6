// Uniform random reads of blocks for a while: operations a second, every word that is looked at checked. One word of
// each 4 KiB of the block is looked at, so that a block costs all its pages.
#include <algorithm>
#include <atomic>
#include <thread>

#include "measure.hpp"

namespace tiermap::bench {
namespace {

/// What one thread did so far; on a cache line of its own.
struct alignas(64) Outcome {
  std::atomic<std::uint64_t> operations = 0;
  std::atomic<std::uint64_t> wrong = 0;

  /// By the thread itself only.
  void add(std::uint64_t wrong_words) noexcept {
    operations.store(operations.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    wrong.store(wrong.load(std::memory_order_relaxed) + wrong_words, std::memory_order_relaxed);
  }
};

std::uint64_t operations_of(const std::vector<Outcome>& outcomes) noexcept {
  std::uint64_t sum = 0;
  for (const Outcome& outcome : outcomes) {
    sum += outcome.operations.load(std::memory_order_relaxed);
  }
  return sum;
}

bool all_right(const std::vector<Outcome>& outcomes) noexcept {
  return std::ranges::all_of(outcomes, [](const Outcome& outcome) { return outcome.wrong.load() == 0; });
}

/// xorshift64*: cheap enough not to be what is measured.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(word_at(seed) | 1U) {}
  /// A number under `limit`, which is at most 2^32.
  std::uint64_t below(std::uint64_t limit) noexcept {
    state_ ^= state_ >> 12U;
    state_ ^= state_ << 25U;
    state_ ^= state_ >> 27U;
    return ((state_ * 0x2545f4914f6cdd1dULL) >> 32U) * limit >> 32U;
  }

 private:
  std::uint64_t state_;
};

/// Counts the words, one each 4 KiB, that are not what they should be.
std::uint64_t wrong_words(const std::uint64_t* words, std::uint64_t first_index, std::uint64_t count) noexcept {
  constexpr std::uint64_t step = 4096 / 8;
  std::uint64_t wrong = 0;
  for (std::uint64_t word = 0; word < count; word += step) {
    wrong += words[word] != word_at(first_index + word) ? 1U : 0U;
  }
  return wrong;
}

void read_mapping(const Mapping& mapping, std::uint64_t block, std::uint64_t seed, const std::atomic<bool>& stop,
                  Outcome& outcome) {
  Random random(seed);
  while (!stop.load(std::memory_order_relaxed)) {
    const std::uint64_t first = random.below(mapping.bytes() / block) * block / 8;
    outcome.add(wrong_words(mapping.words() + first, first, block / 8));
  }
}

void read_direct(const File& file, std::uint64_t block, std::uint64_t seed, const std::atomic<bool>& stop,
                 Outcome& outcome) {
  Random random(seed);
  const AlignedBuffer buffer(static_cast<std::size_t>(block));
  const std::uint64_t blocks = file.size() / block;
  while (!stop.load(std::memory_order_relaxed)) {
    const std::uint64_t offset = random.below(blocks) * block;
    const ssize_t got =
        ::pread(file.descriptor(), buffer.data(), static_cast<std::size_t>(block), static_cast<off_t>(offset));
    outcome.add(got == static_cast<ssize_t>(block) ? wrong_words(buffer.words(), offset / 8, block / 8) : 1U);
  }
}

nlohmann::json measure(const Arguments& arguments) {
  const std::uint64_t block = parse_size(arguments.block, "block");
  const bool direct = arguments.system == "direct";
  const std::unique_ptr<Mapping> mapping = direct ? nullptr : std::make_unique<Mapping>(arguments);
  const File file(arguments.file, direct ? O_RDONLY | O_DIRECT : O_RDONLY);
  if (block < 4096 || block % 4096 != 0 || block > file.size()) {
    throw OptionError("block " + arguments.block + " does not fit: choose a multiple of 4KiB within the file");
  }
  std::atomic<bool> stop = false;
  std::vector<Outcome> outcomes(arguments.threads);
  std::vector<std::thread> threads;
  for (unsigned index = 0; index < arguments.threads; ++index) {
    threads.emplace_back([&, index] {
      const std::uint64_t seed = arguments.seed * 1000 + index;
      direct ? read_direct(file, block, seed, stop, outcomes[index])
             : read_mapping(*mapping, block, seed, stop, outcomes[index]);
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(arguments.warm_up_seconds));
  const double started = now_seconds();
  const double cpu_started = cpu_seconds();
  const std::uint64_t operations_before = operations_of(outcomes);
  std::this_thread::sleep_for(std::chrono::duration<double>(arguments.seconds));
  const std::uint64_t operations = operations_of(outcomes) - operations_before;
  const double seconds = now_seconds() - started;
  const double cpu = cpu_seconds() - cpu_started;
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  nlohmann::json report = describe("random-read", arguments, file.size());
  report["seconds"] = seconds;
  report["operations"] = operations;
  report["operations_per_second"] = static_cast<double>(operations) / seconds;
  report["cpu_seconds"] = cpu;
  report["verified"] = all_right(outcomes) && operations > 0;
  if (mapping && mapping->statistics()) {
    report["fault_mode"] = mapping->fault_mode();
    report["statistics"] = describe(*mapping->statistics());
  }
  return report;
}

}  // namespace
}  // namespace tiermap::bench

int main(int argc, char** argv) {
  return tiermap::bench::run_program("Uniform random reads of a file", argc, argv, tiermap::bench::measure);
}
