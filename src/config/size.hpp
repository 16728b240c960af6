// Sizes as people write them: 4096, 64KiB, 1.5GiB, 10MB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tiermap {

/// Bytes that `text` means: a decimal number, then nothing or B, KiB, MiB, GiB, TiB, PiB, KB, MB, GB, TB, PB, K, M, G, T
/// (powers of 1024 but for the ones that end in plain B after a letter without i; case does not matter). Throws
/// OptionError that names `what` and the text.
std::uint64_t parse_size(std::string_view text, std::string_view what);

/// The shortest exact form: 65536 is "64KiB", 65537 is "65537".
std::string format_size(std::uint64_t bytes);

/// For people: three significant digits, "1.21 GiB".
std::string format_size_rounded(double bytes);

}  // namespace tiermap
