// What the measuring programs share: their command line, test data whose every word is known, and one mapping that is
// served by Tiermap, by mmap, or not at all (direct reads).
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/size.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap::bench {

/// The command line of every measuring program; the words are those of the applications.
struct Arguments {
  std::string system = "tiermap";
  std::string advice = "normal";
  std::string file;
  std::string bytes = "1GiB";
  std::string budget = "256MiB";
  std::string page_size = "64KiB";
  std::string block = "4KiB";
  std::string fault_mode = "auto";
  std::string policy;
  std::string read_ahead;
  unsigned threads = 1;
  unsigned evictors = 0;
  double seconds = 5;
  double warm_up_seconds = 0;
  std::uint64_t seed = 1;
  bool generate = false;
  bool json = false;

  void declare(CLI::App& app) {
    app.add_option("--system", system, "tiermap, mmap or direct (O_DIRECT reads)")
        ->check(CLI::IsMember({"tiermap", "mmap", "direct"}));
    app.add_option("--madvise", advice, "normal, random or sequential")
        ->check(CLI::IsMember({"normal", "random", "sequential"}));
    app.add_option("--file", file, "File to read; make it with --generate");
    app.add_option("--bytes", bytes, "Size to generate, or to map");
    app.add_option("--budget", budget, "Memory for pages");
    app.add_option("--page-size", page_size, "UPage size, or auto: the library's own choice");
    app.add_option("--block", block, "Bytes of one operation");
    app.add_option("--fault-mode", fault_mode, "auto, notify or self-serving")
        ->check(CLI::IsMember({"auto", "notify", "self-serving"}));
    app.add_option("--policy", policy, "Eviction policy");
    app.add_option("--read-ahead", read_ahead, "Most that is read ahead of one stream; 0 for none");
    app.add_option("--threads", threads, "Threads that read")->check(CLI::Range(1, 1024));
    app.add_option("--evictors", evictors, "Threads that write back and free")->check(CLI::Range(1, 256));
    app.add_option("--seconds", seconds, "How long to measure")->check(CLI::Range(0.1, 3600.0));
    app.add_option("--warm-up", warm_up_seconds, "How long to work before measuring begins")
        ->check(CLI::Range(0.0, 3600.0));
    app.add_option("--seed", seed, "Seed of everything random");
    app.add_flag("--generate", generate, "Write the file and end");
    app.add_flag("--json", json, "One JSON object on standard output");
  }

  CacheOptions cache_options() const {
    CacheOptions options;
    options.budget_bytes = parse_size(budget, "budget");
    options.fault_mode = fault_mode == "notify"         ? FaultMode::notify
                         : fault_mode == "self-serving" ? FaultMode::self_serving
                                                        : FaultMode::automatic;
    if (!policy.empty()) {
      options.policy = policy;
    }
    if (evictors != 0) {
      options.evictors = evictors;
    }
    return options;
  }

  RegionOptions region_options() const {
    RegionOptions options;
    if (page_size != "auto") {
      options.page_size_bytes = parse_size(page_size, "page size");
    }
    options.advice = advice == "random" ? Advice::random : advice == "sequential" ? Advice::sequential : Advice::normal;
    if (!read_ahead.empty()) {
      options.read_ahead_bytes = parse_size(read_ahead, "read-ahead");
    }
    return options;
  }
};

/// The word at an index of the test data (the finaliser of splitmix64): any read can be checked.
inline std::uint64_t word_at(std::uint64_t index) noexcept {
  std::uint64_t value = (index + 1) * 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31U);
}

/// A file descriptor that closes itself.
class File {
 public:
  File(const std::string& path, int flags) : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) {
      throw StoreError(errno, "cannot open " + path + ": make it with --generate, or choose another --file");
    }
  }
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const noexcept { return descriptor_; }
  std::uint64_t size() const noexcept {
    struct stat status{};
    return ::fstat(descriptor_, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  }

 private:
  int descriptor_;
};

/// Memory whose address suits O_DIRECT.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::size_t bytes)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)), &std::free) {
    if (!memory_) {
      throw PlatformError(ENOMEM, "no memory for a buffer: choose a smaller --block");
    }
  }
  std::byte* data() const noexcept { return memory_.get(); }
  std::uint64_t* words() const noexcept { return static_cast<std::uint64_t*>(static_cast<void*>(memory_.get())); }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
};

/// Writes the test data without leaving it in the page cache.
inline void generate_file(const std::string& path, std::uint64_t bytes) {
  constexpr std::size_t piece = 8U << 20U;
  const File file(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);
  const AlignedBuffer buffer(piece);
  for (std::uint64_t offset = 0; offset < bytes; offset += piece) {
    const std::size_t length = static_cast<std::size_t>(std::min<std::uint64_t>(piece, bytes - offset));
    for (std::size_t word = 0; word < length / 8; ++word) {
      buffer.words()[word] = word_at(offset / 8 + word);
    }
    if (::pwrite(file.descriptor(), buffer.data(), length, static_cast<off_t>(offset)) !=
        static_cast<ssize_t>(length)) {
      throw StoreError(errno, "cannot write " + path + ": is the disk full?");
    }
  }
  ::fsync(file.descriptor());
}

/// A whole file as read-only memory, by Tiermap or by mmap.
class Mapping {
 public:
  explicit Mapping(const Arguments& arguments) {
    if (arguments.system == "tiermap") {
      cache_ = std::make_unique<Cache>(arguments.cache_options());
      region_ = cache_->map(arguments.file, arguments.region_options());
      data_ = region_.data();
      bytes_ = region_.size();
      return;
    }
    const File file(arguments.file, O_RDONLY);
    bytes_ = file.size();
    void* const address = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (address == MAP_FAILED) {
      throw PlatformError(errno, "cannot map " + arguments.file);
    }
    mapped_ = address;
    data_ = static_cast<const std::byte*>(address);
    const int advice = arguments.advice == "random"       ? MADV_RANDOM
                       : arguments.advice == "sequential" ? MADV_SEQUENTIAL
                                                          : MADV_NORMAL;
    ::madvise(address, bytes_, advice);
  }
  ~Mapping() {
    if (mapped_ != nullptr) {
      ::munmap(mapped_, bytes_);
    }
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const std::uint64_t* words() const noexcept {
    return static_cast<const std::uint64_t*>(static_cast<const void*>(data_));
  }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::optional<Statistics> statistics() const {
    return cache_ ? std::optional<Statistics>(cache_->statistics()) : std::nullopt;
  }
  /// The fault engine in use; empty for mmap.
  std::string fault_mode() const {
    if (!cache_) {
      return "";
    }
    const FaultMode mode = cache_->fault_mode();
    return mode == FaultMode::notify ? "notify" : mode == FaultMode::self_serving ? "self-serving" : "kernel";
  }

 private:
  std::unique_ptr<Cache> cache_;
  Region region_;
  void* mapped_ = nullptr;
  const std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Seconds since some fixed moment.
inline double now_seconds() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// CPU seconds of this process so far, those of the kernel on its behalf included.
inline double cpu_seconds() noexcept {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/// The fields that every application reports as well.
inline nlohmann::json describe(const char* workload, const Arguments& arguments, std::uint64_t bytes) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return {{"workload", workload},
          {"system", arguments.system},
          {"madvise", arguments.advice},
          {"bytes", bytes},
          {"budget_bytes", parse_size(arguments.budget, "budget")},
          {"page_size", arguments.page_size == "auto" ? 0 : parse_size(arguments.page_size, "page size")},
          {"block", parse_size(arguments.block, "block")},
          {"threads", arguments.threads},
          {"major_faults", usage.ru_majflt},
          {"peak_rss_bytes", static_cast<std::uint64_t>(usage.ru_maxrss) * 1024}};
}

/// Every counter, and the count and quantiles of every stage.
inline nlohmann::json describe(const Statistics& statistics) {
  nlohmann::json counters;
  for (std::size_t index = 0; index < counter_count; ++index) {
    counters[counter_name(static_cast<Counter>(index))] = statistics.counters[index];
  }
  nlohmann::json stages;
  for (std::size_t index = 0; index < stage_count; ++index) {
    const LatencyHistogram& stage = statistics.stages[index];
    stages[stage_name(static_cast<Stage>(index))] = {{"count", stage.count()},
                                                     {"p50_ns", stage.quantile_nanoseconds(0.5)},
                                                     {"p99_ns", stage.quantile_nanoseconds(0.99)}};
  }
  return {{"counters", counters}, {"stages", stages}};
}

/// Parses, runs, and turns errors into one line and exit code 2. `measure` returns the report; its member "verified"
/// decides between exit codes 0 and 1.
template <typename Measure>
int run_program(const char* description, int argc, char** argv, Measure measure) {
  CLI::App app{description};
  Arguments arguments;
  arguments.declare(app);
  CLI11_PARSE(app, argc, argv);
  try {
    if (arguments.generate) {
      const std::uint64_t bytes = parse_size(arguments.bytes, "size");
      generate_file(arguments.file, bytes);
      std::cout << nlohmann::json{{"workload", "generate"}, {"bytes", bytes}, {"verified", true}} << '\n';
      return 0;
    }
    const nlohmann::json report = measure(arguments);
    std::cout << (arguments.json ? report.dump() : report.dump(2)) << '\n';
    return report.at("verified").get<bool>() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << '\n';
    return 2;
  }
}

}  // namespace tiermap::bench
