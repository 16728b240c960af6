#include "kmer/hash_index.hpp"

#include <algorithm>

namespace tiermap {
namespace {

/// Ten homes for seven k-mers: then finding one takes 2.2 slots on average, and finding that there is none 6.
constexpr std::uint64_t homes_for_seven = 10;
/// Slots after all homes: of chains that begin at the last ones no more than some fifty are ever there.
constexpr std::uint64_t most_at_end = 4096;

}  // namespace

void HashWriter::plan(DatabaseHeader& header) noexcept {
  header.high_bits = 0;
  header.homes = header.kmers / 7 * homes_for_seven + homes_for_seven;
  header.slots = header.homes + std::min(header.kmers, most_at_end);
}

HashWriter::HashWriter(Store& store, const DatabaseHeader& header)
    : homes_(header.homes), slots_(store, header.slots_at) {}

void HashWriter::add(std::uint64_t hash, std::uint64_t list) {
  leave_empty_until(home_slot(hash, homes_));
  slots_.write(hash);
  slots_.write(list);
}

void HashWriter::leave_empty_until(std::uint64_t slot) {
  while (slots_.written() / 2 < slot) {
    slots_.write(0);
    slots_.write(0);
  }
}

std::uint64_t HashWriter::finish() {
  leave_empty_until(homes_);
  slots_.flush();
  return slots_.written() / 2;
}

}  // namespace tiermap
