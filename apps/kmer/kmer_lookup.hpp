// The list of taxa of a k-mer, whoever holds it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kmer/database_file.hpp"
#include "kmer/hash_index.hpp"
#include "kmer/two_level_index.hpp"
#include "tiermap/region.hpp"

namespace tiermap {

class KmerLookup {
 public:
  virtual ~KmerLookup() = default;
  /// What messages call who holds it.
  virtual const std::string& name() const noexcept = 0;
  /// Puts the k-mer's taxa, in ascending order, into `list`; false, and none, if there is no such k-mer.
  virtual bool find(Kmer kmer, std::vector<TaxonCount>& list) = 0;
  /// Says that find() will be asked for these next.
  virtual void announce(std::span<const Kmer>) {}
};

/// Told which ranges of the file will be read, in bytes.
using RangesAhead = std::function<void(std::span<const ByteRange>)>;

/// In a database, mapped or read. Thread-safe if Words is. Throws StoreError if what it finds cannot be.
template <typename Words>
class DatabaseLookup final : public KmerLookup {
 public:
  /// `ahead` may be empty: then announce() does nothing.
  DatabaseLookup(const DatabaseHeader& header, Words words, std::string name, RangesAhead ahead = {})
      : header_(header), words_(std::move(words)), name_(std::move(name)), ahead_(std::move(ahead)) {}

  const std::string& name() const noexcept override { return name_; }
  bool find(Kmer kmer, std::vector<TaxonCount>& list) override {
    list.clear();
    std::uint64_t position = position_of(kmer);
    if (position == 0) {
      return false;
    }
    const std::uint64_t lists = header_.lists_at / word_bytes;
    for (std::uint64_t word = 0; (word & last_in_list) == 0; ++position) {
      if (position >= header_.list_words) {
        refuse_damaged_database(name_);
      }
      word = words_[lists + position];
      list.push_back(list_element(word));
    }
    return true;
  }

  /// The slots of all k-mers come at once, then the lists of those that are there: two waits in place of two for each.
  void announce(std::span<const Kmer> kmers) override {
    if (!ahead_) {
      return;
    }
    std::vector<ByteRange> ranges;
    for (const Kmer kmer : kmers) {
      if (const ByteRange range = slots_of(kmer); range.bytes > 0) {
        ranges.push_back(range);
      }
    }
    ahead_(ranges);
    ranges.clear();
    for (const Kmer kmer : kmers) {
      if (const std::uint64_t position = position_of(kmer); position != 0 && position < header_.list_words) {
        ranges.push_back({header_.lists_at + position * word_bytes, word_bytes});
      }
    }
    ahead_(ranges);
  }

 private:
  static constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);
  static constexpr std::uint64_t slot_bytes = 2 * word_bytes;

  std::uint64_t position_of(Kmer kmer) {
    return header_.index == IndexKind::two_level ? find_in_two_levels(header_, words_, kmer, name_)
                                                 : find_by_hash(header_, words_, kmer);
  }

  ByteRange slots_of(Kmer kmer) {
    if (header_.index == IndexKind::two_level) {
      const SlotRange range = slots_in_two_levels(header_, words_, kmer, name_);
      return {header_.slots_at + range.begin * slot_bytes, (range.end - range.begin) * slot_bytes};
    }
    return {header_.slots_at + home_slot(hash_of(kmer), header_.homes) * slot_bytes, slot_bytes};
  }

  const DatabaseHeader header_;
  Words words_;
  std::string name_;
  RangesAhead ahead_;
};

}  // namespace tiermap
