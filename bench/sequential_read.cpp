// One cold pass over a file from its first byte to its last: the sum of its words, checked against what they should be.
#include "measure.hpp"

namespace tiermap::bench {
namespace {

std::uint64_t sum_words(const std::uint64_t* words, std::uint64_t count) noexcept {
  std::uint64_t sum = 0;
  for (std::uint64_t word = 0; word < count; ++word) {
    sum += words[word];
  }
  return sum;
}

std::uint64_t sum_direct(const Arguments& arguments) {
  const File file(arguments.file, O_RDONLY | O_DIRECT);
  const std::uint64_t block = parse_size(arguments.block, "block");
  const AlignedBuffer buffer(static_cast<std::size_t>(block));
  std::uint64_t sum = 0;
  for (;;) {
    const ssize_t got = ::read(file.descriptor(), buffer.data(), static_cast<std::size_t>(block));
    if (got < 0) {
      throw StoreError(errno, "cannot read " + arguments.file + " directly: choose a file on a disk");
    }
    if (got == 0) {
      return sum;
    }
    sum += sum_words(buffer.words(), static_cast<std::uint64_t>(got) / 8);
  }
}

nlohmann::json measure(const Arguments& arguments) {
  std::uint64_t sum = 0;
  std::string fault_mode;
  std::optional<Statistics> statistics;
  const double cpu_started = cpu_seconds();
  const double started = now_seconds();
  // Mapping and unmapping are part of the job, as opening is for the direct reads.
  if (arguments.system == "direct") {
    sum = sum_direct(arguments);
  } else {
    const Mapping mapping(arguments);
    sum = sum_words(mapping.words(), mapping.bytes() / 8);
    statistics = mapping.statistics();
    fault_mode = mapping.fault_mode();
  }
  const double seconds = now_seconds() - started;
  const double cpu = cpu_seconds() - cpu_started;

  const std::uint64_t bytes = File(arguments.file, O_RDONLY).size();
  std::uint64_t expected = 0;
  for (std::uint64_t word = 0; word < bytes / 8; ++word) {
    expected += word_at(word);
  }
  nlohmann::json report = describe("sequential-read", arguments, bytes);
  report["seconds"] = seconds;
  report["operations"] = bytes / 8;
  report["bytes_per_second"] = static_cast<double>(bytes) / seconds;
  report["cpu_seconds"] = cpu;
  report["verified"] = sum == expected;
  if (statistics) {
    report["fault_mode"] = fault_mode;
    report["statistics"] = describe(*statistics);
  }
  return report;
}

}  // namespace
}  // namespace tiermap::bench

int main(int argc, char** argv) {
  return tiermap::bench::run_program("One sequential pass over a file", argc, argv, tiermap::bench::measure);
}
