// Makes a database from FASTA files, however large: all k-mers are sorted out of core (kmer_runs.hpp) in the order in
// which the index wants them, are gone through once to be counted and once more to be written, each file from its
// beginning to its end. Memory is the system's budget, the names of the sequences and a few buffers.
#pragma once

#include <string>
#include <vector>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "kmer/database_file.hpp"
#include "kmer/taxonomy.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

struct DatabaseBuildOptions {
  std::string url;           ///< Of the database; must not exist. A path is only taken once the database is whole.
  std::string scratch_path;  ///< For the runs; must not exist, and is gone at the end.
  std::vector<std::string> genomes;
  std::uint32_t k = 0;
  IndexKind index = IndexKind::two_level;
  bool prefetch = true;
};

/// Sequences shorter than k have no k-mer and are left out of all but the count. Throws OptionError, StoreError; then
/// nothing is left behind.
Backing build_database(const DatabaseBuildOptions& options, const Taxonomy& taxonomy, const SequenceTaxa& sequence_taxa,
                       MemorySystem& system, ThreadTeam& team, ProgressDisplay& progress);

}  // namespace tiermap
