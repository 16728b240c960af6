// All sequences of several files for several threads, in pieces of a fixed size that overlap so that no k-mer is lost.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "kmer/fasta_reader.hpp"
#include "kmer/taxonomy.hpp"
#include "observe/progress.hpp"

namespace tiermap {

struct GenomePiece {
  TaxonId taxon = no_taxon;
  std::string bases;
};

class GenomeFeed {
 public:
  GenomeFeed(const std::vector<std::string>& paths, const SequenceTaxa& taxa, std::uint32_t k,
             ProgressDisplay& progress);

  /// The next piece; false after the last. Thread-safe. Throws OptionError for a sequence that was there already, or
  /// whose taxon nobody told.
  bool next(GenomePiece& piece);

  std::uint64_t sequences() const noexcept { return lines_.size(); }
  /// Of all sequences, in ascending order.
  std::vector<TaxonId> taxa() const { return {taxa_seen_.begin(), taxa_seen_.end()}; }

 private:
  struct Place {
    std::size_t file = 0;
    std::uint64_t line = 0;
  };
  bool open_next();
  bool read_piece(GenomePiece& piece);
  void begin_sequence();

  const std::vector<std::string>& paths_;
  const SequenceTaxa& taxa_;
  std::uint32_t k_;
  ProgressDisplay& progress_;
  std::mutex mutex_;  ///< Guards all below.
  std::size_t next_file_ = 0;
  std::unique_ptr<SequenceReader> reader_;
  std::uint64_t position_ = 0;
  SequencePiece read_;
  std::string overlap_;
  TaxonId taxon_ = no_taxon;
  std::unordered_map<std::string, Place> lines_;
  std::set<TaxonId> taxa_seen_;
};

}  // namespace tiermap
