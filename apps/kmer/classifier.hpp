// To which taxon a read belongs. Each of its k-mers votes for the lowest taxon that all organisms with this k-mer
// belong to; the read gets the taxon whose way from the root has most votes, or, if several have as many, what they
// have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kmer/kmer_lookup.hpp"
#include "kmer/taxonomy.hpp"

namespace tiermap {

struct Classification {
  TaxonId taxon = no_taxon;  ///< no_taxon if no k-mer was found.
  std::uint32_t kmers = 0;   ///< That the read has.
  std::uint32_t found = 0;   ///< Of them, in the database.
  bool operator==(const Classification&) const = default;
};

/// For one thread at a time.
class Classifier {
 public:
  /// K-mers that are looked up at once: a short read's. Many threads' together must have room in a small budget.
  static constexpr std::size_t most_announced = 128;

  Classifier(const Taxonomy& taxonomy, std::uint32_t k);

  /// Throws StoreError if the lookup names a taxon that is not in the taxonomy.
  Classification classify(std::string_view bases, KmerLookup& lookup);

 private:
  /// Of the k-mers that were gathered, which are none then.
  void look_up(KmerLookup& lookup, Classification& result);
  void vote(const std::string& database);
  std::uint64_t votes_on_way_to(Taxonomy::Place place) const noexcept;
  TaxonId choose();

  const Taxonomy& taxonomy_;
  std::uint32_t k_;
  std::vector<Kmer> kmers_;
  std::vector<TaxonCount> list_;
  std::vector<std::uint32_t> votes_;  ///< For each taxon.
  std::vector<Taxonomy::Place> voted_;
};

}  // namespace tiermap
