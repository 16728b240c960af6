// Whether what the database gave is right: by a plain table in memory made from the genomes again, and by looking the
// same up in the store, past the mapping.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kmer/database_file.hpp"
#include "kmer/kmer_lookup.hpp"
#include "kmer/read_work.hpp"
#include "kmer/taxonomy.hpp"
#include "observe/progress.hpp"

namespace tiermap {

/// What is found wrong is one line; nothing is an empty one.
class DatabaseCheck {
 public:
  /// Takes about 100 bytes of memory for each, and of its list 64 for each element.
  static constexpr std::uint64_t most_kmers = 200'000;
  static constexpr std::uint64_t most_list_elements = 400'000;

  DatabaseCheck(const DatabaseHeader& header, const std::shared_ptr<Store>& store);

  /// Looks up all k-mers of the genomes or, if there are more than most_kmers, or their lists have more than
  /// most_list_elements, those that a hash picks, and up to as many that are not there.
  std::string compare_with_genomes(const std::vector<std::string>& genomes, const SequenceTaxa& taxa,
                                   KmerLookup& lookup, ProgressDisplay& progress);
  std::string compare_with_store(std::span<const Kmer> kmers, KmerLookup& lookup);
  std::string compare_with_store(std::span<const ReadSample> samples, const Taxonomy& taxonomy, KmerLookup& lookup);

 private:
  /// So that the file is gone through once, however much larger than memory it is.
  std::vector<Kmer> in_file_order(std::vector<Kmer> kmers) const;

  const DatabaseHeader& header_;
  DatabaseLookup<StoreWords> stored_;
};

/// Whether reads whose truth is known are where they belong, as far as chance allows: of a hundred at most two, and
/// three more, may get a taxon that they do not belong to, and half of them, or three fewer, must get their own.
std::string judge_accuracy(const ReadTotals& totals);

}  // namespace tiermap
