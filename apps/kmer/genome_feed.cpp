#include "kmer/genome_feed.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t piece_bases = std::size_t{64} << 10U;

}  // namespace

GenomeFeed::GenomeFeed(const std::vector<std::string>& paths, const SequenceTaxa& taxa, std::uint32_t k,
                       ProgressDisplay& progress)
    : paths_(paths), taxa_(taxa), k_(k), progress_(progress) {}

bool GenomeFeed::open_next() {
  if (next_file_ == paths_.size()) {
    return false;
  }
  reader_ = std::make_unique<SequenceReader>(paths_[next_file_++], piece_bases);
  position_ = 0;
  return true;
}

bool GenomeFeed::next(GenomePiece& piece) {
  const std::lock_guard lock(mutex_);
  try {
    return read_piece(piece);
  } catch (...) {
    // The other threads are to end too.
    reader_.reset();
    next_file_ = paths_.size();
    throw;
  }
}

bool GenomeFeed::read_piece(GenomePiece& piece) {
  while (reader_ == nullptr || !reader_->next(read_)) {
    if (!open_next()) {
      return false;
    }
  }
  progress_.add(reader_->position() - position_);
  position_ = reader_->position();
  if (read_.begins) {
    begin_sequence();
  }
  piece.taxon = taxon_;
  piece.bases = overlap_;
  piece.bases += read_.bases;
  overlap_ = piece.bases.substr(piece.bases.size() - std::min<std::size_t>(piece.bases.size(), k_ - 1));
  return true;
}

void GenomeFeed::begin_sequence() {
  const std::size_t file = next_file_ - 1;
  const auto [earlier, is_new] = lines_.try_emplace(read_.id, Place{file, read_.line});
  if (!is_new) {
    throw OptionError(fmt::format("{}:{}: sequence {} was at {}:{} already: give each its own name, or leave one out",
                                  paths_[file], read_.line, quote_value(read_.id), paths_[earlier->second.file],
                                  earlier->second.line));
  }
  const auto found = taxa_.find(read_.id);
  if (found == taxa_.end()) {
    throw OptionError(fmt::format("{}:{}: nobody says of which taxon sequence {} is: add it to --sequence-taxa",
                                  paths_[file], read_.line, quote_value(read_.id)));
  }
  taxon_ = found->second;
  taxa_seen_.insert(taxon_);
  overlap_.clear();
}

}  // namespace tiermap
