#include "kmer/database_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <variant>

#include "kmer/genome_feed.hpp"
#include "kmer/hash_index.hpp"
#include "kmer/kmer_runs.hpp"
#include "kmer/two_level_index.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_buffer_bytes = std::uint64_t{64} << 10U;
constexpr std::uint64_t most_buffers_bytes = std::uint64_t{1} << 30U;

/// Each thread's share of what may be held at once.
std::uint64_t run_buffer_bytes(const MemorySystem& system, std::uint64_t genome_bytes, const ThreadTeam& team) {
  const std::uint64_t all =
      std::min({system.budget_bytes() / 10 * 7, most_buffers_bytes, genome_bytes * sizeof(KeyCount)});
  return std::max(all / team.size() / 4096 * 4096, least_buffer_bytes);
}

class DatabaseBuild {
 public:
  DatabaseBuild(const DatabaseBuildOptions& options, const Taxonomy& taxonomy, const SequenceTaxa& sequence_taxa,
                MemorySystem& system, ThreadTeam& team, ProgressDisplay& progress)
      : options_(options),
        taxonomy_(taxonomy),
        system_(system),
        team_(team),
        progress_(progress),
        genome_bytes_(total_file_bytes(options.genomes, sequence_file)),
        feed_(options.genomes, sequence_taxa, options.k, progress),
        runs_(options.scratch_path, most_records(), run_buffer_bytes(system, genome_bytes_, team)) {
    header_.k = options.k;
    header_.index = options.index;
  }

  Backing run() {
    gather_kmers();
    runs_.map(system_);
    count();
    const Taxonomy taxonomy = taxonomy_.only(feed_.taxa());
    count_taxonomy(taxonomy, header_);
    if (header_.index == IndexKind::two_level) {
      TwoLevelWriter::plan(header_);
    } else {
      HashWriter::plan(header_);
    }
    if (!header_.lay_out()) {
      throw OptionError(fmt::format("{} k-mers are more than a file can hold: leave genomes out", header_.kmers));
    }
    Backing file = Backing::create_unfinished(options_.url, header_.file_bytes);
    write_database_taxonomy(*file.store(), header_, taxonomy);
    write_lists_and_index(*file.store());
    // Last: a file whose making was interrupted has no header, and is refused.
    write_database_header(*file.store(), header_);
    file.finish();
    return file;
  }

 private:
  /// Every thread's last run ends on a page of its own.
  std::uint64_t most_records() const { return genome_bytes_ + team_.size() * std::uint64_t{256}; }

  void gather_kmers() {
    progress_.restart("reading genomes", genome_bytes_);
    std::atomic<std::uint64_t> occurrences{0};
    // Made here: what a thread allocates first, however large, glibc puts into the thread's arena, and may never give
    // back.
    std::vector<KmerRuns::Filler> fillers;
    for (std::uint32_t thread = 0; thread < team_.size(); ++thread) {
      fillers.emplace_back(runs_);
    }
    team_.run([&](std::uint32_t thread) {
      KmerRuns::Filler& filler = fillers[thread];
      GenomePiece piece;
      std::uint64_t added = 0;
      while (feed_.next(piece)) {
        for_each_kmer(piece.bases, options_.k, [&](Kmer kmer) {
          filler.add(options_.index == IndexKind::hash ? hash_of(kmer) : kmer, piece.taxon);
          ++added;
        });
      }
      filler.finish();
      occurrences += added;
    });
    header_.occurrences = occurrences;
    header_.sequences = feed_.sequences();
    if (occurrences == 0) {
      throw OptionError(
          fmt::format("{}: no sequence has {} known bases in a row: choose a smaller --k, or other "
                      "genomes",
                      options_.genomes.front(), options_.k));
    }
  }

  void count() {
    progress_.restart("counting k-mers", runs_.records());
    header_.list_words = 1;
    runs_.merge(team_, options_.prefetch, progress_, [&](std::uint64_t, std::span<const KeyCount> taxa) {
      ++header_.kmers;
      header_.list_words += taxa.size();
    });
  }

  template <typename IndexWriter>
  void write_with(Store& store, IndexWriter& index) {
    progress_.restart("writing the database", runs_.records());
    WordWriter lists(store, header_.lists_at);
    lists.write(0);
    runs_.merge(team_, options_.prefetch, progress_, [&](std::uint64_t key, std::span<const KeyCount> taxa) {
      index.add(key, lists.written());
      for (const KeyCount& taxon : taxa) {
        lists.write(list_word({taxon.taxon, taxon.count}, &taxon == &taxa.back()));
      }
    });
    lists.flush();
  }

  void write_lists_and_index(Store& store) {
    if (header_.index == IndexKind::two_level) {
      TwoLevelWriter index(store, header_);
      write_with(store, index);
      index.finish();
      return;
    }
    HashWriter index(store, header_);
    write_with(store, index);
    header_.slots = index.finish();
    header_.lay_out();
    if (const int result = store.resize(header_.file_bytes); result < 0 && result != -ENOTSUP) {
      throw StoreError(-result, fmt::format("{} cannot be cut to {} bytes: {}", store.name(), header_.file_bytes,
                                            std::generic_category().message(-result)));
    }
  }

  const DatabaseBuildOptions& options_;
  const Taxonomy& taxonomy_;
  MemorySystem& system_;
  ThreadTeam& team_;
  ProgressDisplay& progress_;
  std::uint64_t genome_bytes_;
  GenomeFeed feed_;
  KmerRuns runs_;
  DatabaseHeader header_;
};

}  // namespace

Backing build_database(const DatabaseBuildOptions& options, const Taxonomy& taxonomy, const SequenceTaxa& sequence_taxa,
                       MemorySystem& system, ThreadTeam& team, ProgressDisplay& progress) {
  return DatabaseBuild(options, taxonomy, sequence_taxa, system, team, progress).run();
}

}  // namespace tiermap
