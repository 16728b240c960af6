// Looking up k-mers and nothing else, with several threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kmer/kmer_lookup.hpp"
#include "kmer/ordered_output.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

struct LookupTotals {
  std::uint64_t found = 0;
  std::uint64_t taxa = 0;    ///< In the lists of those that were found.
  std::uint64_t digest = 0;  ///< Of every list.
};

/// What `--output` has: a line for each k-mer with its bases, then for each taxon its number and the count. Throws
/// StoreError.
LookupTotals look_up_kmers(std::span<const Kmer> kmers, std::uint32_t k, KmerLookup& lookup, ThreadTeam& team,
                           OrderedOutput& output, ProgressDisplay& progress);

/// Reads k-mers, one a line; either strand will do. At most `most`. Throws StoreError, OptionError.
std::vector<Kmer> read_kmers(const std::string& path, std::uint32_t k, std::uint64_t most);

/// The first `most` k-mers of the reads, as they come.
std::vector<Kmer> kmers_of_reads(const std::vector<std::string>& paths, std::uint32_t k, std::uint64_t most);

}  // namespace tiermap
