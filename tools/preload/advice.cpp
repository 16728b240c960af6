#include "preload/advice.hpp"

#include <errno.h>

#include <algorithm>
#include <array>
#include <utility>

#include "config/option_table.hpp"
#include "config/resolve.hpp"
#include "config/size.hpp"
#include "tune/decision_tree.hpp"

namespace tiermap::preload {
namespace {

/// In tenths of a percent, since this library formats numbers without fmt.
std::string percent_of(std::uint64_t part, std::uint64_t whole) {
  const std::uint64_t tenths = whole == 0 ? 0 : (part * 1000 + whole / 2) / whole;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

/// As `tiermap run` takes it; what has no option there is set as a variable.
std::string option_of(const std::string& variable, const std::string& value) {
  constexpr std::array<std::pair<OptionId, const char*>, 4> options = {{{OptionId::buffer_size, "--buffer "},
                                                                        {OptionId::page_size, "--page-size "},
                                                                        {OptionId::policy, "--policy "},
                                                                        {OptionId::read_ahead, "--read-ahead "}}};
  for (const auto& [id, option] : options) {
    if (variable == option_row(id).environment) {
      return option + value;
    }
  }
  return variable + "=" + value;
}

std::string line_of(const Settings& settings, const std::string& why) {
  std::string text = "tiermap: try";
  for (const auto& [variable, value] : settings) {
    text += " " + option_of(variable, value);
  }
  return text + ": " + why + "\n";
}

}  // namespace

std::string program_name() {
  return program_invocation_short_name;
}

std::string counted(std::uint64_t number, const std::string& thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

std::string describe(const Statistics& now) {
  const std::uint64_t faults = now[Counter::read_faults] + now[Counter::write_faults];
  const std::uint64_t ahead = now[Counter::prefetch_used];
  const std::uint64_t again = now[Counter::rescues] > ahead ? now[Counter::rescues] - ahead : 0;
  return "tiermap: " + counted(faults, "fault") + "; " +
         percent_of(now[Counter::rescues], std::max<std::uint64_t>(faults, 1)) +
         " of them found their page in memory (" + std::to_string(ahead) + " read ahead, " + std::to_string(again) +
         " not gone yet)\ntiermap: " + format_size_rounded(now[Counter::read_bytes]) + " read, " +
         format_size_rounded(now[Counter::written_bytes]) + " written, " + counted(now[Counter::evictions], "page") +
         " given up; " + format_size_rounded(now.resident_bytes) + " of a budget of " +
         format_size_rounded(now.budget_bytes) + " in use at the end\n";
}

std::string advise(const Statistics& now, std::uint64_t page_bytes) {
  constexpr std::uint64_t fewest_fills = 64;
  if (now[Counter::fills] < fewest_fills) {
    return "tiermap: too little was read to tell which setting would suit better\n";
  }
  const Character character = characterise(now);
  if (character.waiting > 0.5 && character.evicts) {
    return line_of({{"TIERMAP_BUFFER_SIZE", format_size(now.budget_bytes * 2)}},
                   "more than half of the faults waited for memory");
  }
  const PageSizes sizes = propose_page_sizes(character, page_bytes, now.budget_bytes);
  if (!sizes.likely.empty()) {
    return line_of({{"TIERMAP_PAGE_SIZE", format_size(sizes.likely.front())}}, sizes.why_likely);
  }
  const std::uint64_t read_ahead = resolve(RegionOptions{}).read_ahead_bytes;
  if (const auto steps = propose_read_ahead(character, read_ahead, now.budget_bytes); !steps.empty()) {
    return line_of(steps.front().settings, steps.front().why);
  }
  return "tiermap: no setting stands out; `tiermap tune` tries them\n";
}

}  // namespace tiermap::preload
