// What UMap's programs can choose: eight numbers, each by a UMAP_ variable or a umapcfg_set_ function.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tiermap/options.hpp"

namespace tiermap::umap_interface {

enum class Setting : std::uint8_t {
  page_size,         ///< Bytes.
  page_fillers,      ///< Threads.
  page_evictors,     ///< Threads.
  high_threshold,    ///< Percent of the buffer.
  low_threshold,     ///< Percent of the buffer.
  buffer_pages,      ///< Pages.
  read_ahead,        ///< Pages.
  max_fault_events,  ///< Messages read at once.
};
inline constexpr std::size_t setting_count = 8;

struct SettingRow {
  Setting setting;
  std::string_view variable;  ///< UMAP_PAGESIZE.
  std::string_view
      tiermap_option;  ///< Which decides where the variable is not set: page_size, as in TIERMAP_PAGE_SIZE.
  std::uint64_t minimum;
  std::uint64_t maximum;
  std::string_view unit;
};

/// In the order of Setting.
const std::array<SettingRow, setting_count>& setting_rows();
inline const SettingRow& setting_row(Setting setting) {
  return setting_rows()[static_cast<std::size_t>(setting)];
}

/// What was decided somewhere; what was not takes UMap's default.
using Choices = std::array<std::optional<std::uint64_t>, setting_count>;

/// Throws OptionError if the value is out of range, or no multiple of the system's page size where it has to be; `what`
/// is what messages call it.
void check_setting(const SettingRow& row, std::uint64_t value, std::string_view what);

/// What `set_in_code` leaves open is taken from the UMAP_ variable, and where there is none from Tiermap's own variable
/// or file for the same thing. Throws OptionError, one line that names variable, value and remedy.
Choices decide(const Choices& set_in_code);

/// All eight, with what follows from them.
class Settings {
 public:
  explicit Settings(const Choices& choices);

  std::uint64_t operator[](Setting setting) const { return values_[static_cast<std::size_t>(setting)]; }
  const Choices& choices() const { return choices_; }
  /// Throws OptionError where two of them contradict each other.
  void check() const;

  /// What the engine pages with: the largest power of two that divides the page size, at most 64 MiB.
  std::uint64_t engine_page_bytes() const;
  std::uint64_t read_ahead_bytes() const;
  /// What eight pages cost: an instruction can need four, and copying doubles that.
  std::uint64_t least_budget_bytes() const;
  /// What the buffer's pages cost, at least that.
  std::uint64_t budget_bytes() const;
  CacheOptions cache_options() const;

 private:
  Choices choices_;
  std::array<std::uint64_t, setting_count> values_;
};

}  // namespace tiermap::umap_interface
