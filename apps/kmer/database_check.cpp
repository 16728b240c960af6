#include "kmer/database_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "kmer/genome_feed.hpp"
#include "parallel/random.hpp"

namespace tiermap {
namespace {

/// Other bits than those by which the hash index places a k-mer.
std::uint64_t pick_word(Kmer kmer) noexcept {
  return random_word(0x7069636bU, kmer);
}

using Reference = std::unordered_map<Kmer, std::map<TaxonId, std::uint64_t>>;

std::uint64_t divided_up(std::uint64_t number, std::uint64_t by) noexcept {
  return (number + by - 1) / by;
}

/// Of so many k-mers one is compared.
std::uint64_t step_for(const DatabaseHeader& header) noexcept {
  // However long their lists are, a few are looked at.
  constexpr std::uint64_t least_kmers = 16;
  const std::uint64_t for_lists = divided_up(header.list_words, DatabaseCheck::most_list_elements);
  return std::max(divided_up(header.kmers, DatabaseCheck::most_kmers),
                  std::min(for_lists, divided_up(header.kmers, least_kmers)));
}

/// One k-mer in `step`, with all its taxa.
Reference make_reference(const std::vector<std::string>& genomes, const SequenceTaxa& taxa, std::uint32_t k,
                         std::uint64_t step, ProgressDisplay& progress) {
  Reference reference;
  GenomeFeed feed(genomes, taxa, k, progress);
  GenomePiece piece;
  while (feed.next(piece)) {
    for_each_kmer(piece.bases, k, [&](Kmer kmer) {
      if (pick_word(kmer) % step == 0) {
        ++reference[kmer][piece.taxon];
      }
    });
  }
  return reference;
}

std::vector<TaxonCount> expected_list(const std::map<TaxonId, std::uint64_t>& counts) {
  std::vector<TaxonCount> list;
  for (const auto& [taxon, count] : counts) {
    list.push_back({taxon, static_cast<std::uint32_t>(std::min(count, most_count))});
  }
  return list;
}

}  // namespace

DatabaseCheck::DatabaseCheck(const DatabaseHeader& header, const std::shared_ptr<Store>& store)
    : header_(header), stored_(header, StoreWords(store), store->name()) {}

std::string DatabaseCheck::compare_with_genomes(const std::vector<std::string>& genomes, const SequenceTaxa& taxa,
                                                KmerLookup& lookup, ProgressDisplay& progress) {
  const std::uint64_t step = step_for(header_);
  const Reference reference = make_reference(genomes, taxa, header_.k, step, progress);
  if (step == 1 && reference.size() != header_.kmers) {
    return fmt::format("the genomes have {} k-mers, and the database has {}", reference.size(), header_.kmers);
  }
  std::vector<Kmer> there;
  for (const auto& [kmer, counts] : reference) {
    there.push_back(kmer);
  }
  std::vector<TaxonCount> list;
  for (const Kmer kmer : in_file_order(std::move(there))) {
    if (!lookup.find(kmer, list) || list != expected_list(reference.at(kmer))) {
      return fmt::format("the list of k-mer {} is not what the genomes say", kmer_text(kmer, header_.k));
    }
  }
  std::vector<Kmer> absent;
  const std::uint64_t draws = std::min<std::uint64_t>(reference.size() * step, most_kmers * 10);
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    const Kmer kmer = canonical_kmer(random_word(0x6e6fU, draw) & kmer_mask(header_.k), header_.k);
    if (pick_word(kmer) % step == 0 && !reference.contains(kmer)) {
      absent.push_back(kmer);
    }
  }
  for (const Kmer kmer : in_file_order(std::move(absent))) {
    if (lookup.find(kmer, list)) {
      return fmt::format("k-mer {} is in the database and not in the genomes", kmer_text(kmer, header_.k));
    }
  }
  return {};
}

std::vector<Kmer> DatabaseCheck::in_file_order(std::vector<Kmer> kmers) const {
  const bool hashed = header_.index == IndexKind::hash;
  std::sort(kmers.begin(), kmers.end(),
            [&](Kmer one, Kmer other) { return hashed ? hash_of(one) < hash_of(other) : one < other; });
  return kmers;
}

std::string DatabaseCheck::compare_with_store(std::span<const Kmer> kmers, KmerLookup& lookup) {
  std::vector<TaxonCount> mapped;
  std::vector<TaxonCount> stored;
  for (const Kmer kmer : kmers) {
    if (lookup.find(kmer, mapped) != stored_.find(kmer, stored) || mapped != stored) {
      return fmt::format("k-mer {} has another list where it is mapped than on the store", kmer_text(kmer, header_.k));
    }
  }
  return {};
}

std::string DatabaseCheck::compare_with_store(std::span<const ReadSample> samples, const Taxonomy& taxonomy,
                                              KmerLookup& lookup) {
  Classifier classifier(taxonomy, header_.k);
  for (const ReadSample& sample : samples) {
    const Classification mapped = sample.is_whole ? sample.result : classifier.classify(sample.bases, lookup);
    const Classification stored = classifier.classify(sample.bases, stored_);
    if (stored != mapped) {
      return fmt::format("a read got taxon {} by {} k-mers, and by what is on the store {} by {}", mapped.taxon,
                         mapped.found, stored.taxon, stored.found);
    }
  }
  return {};
}

std::string judge_accuracy(const ReadTotals& totals) {
  constexpr std::uint64_t by_chance = 3;  // Of a few reads one is more than two in a hundred.
  if (totals.wrong > totals.told / 50 + by_chance) {
    return fmt::format("{} of {} reads got a taxon that they do not belong to", totals.wrong, totals.told);
  }
  if (totals.right + by_chance < totals.told / 2) {
    return fmt::format("{} of {} reads got their taxon, and half at least can be told", totals.right, totals.told);
  }
  return {};
}

}  // namespace tiermap
