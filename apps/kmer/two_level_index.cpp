#include "kmer/two_level_index.hpp"

#include <algorithm>
#include <bit>

namespace tiermap {
namespace {

/// Canonical k-mers are twice as dense among the low numbers as on average, so that a page of 4 KiB holds what most
/// entries of the table lead to.
constexpr std::uint64_t kmers_for_each_entry = 64;

}  // namespace

void TwoLevelWriter::plan(DatabaseHeader& header) noexcept {
  const std::uint64_t entries = std::bit_ceil(std::max<std::uint64_t>(header.kmers / kmers_for_each_entry, 1));
  header.high_bits = std::min(static_cast<std::uint32_t>(std::bit_width(entries)) - 1, 2 * header.k);
  header.homes = (std::uint64_t{1} << header.high_bits) + 1;
  header.slots = header.kmers;
}

TwoLevelWriter::TwoLevelWriter(Store& store, const DatabaseHeader& header)
    : low_bits_(2 * header.k - header.high_bits),
      table_words_(header.homes),
      table_(store, header.table_at),
      slots_(store, header.slots_at) {}

void TwoLevelWriter::add(Kmer kmer, std::uint64_t list) {
  while (table_.written() <= kmer >> low_bits_) {
    table_.write(kmers_);
  }
  slots_.write(kmer & ((std::uint64_t{1} << low_bits_) - 1));
  slots_.write(list);
  ++kmers_;
}

void TwoLevelWriter::finish() {
  while (table_.written() < table_words_) {
    table_.write(kmers_);
  }
  table_.flush();
  slots_.flush();
}

}  // namespace tiermap
