#include "kmer/read_work.hpp"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "kmer/fasta_reader.hpp"
#include "parallel/random.hpp"

namespace tiermap {
namespace {

/// What a thread takes at a time: little, because each k-mer may cost several reads of the store.
constexpr std::size_t chunk_reads = 16;
constexpr std::size_t chunk_bases = std::size_t{16} << 10U;
/// Of all samples: each base costs reads of the store.
constexpr std::size_t most_sample_bases = 4 * chunk_bases;

struct ReadChunk {
  std::uint64_t number = 0;
  std::uint64_t first_read = 0;
  std::size_t file = 0;
  std::size_t count = 0;
  std::vector<SequencePiece> reads;  ///< The first `count` of them; the others keep what memory short ones take.
};

/// Reads of several files for several threads, a chunk at a time.
class ReadFeed {
 public:
  ReadFeed(const std::vector<std::string>& paths, ProgressDisplay& progress) : paths_(paths), progress_(progress) {}

  bool next(ReadChunk& chunk) {
    const std::lock_guard lock(mutex_);
    try {
      return read_chunk(chunk);
    } catch (...) {
      // The other threads are to end too.
      reader_.reset();
      next_file_ = paths_.size();
      throw;
    }
  }

 private:
  bool read_chunk(ReadChunk& chunk) {
    chunk.count = 0;
    for (SequencePiece& read : chunk.reads) {
      if (read.bases.capacity() > chunk_bases) {
        std::string().swap(read.bases);  // Assigning nothing would keep the memory.
      }
    }
    for (std::size_t bases = 0; chunk.count < chunk_reads && bases < chunk_bases;) {
      if (chunk.reads.size() == chunk.count) {
        chunk.reads.emplace_back();
      }
      if (reader_ != nullptr && reader_->next(chunk.reads[chunk.count])) {
        bases += chunk.reads[chunk.count++].bases.size();
        continue;
      }
      reader_.reset();
      if (chunk.count > 0 || next_file_ == paths_.size()) {
        break;
      }
      reader_ = std::make_unique<SequenceReader>(paths_[next_file_++]);
      position_ = 0;
    }
    if (chunk.count == 0) {
      return false;
    }
    if (reader_ != nullptr) {
      progress_.add(reader_->position() - position_);
      position_ = reader_->position();
    }
    chunk.file = next_file_ - 1;
    chunk.number = next_chunk_++;
    chunk.first_read = next_read_;
    next_read_ += chunk.count;
    return true;
  }

  const std::vector<std::string>& paths_;
  ProgressDisplay& progress_;
  std::mutex mutex_;
  std::size_t next_file_ = 0;
  std::unique_ptr<SequenceReader> reader_;
  std::uint64_t position_ = 0;
  std::uint64_t next_chunk_ = 0;
  std::uint64_t next_read_ = 0;
};

void compare_with_truth(TaxonId told, TaxonId got, const Taxonomy& taxonomy, ReadTotals& totals) {
  const std::optional<Taxonomy::Place> truth = taxonomy.place_of(told);
  if (!truth.has_value()) {
    return;
  }
  ++totals.told;
  if (got == no_taxon) {
    return;
  }
  const Taxonomy::Place place = taxonomy.place_of(got).value();
  if (taxonomy.is_ancestor_or_same(*truth, place)) {
    ++totals.right;
  } else if (taxonomy.is_ancestor_or_same(place, *truth)) {
    ++totals.above;
  } else {
    ++totals.wrong;
  }
}

void count_read(const SequencePiece& read, std::uint64_t number, const std::string& path, const Classification& result,
                const ReadWork& work, ReadTotals& totals) {
  ++totals.reads;
  totals.bases += read.bases.size();
  totals.kmers += result.kmers;
  totals.found += result.found;
  totals.classified += result.taxon != no_taxon ? 1U : 0U;
  // A sum: the order in which threads come does not show in it.
  totals.digest += mix_word(mix_word(number) ^ (std::uint64_t{result.taxon} << 32U | result.found));
  if (read.bases.size() < work.k) {
    ++totals.short_reads;
    if (number < totals.first_short) {
      totals.first_short = number;
      totals.first_short_place = fmt::format("{}:{}", path, read.line);
    }
  }
  compare_with_truth(told_taxon(read.description), result.taxon, work.taxonomy, totals);
}

void append_line(std::string& text, const SequencePiece& read, const Classification& result, const Taxonomy& taxonomy) {
  const std::string& name =
      result.taxon == no_taxon ? std::string("unclassified") : taxonomy.name(taxonomy.place_of(result.taxon).value());
  text += fmt::format("{}\t{}\t{}\t{}\t{}\n", read.id, result.taxon, name, result.found, result.kmers);
}

}  // namespace

void ReadTotals::add(const ReadTotals& other) {
  reads += other.reads;
  bases += other.bases;
  kmers += other.kmers;
  found += other.found;
  classified += other.classified;
  short_reads += other.short_reads;
  digest += other.digest;
  told += other.told;
  right += other.right;
  above += other.above;
  wrong += other.wrong;
  if (other.first_short < first_short) {
    first_short = other.first_short;
    first_short_place = other.first_short_place;
  }
}

TaxonId told_taxon(const std::string& description) {
  constexpr std::string_view key = "taxonomy=";
  const std::size_t at = description.find(key);
  if (at == std::string::npos || (at > 0 && description[at - 1] != ' ')) {
    return no_taxon;
  }
  TaxonId taxon = no_taxon;
  std::from_chars(description.data() + at + key.size(), description.data() + description.size(), taxon);
  return taxon;
}

ReadTotals classify_reads(const ReadWork& work, KmerLookup& lookup, ThreadTeam& team, OrderedOutput& output,
                          ProgressDisplay& progress, std::vector<ReadSample>& samples) {
  ReadFeed feed(work.paths, progress);
  std::vector<ReadTotals> totals(team.size());
  samples.assign(work.most_samples, {});
  team.run([&](std::uint32_t thread) {
    Classifier classifier(work.taxonomy, work.k);
    ReadChunk chunk;
    while (feed.next(chunk)) {
      std::string text;
      for (std::size_t index = 0; index < chunk.count; ++index) {
        const SequencePiece& read = chunk.reads[index];
        const std::uint64_t number = chunk.first_read + index;
        const Classification result = classifier.classify(read.bases, lookup);
        count_read(read, number, work.paths[chunk.file], result, work, totals[thread]);
        if (number < samples.size()) {
          samples[number] = {read.bases.substr(0, chunk_bases), read.bases.size() <= chunk_bases, result};
        }
        if (output.is_wanted()) {
          append_line(text, read, result, work.taxonomy);
        }
      }
      output.add(chunk.number, std::move(text));
    }
  });
  ReadTotals sum;
  for (const ReadTotals& part : totals) {
    sum.add(part);
  }
  std::size_t kept = 0;
  std::size_t bases = 0;
  for (; kept < std::min<std::uint64_t>(samples.size(), sum.reads); ++kept) {
    bases += samples[kept].bases.size();
    if (bases > most_sample_bases) {
      break;
    }
  }
  samples.resize(kept);
  return sum;
}

void for_each_read(const std::vector<std::string>& paths, const std::function<bool(const std::string&)>& take) {
  for (const std::string& path : paths) {
    SequenceReader reader(path);
    SequencePiece read;
    while (reader.next(read)) {
      if (!take(read.bases)) {
        return;
      }
    }
  }
}

}  // namespace tiermap
