// The index of the DI-MMAP paper (section 4.1, figure 2). A table tells for the high bits of a k-mer where the sorted
// low bits of all k-mers begin that have these high bits; beside each stands where the k-mer's list of taxa is. With
// some 64 k-mers for each entry of the table, what is searched lies on one page or two of 4 KiB.
#pragma once

#include <cstdint>
#include <string>

#include "kmer/database_file.hpp"
#include "kmer/file_words.hpp"

namespace tiermap {

/// Slots: the first, and the one after the last.
struct SlotRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Those among which the k-mer is, if it is anywhere. `words` are those of the file `name`. Throws StoreError if it is
/// damaged.
template <typename Words>
SlotRange slots_in_two_levels(const DatabaseHeader& header, Words& words, Kmer kmer, const std::string& name) {
  const std::uint64_t entry = header.table_at / sizeof(std::uint64_t) + (kmer >> (2 * header.k - header.high_bits));
  const SlotRange range{words[entry], words[entry + 1]};
  if (range.begin > range.end || range.end > header.slots) {
    refuse_damaged_database(name);
  }
  return range;
}

/// Where the k-mer's list begins, 0 if there is none. Throws StoreError if the file is damaged.
template <typename Words>
std::uint64_t find_in_two_levels(const DatabaseHeader& header, Words& words, Kmer kmer, const std::string& name) {
  const std::uint64_t low = kmer & ((std::uint64_t{1} << (2 * header.k - header.high_bits)) - 1);
  const std::uint64_t slots = header.slots_at / sizeof(std::uint64_t);
  SlotRange range = slots_in_two_levels(header, words, kmer, name);
  while (range.begin < range.end) {
    const std::uint64_t middle = range.begin + (range.end - range.begin) / 2;
    const std::uint64_t found = words[slots + 2 * middle];
    if (found == low) {
      return words[slots + 2 * middle + 1];
    }
    (found < low ? range.begin : range.end) = found < low ? middle + 1 : middle;
  }
  return 0;
}

/// Writes the index of k-mers that come in ascending order.
class TwoLevelWriter {
 public:
  /// Sets what the index decides of a header in which k and `kmers` are right.
  static void plan(DatabaseHeader& header) noexcept;

  TwoLevelWriter(Store& store, const DatabaseHeader& header);
  void add(Kmer kmer, std::uint64_t list);
  void finish();

 private:
  std::uint32_t low_bits_;
  std::uint64_t table_words_;
  std::uint64_t kmers_ = 0;
  WordWriter table_;
  WordWriter slots_;
};

}  // namespace tiermap
