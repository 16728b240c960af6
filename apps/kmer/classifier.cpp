#include "kmer/classifier.hpp"

namespace tiermap {

Classifier::Classifier(const Taxonomy& taxonomy, std::uint32_t k)
    : taxonomy_(taxonomy), k_(k), votes_(taxonomy.size()) {}

// A read may be a whole chromosome: its k-mers are never all in memory.
Classification Classifier::classify(std::string_view bases, KmerLookup& lookup) {
  Classification result;
  kmers_.clear();
  for_each_kmer(bases, k_, [&](Kmer kmer) {
    kmers_.push_back(kmer);
    if (kmers_.size() == most_announced) {
      look_up(lookup, result);
    }
  });
  if (!kmers_.empty()) {
    look_up(lookup, result);
  }
  result.taxon = choose();
  return result;
}

void Classifier::look_up(KmerLookup& lookup, Classification& result) {
  result.kmers += static_cast<std::uint32_t>(kmers_.size());
  lookup.announce(kmers_);
  for (const Kmer kmer : kmers_) {
    if (lookup.find(kmer, list_)) {
      ++result.found;
      vote(lookup.name());
    }
  }
  kmers_.clear();
}

void Classifier::vote(const std::string& database) {
  std::optional<Taxonomy::Place> common;
  for (const TaxonCount& element : list_) {
    const std::optional<Taxonomy::Place> place = taxonomy_.place_of(element.taxon);
    if (!place.has_value()) {
      refuse_damaged_database(database);
    }
    common = common.has_value() ? taxonomy_.common_ancestor(*common, *place) : *place;
  }
  if (common.has_value() && votes_[*common]++ == 0) {
    voted_.push_back(*common);
  }
}

std::uint64_t Classifier::votes_on_way_to(Taxonomy::Place place) const noexcept {
  std::uint64_t votes = votes_[place];
  for (; taxonomy_.depth(place) > 0; votes += votes_[place]) {
    place = taxonomy_.parent(place);
  }
  return votes;
}

/// And forgets the votes.
TaxonId Classifier::choose() {
  Taxonomy::Place best = 0;
  std::uint64_t most = 0;
  for (const Taxonomy::Place place : voted_) {
    const std::uint64_t votes = votes_on_way_to(place);
    if (votes > most) {
      best = place;
      most = votes;
    } else if (votes == most) {
      best = taxonomy_.common_ancestor(best, place);
    }
  }
  for (const Taxonomy::Place place : voted_) {
    votes_[place] = 0;
  }
  voted_.clear();
  return most == 0 ? no_taxon : taxonomy_.id(best);
}

}  // namespace tiermap
