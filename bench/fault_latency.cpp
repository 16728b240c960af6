// What one fault costs when the data is in memory already: a store that copies from an array, pages touched in random
// order, each once. With a budget as large as the data no page is evicted; with a smaller one each fault also evicts.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "measure.hpp"

namespace tiermap::bench {
namespace {

/// The first word of each 4 KiB is known; the rest is zero. A copy is all a read does, so a faulting thread may do it.
class ArrayStore final : public Store {
 public:
  explicit ArrayStore(std::uint64_t bytes) : words_(static_cast<std::size_t>(bytes / 8)) {
    for (std::size_t word = 0; word < words_.size(); word += 512) {
      words_[word] = word_at(word);
    }
  }
  std::uint64_t size_bytes() const override { return words_.size() * 8; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const std::uint64_t length = offset < size_bytes() ? std::min<std::uint64_t>(bytes, size_bytes() - offset) : 0;
    std::memcpy(buffer, words_.data() + offset / 8, static_cast<std::size_t>(length));
    return static_cast<std::int64_t>(length);
  }
  bool reads_in_signal_handler() const override { return true; }
  std::string name() const override { return "array"; }

 private:
  std::vector<std::uint64_t> words_;
};

/// Touches the pages of `order` and writes down how long each took. Returns how many words were wrong.
std::uint64_t touch(const std::uint64_t* words, std::uint64_t page_words, const std::vector<std::uint32_t>& order,
                    std::vector<float>& microseconds) {
  std::uint64_t wrong = 0;
  for (const std::uint32_t page : order) {
    const std::uint64_t word = page * page_words;
    const auto before = std::chrono::steady_clock::now();
    const std::uint64_t value = *static_cast<const volatile std::uint64_t*>(words + word);
    const auto after = std::chrono::steady_clock::now();
    wrong += value != word_at(word) ? 1U : 0U;
    microseconds.push_back(std::chrono::duration<float, std::micro>(after - before).count());
  }
  return wrong;
}

double quantile(const std::vector<float>& sorted, double share) {
  return static_cast<double>(sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))]);
}

nlohmann::json measure(const Arguments& arguments) {
  const std::uint64_t bytes = parse_size(arguments.bytes, "size");
  const std::uint64_t page_size = parse_size(arguments.page_size, "page size");
  Cache cache(arguments.cache_options());
  RegionOptions options = arguments.region_options();
  options.advice = Advice::random;
  Region region = cache.map(std::make_shared<ArrayStore>(bytes), options);
  const auto* words = static_cast<const std::uint64_t*>(static_cast<const void*>(region.data()));

  std::vector<std::uint32_t> pages(static_cast<std::size_t>(bytes / page_size));
  std::iota(pages.begin(), pages.end(), 0U);
  std::shuffle(pages.begin(), pages.end(), std::mt19937_64(arguments.seed));
  std::vector<std::vector<std::uint32_t>> orders(arguments.threads);
  for (std::size_t index = 0; index < pages.size(); ++index) {
    orders[index % arguments.threads].push_back(pages[index]);
  }
  std::vector<std::vector<float>> times(arguments.threads);
  for (std::vector<float>& each : times) {
    each.reserve(pages.size());
    // Touch the list's own memory now rather than while measuring.
    each.resize(pages.size());
    each.clear();
  }
  std::vector<std::uint64_t> wrong(arguments.threads);
  std::vector<std::thread> threads;
  const double cpu_started = cpu_seconds();
  const double started = now_seconds();
  for (unsigned index = 0; index < arguments.threads; ++index) {
    threads.emplace_back([&, index] { wrong[index] = touch(words, page_size / 8, orders[index], times[index]); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const double seconds = now_seconds() - started;
  const double cpu = cpu_seconds() - cpu_started;

  std::vector<float> all;
  for (const std::vector<float>& each : times) {
    all.insert(all.end(), each.begin(), each.end());
  }
  std::sort(all.begin(), all.end());
  const auto faults = static_cast<double>(pages.size());
  nlohmann::json report = describe("fault-latency", arguments, bytes);
  report["seconds"] = seconds;
  report["operations"] = pages.size();
  report["faults_per_second"] = faults / seconds;
  report["microseconds_mean"] = std::accumulate(all.begin(), all.end(), 0.0) / faults;
  report["microseconds_p50"] = quantile(all, 0.5);
  report["microseconds_p99"] = quantile(all, 0.99);
  report["cpu_microseconds_per_fault"] = cpu * 1e6 / faults;
  report["verified"] = std::accumulate(wrong.begin(), wrong.end(), std::uint64_t{0}) == 0;
  report["fault_mode"] = cache.fault_mode() == FaultMode::notify         ? "notify"
                         : cache.fault_mode() == FaultMode::self_serving ? "self-serving"
                                                                         : "kernel";
  report["statistics"] = describe(cache.statistics());
  return report;
}

}  // namespace
}  // namespace tiermap::bench

int main(int argc, char** argv) {
  return tiermap::bench::run_program("Faults on a store in memory", argc, argv, tiermap::bench::measure);
}
