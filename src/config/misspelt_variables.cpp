#include "config/misspelt_variables.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <numeric>

#include "config/option_table.hpp"
#include "platform/write_unless_closed.hpp"

namespace tiermap {
namespace {

/// Those that are no options.
constexpr std::array<std::string_view, 11> other_variables = {
    "TIERMAP_CONFIG",     "TIERMAP_PARQUET_LIBRARY", "TIERMAP_SERVERS", "TIERMAP_USER",  "TIERMAP_SECRET",
    "TIERMAP_JOB",        "TIERMAP_SECRET_FILE",     "TIERMAP_RANK",    "TIERMAP_RANKS", "TIERMAP_RANK_HOST",
    "TIERMAP_NODE_CACHE",
};
/// Set by `tiermap run` for its library.
constexpr std::string_view prefix_of_run = "TIERMAP_RUN_";

/// How many letters are to be put in, taken out or replaced.
std::size_t distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t line = 1; line <= one.size(); ++line) {
    std::size_t diagonal = row[0]++;
    for (std::size_t column = 1; column <= other.size(); ++column) {
      const std::size_t replaced = diagonal + (one[line - 1] == other[column - 1] ? 0 : 1);
      diagonal = row[column];
      row[column] = std::min({replaced, row[column] + 1, row[column - 1] + 1});
    }
  }
  return row.back();
}

/// The letters of a name behind its prefix: whether a word is set off by a line is what is easily mistaken.
std::string letters_of(std::string_view name, std::string_view prefix) {
  std::string letters(name.substr(prefix.size()));
  std::erase(letters, '_');
  return letters;
}

/// Of `known` what `name` is nearly; empty if it is like none.
std::string_view meant_by(std::string_view name, std::string_view prefix, std::span<const std::string_view> known) {
  const std::string letters = letters_of(name, prefix);
  std::string_view nearest;
  std::size_t least = ~std::size_t{0};
  for (const std::string_view other : known) {
    const std::string its_letters = letters_of(other, prefix);
    const std::size_t differences = distance(letters, its_letters);
    if (differences < least && 2 * differences < std::max(letters.size(), its_letters.size())) {
      nearest = other;
      least = differences;
    }
  }
  return nearest;
}

}  // namespace

std::vector<std::string> find_misspelt_variables(std::string_view prefix, std::span<const std::string_view> known) {
  std::vector<std::string> lines;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(prefix) || name.starts_with(prefix_of_run) || std::ranges::count(known, name) != 0) {
      continue;
    }
    if (const std::string_view meant = meant_by(name, prefix, known); !meant.empty()) {
      lines.push_back(std::string(name) + " is set, and nothing reads it: did you mean " + std::string(meant) + "?");
    }
  }
  return lines;
}

std::vector<std::string_view> known_variables() {
  std::vector<std::string_view> known(other_variables.begin(), other_variables.end());
  for (const OptionRow& row : option_table()) {
    known.push_back(row.environment);
  }
  return known;
}

void tell_of_misspelt_variables() noexcept {
  static std::atomic_flag told;
  if (told.test_and_set() || std::getenv("TIERMAP_RUN_PROCESS") != nullptr) {
    return;
  }
  try {
    for (const std::string& line : find_misspelt_variables("TIERMAP_", known_variables())) {
      tell_unless_closed("tiermap: " + line + "\n");
    }
  } catch (const std::exception&) {  // Out of memory: who needs the cache will be told.
  }
}

}  // namespace tiermap
