// Classifying all reads of several files with several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kmer/classifier.hpp"
#include "kmer/kmer_lookup.hpp"
#include "kmer/ordered_output.hpp"
#include "kmer/taxonomy.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

/// The same whatever the threads, the index and the memory system are.
struct ReadTotals {
  std::uint64_t reads = 0;
  std::uint64_t bases = 0;
  std::uint64_t kmers = 0;
  std::uint64_t found = 0;       ///< k-mers that are in the database.
  std::uint64_t classified = 0;  ///< Reads that got a taxon.
  std::uint64_t short_reads = 0;
  std::uint64_t digest = 0;  ///< Of what every read got.
  // Of the reads that say themselves where they are from:
  std::uint64_t told = 0;
  std::uint64_t right = 0;  ///< Got the right taxon, or one below it.
  std::uint64_t above = 0;  ///< Got a group to which the right one belongs.
  std::uint64_t wrong = 0;  ///< Got another.
  std::uint64_t first_short = ~std::uint64_t{0};
  std::string first_short_place;  ///< "file:line" of the first read shorter than k.

  void add(const ReadTotals& other);
};

/// One of the first reads, kept to be classified again.
struct ReadSample {
  std::string bases;      ///< Of a long one those that it begins with.
  bool is_whole = false;  ///< Whether these are all.
  Classification result;  ///< Of the whole read.
};

struct ReadWork {
  const std::vector<std::string>& paths;
  const Taxonomy& taxonomy;
  std::uint32_t k = 0;
  std::uint64_t most_samples = 0;
};

/// What `--output` has: a line for each read with its id, the taxon's number (0: none) and name, how many of its k-mers
/// were found, and how many it has. Throws StoreError, OptionError.
ReadTotals classify_reads(const ReadWork& work, KmerLookup& lookup, ThreadTeam& team, OrderedOutput& output,
                          ProgressDisplay& progress, std::vector<ReadSample>& samples);

/// The taxon that a read says it is from: `taxonomy=ID` in its description; else no_taxon.
TaxonId told_taxon(const std::string& description);

/// Calls take(bases) for each read until it returns false.
void for_each_read(const std::vector<std::string>& paths, const std::function<bool(const std::string&)>& take);

}  // namespace tiermap
