// Sizes as people write them: 4096, 64KiB, 1.5GiB, 10MB; and budgets, which may also be a share of the free memory:
// 50%.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tiermap {

inline constexpr std::uint64_t kibi = 1024;

/// Bytes that `text` means: a decimal number, then nothing or B, KiB, MiB, GiB, TiB, PiB, KB, MB, GB, TB, PB, K, M, G,
/// T (powers of 1024 but for the ones that end in plain B after a letter without i; case does not matter; a fraction of
/// a byte is dropped). Throws OptionError that names `what` and the text.
std::uint64_t parse_size(std::string_view text, std::string_view what);

/// Bytes that `text` means: a size as above, or a share of `available_bytes` above 0% and up to 100% ("50%", "12.5%").
/// Throws OptionError that names `what` and the text.
std::uint64_t parse_budget(std::string_view text, std::string_view what, std::uint64_t available_bytes);

/// The same, of the memory that is left: the smallest of what the machine has available, what the control group's limit
/// leaves, and a quarter of a limit of addresses, less what this process's caches and tiers may still take.
std::uint64_t parse_budget(std::string_view text, std::string_view what);

/// The shortest exact form: 65536 is "64KiB", 65537 is "65537".
std::string format_size(std::uint64_t bytes);

/// For people: three significant digits, "1.21 GiB".
std::string format_size_rounded(double bytes);
inline std::string format_size_rounded(std::uint64_t bytes) {
  return format_size_rounded(static_cast<double>(bytes));
}

/// `text` in quotation marks, fit for a one-line message: control characters replaced, cut off when long.
std::string quote_value(std::string_view text);

}  // namespace tiermap
