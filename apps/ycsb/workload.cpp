#include "ycsb/workload.hpp"

#include <fmt/format.h>

#include "parallel/random.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr double skew = 0.99;  // As in YCSB.

// Each position has a random word for each question.
constexpr std::uint64_t kind_salt = 0x6b;
constexpr std::uint64_t record_salt = 0x72;
constexpr std::uint64_t length_salt = 0x6c;

constexpr std::array<const char*, 3> distribution_names = {"uniform", "zipfian", "latest"};

/// Of a hundred operations, in the order of OperationKind.
std::array<std::uint32_t, operation_names.size()> percents_of(const std::string& letter) {
  if (letter == "a") {
    return {50, 50, 0, 0, 0};
  }
  if (letter == "b") {
    return {95, 5, 0, 0, 0};
  }
  if (letter == "c") {
    return {100, 0, 0, 0, 0};
  }
  if (letter == "d") {
    return {95, 0, 5, 0, 0};
  }
  if (letter == "e") {
    return {0, 0, 5, 95, 0};
  }
  if (letter == "f") {
    return {50, 0, 0, 0, 50};
  }
  throw OptionError(fmt::format("workload {} is unknown: choose one of a, b, c, d, e, f", letter));
}

}  // namespace

Workload::Workload(const Options& options, std::uint64_t records)
    : options_(options),
      records_(records),
      percent_(percents_of(options.letter)),
      distribution_(
          options.distribution.value_or(options.letter == "d" ? Distribution::latest : Distribution::zipfian)),
      ranks_(distribution_ == Distribution::uniform ? 1 : records, skew) {}

OperationKind Workload::kind_at(std::uint64_t index) const noexcept {
  auto number = static_cast<std::uint32_t>(random_word(options_.seed ^ kind_salt, index) % 100);
  std::size_t kind = 0;
  for (; number >= percent_[kind]; ++kind) {
    number -= percent_[kind];
  }
  return static_cast<OperationKind>(kind);
}

std::uint64_t Workload::count_inserts() const noexcept {
  std::uint64_t inserts = 0;
  for (std::uint64_t index = 0; has(OperationKind::insert) && index < options_.operations; ++index) {
    inserts += kind_at(index) == OperationKind::insert ? 1U : 0U;
  }
  return inserts;
}

Operation Workload::at(std::uint64_t index, std::uint64_t records) const noexcept {
  const std::uint64_t word = random_word(options_.seed ^ record_salt, index);
  const std::uint64_t length = 1 + random_word(options_.seed ^ length_salt, index) % options_.longest_scan;
  switch (distribution_) {
    case Distribution::uniform:
      return {kind_at(index), word % records, length};
    case Distribution::latest:
      return {kind_at(index), records - 1 - ranks_.rank_of(unit_number(word)), length};
    case Distribution::zipfian:
      break;
  }
  // Scattered by a hash as YCSB does: two ranks may be one record.
  return {kind_at(index), mix_word(ranks_.rank_of(unit_number(word))) % records_, length};
}

Distribution parse_distribution(const std::string& name) {
  for (std::size_t index = 0; index < distribution_names.size(); ++index) {
    if (name == distribution_names[index]) {
      return static_cast<Distribution>(index);
    }
  }
  throw OptionError(fmt::format("distribution {} is unknown: choose one of uniform, zipfian, latest", name));
}

const char* distribution_name(Distribution distribution) noexcept {
  return distribution_names[static_cast<std::size_t>(distribution)];
}

}  // namespace tiermap
