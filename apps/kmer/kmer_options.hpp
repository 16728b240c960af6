// The options of tiermap-kmer, and which of them go together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command_line/options.hpp"
#include "kmer/database_file.hpp"
#include "kmer/genome_generator.hpp"

namespace tiermap {

/// As they are typed.
struct KmerOptions {
  std::string database;
  bool build_only = false;
  std::vector<std::string> genomes;
  std::string taxonomy;
  std::string sequence_taxa;
  std::string k;
  std::string index;
  std::vector<std::string> reads;
  std::string kmers;
  std::string work = "classify";
  std::string lookups = "1000000";
  std::string output;
  std::string generate;
  std::string organisms;
  std::string genome_bases;
  std::string read_count;
  std::string read_bases;
  std::optional<double> error_rate;
};

void declare_options(CLI::App& app, KmerOptions& kmer);

/// What is to be done, each value checked.
struct KmerPlan {
  enum class Input : std::uint8_t { database, genomes, generated };

  Input input = Input::generated;
  bool looks_up = false;  ///< Else classifies.
  std::uint32_t k = 18;
  bool k_given = false;
  IndexKind index = IndexKind::two_level;
  bool index_given = false;
  std::uint64_t lookups = 0;
  GeneratorOptions generator;
};

/// --database is --file and --keep in one.
WorkloadOptions with_database(WorkloadOptions options, const KmerOptions& kmer);

/// Throws OptionError for what can be known to be wrong before anything is read or made.
KmerPlan make_plan(const WorkloadOptions& options, const KmerOptions& kmer);

}  // namespace tiermap
