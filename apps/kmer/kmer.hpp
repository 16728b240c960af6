// Sequences of k bases as numbers: two bits a base (A 0, C 1, G 2, T 3), the first base in the highest of 2k bits. Of a
// k-mer and its reverse complement, which the other strand shows, only the lesser counts: the canonical one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tiermap {

using Kmer = std::uint64_t;

inline constexpr std::uint32_t least_k = 4;
inline constexpr std::uint32_t most_k = 31;

/// What base_code() gives for a letter that stands for several bases, such as N, and for what is no base at all.
inline constexpr std::uint8_t ambiguous_base = 4;
inline constexpr std::uint8_t not_a_base = 5;

namespace detail {
constexpr std::array<std::uint8_t, 256> base_codes() {
  std::array<std::uint8_t, 256> codes{};
  codes.fill(not_a_base);
  // IUPAC's letters for sets of bases.
  for (const char letter : std::string_view("NRYKMSWBDHV")) {
    codes[static_cast<unsigned char>(letter)] = ambiguous_base;
    codes[static_cast<unsigned char>(letter - 'A' + 'a')] = ambiguous_base;
  }
  constexpr std::string_view bases = "ACGT";
  for (std::uint8_t code = 0; code < bases.size(); ++code) {
    codes[static_cast<unsigned char>(bases[code])] = code;
    codes[static_cast<unsigned char>(bases[code] - 'A' + 'a')] = code;
  }
  codes['U'] = codes['T'];
  codes['u'] = codes['T'];
  return codes;
}
inline constexpr std::array<std::uint8_t, 256> base_code_table = base_codes();
}  // namespace detail

/// 0 to 3 for A, C, G and T or U in either case, else ambiguous_base or not_a_base.
constexpr std::uint8_t base_code(char letter) noexcept {
  return detail::base_code_table[static_cast<unsigned char>(letter)];
}

constexpr Kmer kmer_mask(std::uint32_t k) noexcept {
  return (Kmer{1} << (2 * k)) - 1;
}

constexpr Kmer reverse_complement(Kmer kmer, std::uint32_t k) noexcept {
  Kmer reversed = 0;
  for (std::uint32_t base = 0; base < k; ++base) {
    reversed = reversed << 2U | (3 - (kmer & 3U));
    kmer >>= 2U;
  }
  return reversed;
}

constexpr Kmer canonical_kmer(Kmer kmer, std::uint32_t k) noexcept {
  return std::min(kmer, reverse_complement(kmer, k));
}

/// Calls take(canonical k-mer) for every k bases in a row; a letter that is not one base begins anew.
template <typename Take>
void for_each_kmer(std::string_view bases, std::uint32_t k, const Take& take) {
  const Kmer mask = kmer_mask(k);
  Kmer forward = 0;
  Kmer reverse = 0;
  std::uint32_t held = 0;
  for (const char letter : bases) {
    const std::uint8_t code = base_code(letter);
    if (code >= ambiguous_base) {
      held = 0;
      continue;
    }
    forward = (forward << 2U | code) & mask;
    reverse = reverse >> 2U | Kmer{3U - code} << (2 * (k - 1));
    if (++held >= k) {
      take(std::min(forward, reverse));
    }
  }
}

inline std::string kmer_text(Kmer kmer, std::uint32_t k) {
  std::string text(k, 'A');
  for (auto letter = text.rbegin(); letter != text.rend(); ++letter) {
    *letter = "ACGT"[kmer & 3U];
    kmer >>= 2U;
  }
  return text;
}

}  // namespace tiermap
