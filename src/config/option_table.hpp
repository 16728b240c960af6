// Every option that the environment and the YAML file can set, one row each. What is written in a row is all there is
// to know about an option: resolve() checks by it, `tiermap config` and docs/reference.md print it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tiermap/options.hpp"

namespace tiermap {

/// Names a row. Those of a cache come first, those of a region last.
enum class OptionId : std::uint8_t {
  buffer_size,
  fault_mode,
  placement,
  policy,
  hot_share,
  unmapped_share,
  high_watermark,
  low_watermark,
  fillers,
  evictors,
  managers,
  max_fault_events,
  shards,
  spin,
  adapt,
  adapt_history,
  adapt_forecast,
  adapt_period,
  publish,
  name,
  trace,
  page_size,
  read_ahead,
  count_
};
inline constexpr std::size_t option_count = static_cast<std::size_t>(OptionId::count_);
inline constexpr OptionId first_region_option = OptionId::page_size;

/// How an option's text is read.
enum class OptionType : std::uint8_t {
  budget,             ///< A size, or a share of the memory available.
  size,               ///< Bytes.
  power_of_two_size,  ///< Bytes, a power of two.
  percent,            ///< A whole number; a percent sign may follow.
  number,             ///< A whole number.
  boolean,            ///< true, false, yes, no, on, off, 1, 0.
  choice,             ///< One of a list of words; the value is its place in the list.
  text,               ///< So many printable characters.
};

/// A value that has been read, not yet known to be in range.
struct OptionValue {
  std::uint64_t number = 0;  ///< All types but text: bytes, percent, a count, 0 or 1, the place of a choice.
  std::string text;          ///< As it would be written.
};

struct OptionRow {
  OptionId id;
  std::string_view name;         ///< In YAML.
  std::string_view environment;  ///< The variable.
  std::string_view code;         ///< The member that sets it in code.
  OptionType type;
  std::string_view unit;  ///< In words; empty where the type says it all.
  std::uint64_t minimum;
  std::uint64_t maximum;
  std::string_view default_text;      ///< As it would be written; empty if it is computed.
  std::string_view computed_default;  ///< In words, where it is computed.
  std::span<const std::string_view> choices;
  std::string_view meaning;  ///< One sentence.
};

/// In the order of OptionId.
const std::array<OptionRow, option_count>& option_table() noexcept;
const OptionRow& option_row(OptionId id) noexcept;

/// The value that `text` means. Throws OptionError that names `what`, the text, and what may be written instead.
OptionValue parse_option(const OptionRow& row, std::string_view text, std::string_view what);

/// The value that code gave as a number. Throws like parse_option().
OptionValue make_option(const OptionRow& row, std::uint64_t number, std::string_view what);

/// What may be written, in words: "4KiB to 64MiB, a power of two", "1 to 256", "true or false".
std::string describe_range(const OptionRow& row);

/// The row's meaning, with unit and range, in one sentence.
std::string describe_option(const OptionRow& row);

/// The words that environment, YAML and command lines use.
std::string_view fault_mode_name(FaultMode mode) noexcept;
std::string_view placement_name(Placement placement) noexcept;

/// The value that a command line's `text` means. Throws OptionError that names `what`, the text and the choices.
FaultMode parse_fault_mode(std::string_view text, std::string_view what);

}  // namespace tiermap
