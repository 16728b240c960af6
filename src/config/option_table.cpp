#include "config/option_table.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

#include "config/size.hpp"
#include "platform/control_characters.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebi = 1024 * kibi;
constexpr std::uint64_t gibi = 1024 * mebi;
constexpr std::uint64_t tebi = 1024 * gibi;

/// The policy of a cache that names none. See docs/policies.md for why.
constexpr std::string_view default_policy = "cyclic";

// In the order of the enumerators of FaultMode and Placement.
constexpr std::array<std::string_view, 4> fault_modes = {"auto", "notify", "self-serving", "kernel"};
constexpr std::array<std::string_view, 3> placements = {"auto", "move", "copy"};
constexpr std::array<std::string_view, 6> policies = {"fifo",           "lru",        "hot-fifo",
                                                      "segmented-fifo", "small-main", "cyclic"};

constexpr std::size_t longest_text = 63;
constexpr std::size_t longest_path = 4095;

using Id = OptionId;
using Type = OptionType;

// clang-format off: a row is easier to read when its parts have lines of their own.
constexpr std::array<OptionRow, option_count> table = {{
    {Id::buffer_size, "buffer_size", "TIERMAP_BUFFER_SIZE", "CacheOptions::budget_bytes",
     Type::budget, "bytes, or a share of the memory available", 20 * kibi, 128 * tebi, "50%", "", {},
     "Memory for pages and their bookkeeping, at least for four of the largest pages in use (eight where all pages are "
     "copied into place), and under 8 TiB but in the fault mode kernel; a share is one of the smallest of what the "
     "machine has available, what the control group's limit leaves, and a quarter of a limit of addresses (ulimit -v), "
     "less what other caches and the tiers in memory of the program may still take."},
    {Id::fault_mode, "fault_mode", "TIERMAP_FAULT_MODE", "CacheOptions::fault_mode",
     Type::choice, "", 0, fault_modes.size() - 1, "auto", "", fault_modes,
     "How an access to an absent page is served: by threads that read userfaultfd messages, by the faulting thread "
     "itself, or by the kernel's own mmap; auto takes what this machine allows."},
    {Id::placement, "placement", "TIERMAP_PLACEMENT", "CacheOptions::placement",
     Type::choice, "", 0, placements.size() - 1, "auto", "", placements,
     "How a filled page is put into place: by moving page-table entries or by copying; auto moves where the kernel "
     "can, but for pages up to 16 KiB that a fault brings, which are cheaper to copy."},
    {Id::policy, "policy", "TIERMAP_POLICY", "CacheOptions::policy",
     Type::choice, "", 0, policies.size() - 1, default_policy, "", policies,
     "Which page to give up when memory is full."},
    {Id::hot_share, "hot_share", "TIERMAP_HOT_SHARE", "CacheOptions::hot_share_percent",
     Type::percent, "percent of the frames", 0, 75, "25", "", {},
     "Share kept for pages that come back again and again, for the policy hot-fifo."},
    {Id::unmapped_share, "unmapped_share", "TIERMAP_UNMAPPED_SHARE", "CacheOptions::unmapped_share_percent",
     Type::percent, "percent of the frames", 0, 75, "0", "", {},
     "Share kept unmapped but in memory, so that a page that is still wanted shows itself; 0 leaves it to the policy, "
     "for pages above 16 KiB."},
    {Id::high_watermark, "high_watermark", "TIERMAP_HIGH_WATERMARK", "CacheOptions::high_watermark_percent",
     Type::percent, "percent of the frames", 1, 100, "95", "", {},
     "Frames in use, mapped or not yet written, at which the evictors begin. A policy that keeps a larger share of the "
     "frames unmapped has them begin, and rest, earlier. Where all that is mapped fits, they do not begin."},
    {Id::low_watermark, "low_watermark", "TIERMAP_LOW_WATERMARK", "CacheOptions::low_watermark_percent",
     Type::percent, "percent of the frames", 0, 100, "", "90, or 5 below the high watermark if that is less", {},
     "Frames in use at which the evictors rest; at most the high watermark. 100 less the share that the policy keeps "
     "unmapped, if that is lower (75 with cyclic as it is). Where neither watermark is chosen, of the part of memory "
     "that pages up to 16 KiB take, at most 4 MiB stay free, or 1 MiB a processor where that is more."},
    {Id::fillers, "fillers", "TIERMAP_FILLERS", "CacheOptions::fillers",
     Type::number, "threads", 1, 256, "2", "", {},
     "Threads that read from stores."},
    {Id::evictors, "evictors", "TIERMAP_EVICTORS", "CacheOptions::evictors",
     Type::number, "threads", 1, 256, "1", "", {},
     "Threads that write back and free frames."},
    {Id::managers, "managers", "TIERMAP_MANAGERS", "CacheOptions::managers",
     Type::number, "threads", 1, 64, "2", "", {},
     "Threads that read fault messages, in the fault mode notify. The first serves alone while few reads are under "
     "way; the others are called when it has ten or more."},
    {Id::max_fault_events, "max_fault_events", "TIERMAP_MAX_FAULT_EVENTS", "CacheOptions::max_fault_events",
     Type::number, "messages", 1, 1024, "64", "", {},
     "Fault messages read at once."},
    {Id::shards, "shards", "TIERMAP_SHARDS", "CacheOptions::shards",
     Type::number, "userfaultfds", 1, 64, "", "1 for every 16 processors", {},
     "userfaultfds among which regions are dealt out: fewer where their number times the machine's memory, or times "
     "the budget if that is more, is over 8 TiB."},
    {Id::spin, "spin", "TIERMAP_SPIN", "CacheOptions::spin_microseconds",
     Type::number, "microseconds", 0, 1000, "20", "", {},
     "How long an idle manager polls before it sleeps; three times as long while two or more of its reads are under "
     "way."},
    {Id::adapt, "adapt", "TIERMAP_ADAPT", "CacheOptions::adapt_budget",
     Type::boolean, "", 0, 1, "false", "", {},
     "Whether the budget follows the machine's free memory."},
    {Id::adapt_history, "adapt_history", "TIERMAP_ADAPT_HISTORY", "CacheOptions::adapt_history_periods",
     Type::number, "periods", 1, 100, "5", "", {},
     "How far back the forecast of free memory looks."},
    {Id::adapt_forecast, "adapt_forecast", "TIERMAP_ADAPT_FORECAST", "CacheOptions::adapt_forecast_periods",
     Type::number, "periods", 1, 100, "10", "", {},
     "How far ahead the forecast of free memory looks."},
    {Id::adapt_period, "adapt_period", "TIERMAP_ADAPT_PERIOD", "CacheOptions::adapt_period_milliseconds",
     Type::number, "milliseconds", 10, 60000, "100", "", {},
     "Time between two looks at the machine's free memory."},
    {Id::publish, "publish", "TIERMAP_PUBLISH", "CacheOptions::publish_statistics",
     Type::boolean, "", 0, 1, "true", "", {},
     "Whether `tiermap top` of the same user can see the cache."},
    {Id::name, "name", "TIERMAP_NAME", "CacheOptions::name",
     Type::text, "", 1, longest_text, "", "the program's name", {},
     "What `tiermap top` calls the cache."},
    {Id::trace, "trace", "TIERMAP_TRACE", "CacheOptions::trace_file",
     Type::text, "", 1, longest_path, "", "none: nothing is recorded", {},
     "File in which every page access that the engine sees is recorded, for `tiermap replay`; `%p` in its name becomes "
     "the number of the process, and further caches of a process add `.2`, `.3` and so on."},
    {Id::page_size, "page_size", "TIERMAP_PAGE_SIZE", "RegionOptions::page_size_bytes",
     Type::power_of_two_size, "bytes", 4 * kibi, 64 * mebi, "64KiB", "", {},
     "The UPage: what a region fills and evicts at once. Unless it is chosen, it follows the access: pages of 4KiB "
     "where those that are missed lie far apart, and of 1MiB where all of one is read ahead; and a region that is "
     "mapped with advice random has pages of 4KiB."},
    {Id::read_ahead, "read_ahead", "TIERMAP_READ_AHEAD", "RegionOptions::read_ahead_bytes",
     Type::size, "bytes", 0, gibi, "4MiB", "", {},
     "The most that is read ahead of one sequential or strided stream; 0 turns it off."},
}};
// clang-format on

constexpr bool rows_are_in_order() {
  for (std::size_t row = 0; row < table.size(); ++row) {
    if (static_cast<std::size_t>(table[row].id) != row) {
      return false;
    }
  }
  return true;
}
static_assert(rows_are_in_order(), "a row's place is its OptionId");

[[noreturn]] void refuse(const OptionRow& row, std::string_view what, std::string_view value,
                         std::string_view problem) {
  throw OptionError(std::string(what) + " " + std::string(value) + " " + std::string(problem) + ": choose " +
                    describe_range(row));
}

/// A number as messages and reports write it.
std::string format_number(const OptionRow& row, std::uint64_t number) {
  switch (row.type) {
    case Type::budget:
    case Type::size:
    case Type::power_of_two_size:
      return format_size(number);
    case Type::boolean:
      return number != 0 ? "true" : "false";
    case Type::choice:
      return number < row.choices.size() ? std::string(row.choices[number]) : std::to_string(number);
    case Type::percent:
    case Type::number:
    case Type::text:
      break;
  }
  return std::to_string(number);
}

void check_range(const OptionRow& row, std::uint64_t number, std::string_view what, std::string_view value) {
  if (number < row.minimum || number > row.maximum) {
    refuse(row, what, value, "is out of range");
  }
  if (row.type == Type::power_of_two_size && !std::has_single_bit(number)) {
    refuse(row, what, value, "is not a power of two");
  }
}

std::uint64_t parse_number(const OptionRow& row, std::string_view text, std::string_view what) {
  std::string_view digits = text;
  if (row.type == Type::percent && digits.ends_with('%')) {
    digits.remove_suffix(1);
  }
  std::uint64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error == std::errc::result_out_of_range && stop == end) {
    refuse(row, what, quote_value(text), "is out of range");
  }
  if (error != std::errc{} || stop != end) {
    refuse(row, what, quote_value(text), "is not a whole number");
  }
  return number;
}

std::uint64_t parse_boolean(const OptionRow& row, std::string_view text, std::string_view what) {
  for (const std::string_view word : {"true", "yes", "on", "1"}) {
    if (text == word) {
      return 1;
    }
  }
  for (const std::string_view word : {"false", "no", "off", "0"}) {
    if (text == word) {
      return 0;
    }
  }
  refuse(row, what, quote_value(text), "is neither true nor false");
}

std::uint64_t parse_choice(const OptionRow& row, std::string_view text, std::string_view what) {
  const auto found = std::ranges::find(row.choices, text);
  if (found == row.choices.end()) {
    refuse(row, what, quote_value(text), "is unknown");
  }
  return static_cast<std::uint64_t>(found - row.choices.begin());
}

void check_text(const OptionRow& row, std::string_view text, std::string_view what) {
  const bool printable = std::ranges::none_of(text, is_control_character);
  if (text.size() < row.minimum || text.size() > row.maximum || !printable) {
    refuse(row, what, quote_value(text), "cannot be shown");
  }
}

std::uint64_t parse_by_type(const OptionRow& row, std::string_view text, std::string_view what) {
  switch (row.type) {
    case Type::budget:
      return parse_budget(text, what);
    case Type::size:
    case Type::power_of_two_size:
      return parse_size(text, what);
    case Type::percent:
    case Type::number:
      return parse_number(row, text, what);
    case Type::boolean:
      return parse_boolean(row, text, what);
    case Type::choice:
      return parse_choice(row, text, what);
    case Type::text:
      break;
  }
  check_text(row, text, what);
  return row.minimum;
}

}  // namespace

const std::array<OptionRow, option_count>& option_table() noexcept {
  return table;
}

const OptionRow& option_row(OptionId id) noexcept {
  return table[static_cast<std::size_t>(id)];
}

OptionValue parse_option(const OptionRow& row, std::string_view text, std::string_view what) {
  if (text.empty()) {
    refuse(row, what, "''", "is empty");
  }
  OptionValue value{parse_by_type(row, text, what), std::string(text)};
  if (row.type == Type::budget && text.ends_with('%')) {
    // A small share of little memory is not the fault of who wrote it; whether it is enough, the cache knows.
    value.number = std::max(value.number, row.minimum);
    return value;
  }
  if (row.type != Type::text) {
    check_range(row, value.number, what, quote_value(text));
    value.text = format_number(row, value.number);
  }
  return value;
}

OptionValue make_option(const OptionRow& row, std::uint64_t number, std::string_view what) {
  OptionValue value{number, format_number(row, number)};
  check_range(row, number, what, value.text);
  return value;
}

std::string describe_range(const OptionRow& row) {
  switch (row.type) {
    case Type::boolean:
      return "true or false";
    case Type::text:
      return std::to_string(row.minimum) + " to " + std::to_string(row.maximum) + " printable characters";
    case Type::choice: {
      std::string words;
      for (std::size_t choice = 0; choice < row.choices.size(); ++choice) {
        words += choice == 0 ? "" : choice + 1 == row.choices.size() ? " or " : ", ";
        words += row.choices[choice];
      }
      return words;
    }
    case Type::budget:
    case Type::size:
    case Type::power_of_two_size:
    case Type::percent:
    case Type::number:
      break;
  }
  std::string range = format_number(row, row.minimum) + " to " + format_number(row, row.maximum);
  if (row.type == Type::budget) {
    range += ", or above 0% and up to 100%";
  } else if (row.type == Type::power_of_two_size) {
    range += ", a power of two";
  }
  return range;
}

std::string describe_option(const OptionRow& row) {
  std::string sentence(row.meaning);
  sentence.pop_back();  // The full stop.
  sentence += " (" + describe_range(row);
  if (!row.unit.empty() && row.type != Type::budget) {
    sentence += "; " + std::string(row.unit);
  }
  return sentence + ").";
}

std::string_view fault_mode_name(FaultMode mode) noexcept {
  return fault_modes[static_cast<std::size_t>(mode)];
}

std::string_view placement_name(Placement placement) noexcept {
  return placements[static_cast<std::size_t>(placement)];
}

FaultMode parse_fault_mode(std::string_view text, std::string_view what) {
  return static_cast<FaultMode>(parse_option(option_row(Id::fault_mode), text, what).number);
}

}  // namespace tiermap
