#include "kmer/kmer_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "command_line/backing.hpp"
#include "command_line/output_file.hpp"
#include "config/size.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t default_bytes = std::uint64_t{128} << 20U;
constexpr std::uint64_t least_genome_bases = 200;
constexpr std::uint64_t most_genome_bases = std::uint64_t{1} << 36U;
constexpr std::uint64_t most_read_bases = 100'000;
constexpr std::uint64_t most_of_many = std::uint64_t{1} << 40U;

IndexKind parse_index(const std::string& text) {
  for (const IndexKind kind : {IndexKind::two_level, IndexKind::hash}) {
    if (text == index_name(kind)) {
      return kind;
    }
  }
  throw OptionError("index " + text + " is unknown: choose two-level or hash");
}

/// From --genome-bases, or so many that the database has about --bytes.
std::uint64_t chosen_genome_bases(const WorkloadOptions& options, const KmerOptions& kmer, const KmerPlan& plan) {
  if (!kmer.genome_bases.empty()) {
    return parse_whole_number(kmer.genome_bases, "genome bases", least_genome_bases, most_genome_bases);
  }
  const std::uint64_t bytes = options.bytes.value_or(default_bytes);
  const double bytes_for_kmer = plan.index == IndexKind::two_level ? 16.2 : 23.0;
  const double bytes_for_position =
      bytes_for_kmer * GenomeGenerator::kmers_per_position(plan.generator.organisms, plan.k) +
      8.0 * plan.generator.organisms;
  const auto bases = static_cast<std::uint64_t>(static_cast<double>(bytes) / bytes_for_position);
  if (bases < least_genome_bases || bases > most_genome_bases) {
    throw OptionError(
        fmt::format("{} for {} organisms would give each {} bases, and {} to {} are possible: choose other "
                    "--bytes or --organisms",
                    format_size(bytes), plan.generator.organisms, bases, least_genome_bases, most_genome_bases));
  }
  return bases;
}

void plan_generator(const WorkloadOptions& options, const KmerOptions& kmer, KmerPlan& plan) {
  GeneratorOptions& generator = plan.generator;
  generator.organisms = static_cast<std::uint32_t>(whole_number_or(kmer.organisms, "organisms", 1, 1'000'000, 64));
  generator.reads = whole_number_or(kmer.read_count, "read count", 1, most_of_many, 2000);
  generator.read_bases =
      static_cast<std::uint32_t>(whole_number_or(kmer.read_bases, "read bases", 1, most_read_bases, 100));
  generator.error_rate = kmer.error_rate.value_or(0.01);
  if (!(generator.error_rate >= 0 && generator.error_rate < 1)) {
    throw OptionError(
        fmt::format("error rate {} is not from 0 to under 1: choose for example 0.01", generator.error_rate));
  }
  generator.seed = options.seed;
  generator.genome_bases = chosen_genome_bases(options, kmer, plan);
}

/// What says how much is generated says nothing of what is there.
void check_amounts(const WorkloadOptions& options, const KmerOptions& kmer, const KmerPlan& plan) {
  if (plan.input == KmerPlan::Input::generated) {
    if (options.bytes.has_value() && !kmer.genome_bases.empty()) {
      throw OptionError("--bytes and --genome-bases both say how much is generated: choose one of them");
    }
    return;
  }
  if (options.bytes.has_value() || kmer.error_rate.has_value() || !kmer.organisms.empty() ||
      !kmer.genome_bases.empty() || !kmer.read_count.empty() || !kmer.read_bases.empty()) {
    throw OptionError(
        fmt::format("nothing is generated, as there is {}: leave out --bytes, --organisms, --genome-bases, "
                    "--read-count, --read-bases and --error-rate",
                    plan.input == KmerPlan::Input::genomes ? kmer.genomes.front() : options.file));
  }
}

void check_genomes(const KmerOptions& kmer) {
  const bool complete = !kmer.genomes.empty() && !kmer.taxonomy.empty() && !kmer.sequence_taxa.empty();
  const bool any = !kmer.genomes.empty() || !kmer.taxonomy.empty() || !kmer.sequence_taxa.empty();
  if (any && !complete) {
    throw OptionError("a database is built from --genomes, --taxonomy and --sequence-taxa: give all three");
  }
}

KmerPlan::Input chosen_input(const WorkloadOptions& options, const KmerOptions& kmer) {
  const bool exists = backing_exists(options.file);
  if (exists && (!kmer.genomes.empty() || kmer.build_only)) {
    throw OptionError(options.file +
                      " exists: name a new file, or leave out --genomes and --build-only to use it as it "
                      "is");
  }
  if (exists) {
    return KmerPlan::Input::database;
  }
  const bool is_queried = !kmer.reads.empty() || !kmer.kmers.empty();
  if (kmer.genomes.empty() && is_queried) {
    throw OptionError(options.file.empty()
                          ? "there is no database to use: name one with --database, or --genomes to build one from"
                          : options.file + " is not there: name a database, or --genomes to build one from");
  }
  return kmer.genomes.empty() ? KmerPlan::Input::generated : KmerPlan::Input::genomes;
}

void check_query_options(const KmerOptions& kmer, const KmerPlan& plan) {
  if (!kmer.kmers.empty() && !plan.looks_up) {
    throw OptionError("--kmers names k-mers to look up: add --work lookup");
  }
  if (!kmer.kmers.empty() && !kmer.reads.empty()) {
    throw OptionError("--kmers and --reads both say what to look up: choose one of them");
  }
}

/// What takes the place of a file takes it from whatever is there.
void check_output(const WorkloadOptions& options, const KmerOptions& kmer) {
  if (kmer.output.empty()) {
    return;
  }
  const auto refuse_if_output = [&](const char* option, const std::string& path) {
    if (!path.empty() && are_one_file(kmer.output, path)) {
      throw OptionError(fmt::format("--output {} is what {} names: name another file", kmer.output, option));
    }
  };
  refuse_if_output("--database", path_of_store(options.file));
  refuse_if_output("--kmers", kmer.kmers);
  refuse_if_output("--taxonomy", kmer.taxonomy);
  refuse_if_output("--sequence-taxa", kmer.sequence_taxa);
  for (const std::string& path : kmer.reads) {
    refuse_if_output("--reads", path);
  }
  for (const std::string& path : kmer.genomes) {
    refuse_if_output("--genomes", path);
  }
}

void check_queries(const KmerOptions& kmer, const KmerPlan& plan) {
  const bool is_queried = !kmer.reads.empty() || !kmer.kmers.empty();
  if (plan.input != KmerPlan::Input::generated && !kmer.build_only && !is_queried) {
    throw OptionError("nothing says what to look up: name --reads, or --kmers with --work lookup");
  }
  if (kmer.build_only && (is_queried || !kmer.output.empty())) {
    throw OptionError("--build-only looks nothing up: leave out --reads, --kmers and --output");
  }
}

void check_generate(const KmerOptions& kmer, const WorkloadOptions& options) {
  if (kmer.generate.empty()) {
    return;
  }
  if (!kmer.genomes.empty() || !kmer.reads.empty() || !kmer.kmers.empty() || !kmer.output.empty() ||
      !options.file.empty()) {
    throw OptionError(
        "--generate writes genomes and reads and stops: leave out --genomes, --reads, --kmers, --output, --database "
        "and --file");
  }
  if (path_exists(kmer.generate)) {
    throw OptionError(kmer.generate + " exists: name a new folder");
  }
}

}  // namespace

void declare_options(CLI::App& app, KmerOptions& kmer) {
  app.add_option("--database", kmer.database, "The database: kept if it is built, used as it is if it is there");
  app.add_flag("--build-only", kmer.build_only, "Build the --database and stop");
  app.add_option("--genomes", kmer.genomes, "FASTA or FASTQ files to build the database from");
  app.add_option("--taxonomy", kmer.taxonomy, "Their taxonomy: lines of id, parent's id and name, with tabs between");
  app.add_option("--sequence-taxa", kmer.sequence_taxa,
                 "Of which taxon each sequence is: lines of sequence id and taxonomy id, with a tab between");
  app.add_option("--k", kmer.k, "Bases in a k-mer, 4 to 31 (default: 18)");
  app.add_option("--index", kmer.index, "two-level (default) or hash");
  app.add_option("--reads", kmer.reads, "FASTA or FASTQ files to classify, or to take k-mers from");
  app.add_option("--work", kmer.work, "classify the reads (default), or lookup: only look k-mers up");
  app.add_option("--kmers", kmer.kmers, "File with a k-mer a line for --work lookup, in place of --reads");
  app.add_option("--lookups", kmer.lookups, "At most so many k-mers for --work lookup (default: 1000000)");
  app.add_option("--output", kmer.output, "File for the result of every read or k-mer");
  app.add_option("--generate", kmer.generate, "Write genomes, taxonomy and reads into a new folder, and stop");
  app.add_option("--organisms", kmer.organisms, "Generated genomes (default: 64)");
  app.add_option("--genome-bases", kmer.genome_bases, "Bases of each (default: so many that the database has --bytes)");
  app.add_option("--read-count", kmer.read_count, "Generated reads (default: 2000)");
  app.add_option("--read-bases", kmer.read_bases, "Bases of each (default: 100)");
  app.add_option("--error-rate", kmer.error_rate, "Share of a read's bases that are wrong (default: 0.01)");
}

WorkloadOptions with_database(WorkloadOptions options, const KmerOptions& kmer) {
  if (!kmer.database.empty() && !options.file.empty()) {
    throw OptionError("--database and --file both name the database: choose one of them");
  }
  if (kmer.build_only && kmer.database.empty()) {
    throw OptionError("--build-only makes a database to be kept: name its file with --database");
  }
  if (!kmer.database.empty()) {
    options.file = kmer.database;
    options.keep = true;
  }
  return options;
}

KmerPlan make_plan(const WorkloadOptions& options, const KmerOptions& kmer) {
  KmerPlan plan;
  if (kmer.work != "classify" && kmer.work != "lookup") {
    throw OptionError("work " + kmer.work + " is unknown: choose classify or lookup");
  }
  plan.looks_up = kmer.work == "lookup";
  plan.k_given = !kmer.k.empty();
  if (plan.k_given) {
    plan.k = static_cast<std::uint32_t>(parse_whole_number(kmer.k, "k", least_k, most_k));
  }
  plan.index_given = !kmer.index.empty();
  if (plan.index_given) {
    plan.index = parse_index(kmer.index);
  }
  plan.lookups = parse_whole_number(kmer.lookups, "lookups", 1, most_of_many);
  check_generate(kmer, options);
  check_genomes(kmer);
  check_query_options(kmer, plan);
  check_output(options, kmer);
  plan.input = chosen_input(options, kmer);
  check_queries(kmer, plan);
  check_amounts(options, kmer, plan);
  if (plan.input == KmerPlan::Input::generated) {
    plan_generator(options, kmer, plan);
  }
  return plan;
}

}  // namespace tiermap
