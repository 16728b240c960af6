// What a transaction of a Vector costs where all is in memory, beside the same loop over a std::vector; and how many of
// its pages are there in time where memory is for a quarter.
//
// Warm: both are filled, gone through once, and then measured in turn; the time is the median of the rounds. Cold: the
// vector is opened anew with the page cache of its file dropped. The work on an element is a sum, or with --work so
// many rounds of a hash.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/size.hpp"
#include "tiermap/vector.hpp"

namespace {

using Numbers = tiermap::Vector<std::uint64_t>;

struct Wishes {
  std::string path;
  std::string bytes = "256MiB";
  std::string page_size = "2MiB";
  unsigned rounds = 5;
  unsigned work = 0;
};

std::uint64_t worked(std::uint64_t number, unsigned work) {
  for (unsigned round = 0; round < work; ++round) {
    number = (number ^ (number >> 29U)) * 0xbf58476d1ce4e5b9ULL;
  }
  return number;
}

template <typename Loop>
double seconds_of(Loop&& loop) {
  const auto begin = std::chrono::steady_clock::now();
  loop();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void drop_cache(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::fdatasync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

class Measurement {
 public:
  explicit Measurement(const Wishes& wishes)
      : wishes_(wishes), count_(tiermap::parse_size(wishes.bytes, "--bytes") / sizeof(std::uint64_t)) {
    std::filesystem::remove(wishes_.path);
    auto numbers = Numbers::create(wishes_.path, 0, options(4));
    auto append = numbers.append();
    for (std::uint64_t number = 0; number < count_; ++number) {
      append.push_back(number);
    }
    append.commit();
    numbers.sync();
    numbers.close();
  }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;
  ~Measurement() { std::filesystem::remove(wishes_.path); }

  void warm(nlohmann::json& report) {
    auto numbers = Numbers::open_read_only(wishes_.path, options(0));
    std::vector<std::uint64_t> memory(count_);
    numbers.copy_to(memory);
    const tiermap::Random random(numbers.all(), 42, count_ / 8);
    std::vector<double> scan[2];
    std::vector<double> drawn[2];
    for (unsigned round = 0; round <= wishes_.rounds; ++round) {
      const double times[] = {seconds_of([&] { scan_vector(numbers); }), seconds_of([&] { scan_memory(memory); }),
                              seconds_of([&] { draw_vector(numbers, random); }),
                              seconds_of([&] { draw_memory(numbers, memory, random); })};
      for (const int which : {0, 1}) {
        scan[which].push_back(times[which]);
        drawn[which].push_back(times[2 + which]);
      }
    }
    const auto rate = [&](std::vector<double> seconds, std::uint64_t elements) {
      seconds.erase(seconds.begin());  // The first one makes all of it warm.
      return static_cast<double>(elements) / median(seconds);
    };
    report["scan_transaction_elements_per_second"] = rate(scan[0], count_);
    report["scan_memory_elements_per_second"] = rate(scan[1], count_);
    report["random_transaction_elements_per_second"] = rate(drawn[0], random.accesses);
    report["random_memory_elements_per_second"] = rate(drawn[1], random.accesses);
  }

  void cold(nlohmann::json& report) {
    const auto coverage = [](const tiermap::TransactionStatistics& statistics) {
      return 100.0 * static_cast<double>(statistics.in_time) / static_cast<double>(statistics.pages);
    };
    drop_cache(wishes_.path);
    {
      auto numbers = Numbers::open_read_only(wishes_.path, options(4));
      auto transaction = numbers.read();
      transaction.for_each([&](std::uint64_t number) { sum_ += worked(number, wishes_.work); });
      report["scan_coverage_percent"] = coverage(transaction.statistics());
    }
    drop_cache(wishes_.path);
    auto numbers = Numbers::open_read_only(wishes_.path, options(4));
    auto transaction = numbers.read(tiermap::Random(numbers.all(), 42, count_ / 512));
    transaction.for_each([&](std::uint64_t, std::uint64_t number) { sum_ += worked(number, 64 * wishes_.work); });
    report["random_coverage_percent"] = coverage(transaction.statistics());
  }

  std::uint64_t sum() const { return sum_; }

 private:
  /// Memory for one part of so many; 0: for all of it and more.
  tiermap::VectorOptions options(std::uint64_t parts) const {
    const std::uint64_t bytes = count_ * sizeof(std::uint64_t);
    tiermap::VectorOptions options;
    options.budget_bytes = parts == 0 ? 2 * bytes : bytes / parts;
    options.page_size_bytes = tiermap::parse_size(wishes_.page_size, "--page-size");
    return options;
  }
  // Sums of their own: a member would be stored each time.
  void scan_vector(Numbers& numbers) {
    std::uint64_t sum = 0;
    numbers.read().for_each([&](std::uint64_t number) { sum += worked(number, wishes_.work); });
    sum_ += sum;
  }
  void scan_memory(const std::vector<std::uint64_t>& memory) {
    std::uint64_t sum = 0;
    for (const std::uint64_t number : memory) {
      sum += worked(number, wishes_.work);
    }
    sum_ += sum;
  }
  void draw_vector(Numbers& numbers, const tiermap::Random& random) {
    std::uint64_t sum = 0;
    numbers.read(random).for_each([&](std::uint64_t, std::uint64_t number) { sum += worked(number, wishes_.work); });
    sum_ += sum;
  }
  /// The same elements, drawn the same way.
  void draw_memory(Numbers& numbers, const std::vector<std::uint64_t>& memory, const tiermap::Random& random) {
    const auto draw = numbers.read(random, {.prefetch = false});
    std::uint64_t sum = 0;
    for (std::uint64_t at = 0; at < random.accesses; ++at) {
      sum += worked(memory[draw.element(at)], wishes_.work);
    }
    sum_ += sum;
  }

  const Wishes wishes_;
  const std::uint64_t count_;
  std::uint64_t sum_ = 0;
};

}  // namespace

int main(int argument_count, char** arguments) {
  Wishes wishes;
  bool warm_only = false;
  CLI::App program(
      "What a transaction costs where all is in memory, and how many pages it has in time where it is not.");
  program.add_option("--path", wishes.path, "A file to make")->required();
  program.add_option("--bytes", wishes.bytes, "Size of the vector");
  program.add_option("--page-size", wishes.page_size, "UPage size");
  program.add_option("--rounds", wishes.rounds, "Warm rounds")->check(CLI::PositiveNumber);
  program.add_option("--work", wishes.work, "Rounds of a hash an element");
  program.add_flag("--warm", warm_only, "Nothing cold");
  CLI11_PARSE(program, argument_count, arguments);
  try {
    Measurement measurement(wishes);
    nlohmann::json report;
    measurement.warm(report);
    if (!warm_only) {
      measurement.cold(report);
    }
    report["sum"] = measurement.sum();
    std::cout << report.dump() << '\n';
  } catch (const std::exception& error) {
    std::cerr << "bench-vector_transactions: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
