// tiermap-kmer: a database of k-mers in a mapped file that may be several times larger than memory; which organisms
// reads come from. After LMAT, as the DI-MMAP paper describes it (Van Essen and others, Cluster Computing 2015, section
// 4.1).
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/program.hpp"
#include "command_line/text_input.hpp"
#include "kmer/database_builder.hpp"
#include "kmer/database_check.hpp"
#include "kmer/fasta_reader.hpp"
#include "kmer/generated_folder.hpp"
#include "kmer/kmer_options.hpp"
#include "kmer/kmer_report.hpp"
#include "kmer/kmer_work.hpp"
#include "kmer/read_work.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-kmer";
/// A look-up wants a few words here and there.
constexpr std::uint64_t default_page_size = 4096;
/// Checked again past the mapping, where each costs a few reads.
constexpr std::uint64_t sample_reads = 50;
constexpr std::uint64_t sample_kmers = 1000;

class KmerRun {
 public:
  KmerRun(const WorkloadOptions& options, const KmerOptions& kmer)
      : options_(options),
        kmer_(kmer),
        plan_(make_plan(options, kmer)),
        system_(MemorySystem::make(options)),
        team_(options.threads),
        progress_("preparing", 0) {
    if (!options.file.empty()) {
      system_->check_url(options.file);
    }
  }

  Report run() {
    if (!kmer_.generate.empty()) {
      return generate();
    }
    check_queries();
    OrderedOutput output(kmer_.output);
    Measurement building(*system_);
    Backing database = open_or_build();
    building.pause();
    if (options_.keep) {
      // Whatever the reads hold, what took so long stays.
      database.keep();
    }
    const DatabaseHeader header = read_database_header(*database.store());
    check_fits(header, database.url());
    if (kmer_.build_only) {
      return report_build(database, header, building);
    }
    const Taxonomy taxonomy = read_database_taxonomy(*database.store(), header);
    system_->check_memory_for(database.size_bytes());
    database.make_cold();
    const StopWatch loading;
    const std::unique_ptr<MappedBytes> mapped = system_->map(database, Access::read_only);
    Report report;
    report.fields["prepare_seconds"] = building.seconds;
    report.fields["load_seconds"] = loading.seconds();
    describe_database(header, report);
    RangesAhead ahead;
    if (options_.prefetch && options_.system != System::memory && announcements_have_room()) {
      ahead = [&mapped](std::span<const ByteRange> ranges) { mapped->prefetch(ranges); };
    }
    DatabaseLookup<MappedWords> lookup(header, MappedWords(mapped->data()), database.url(), ahead);
    if (plan_.looks_up) {
      look_up(header, lookup, *database.store(), output, report);
    } else {
      classify(header, taxonomy, lookup, *database.store(), output, report);
    }
    output.finish();
    if (options_.keep) {
      report.fields["file"] = database.url();
    }
    return report;
  }

 private:
  /// Pages that many threads announce at once push out each other's before they are looked at; and so many threads keep
  /// a disk at work without.
  bool announcements_have_room() const {
    constexpr std::uint64_t pages_of_kmer = 2;  // A slot and a list.
    const std::uint64_t pages = pages_of_kmer * Classifier::most_announced * options_.threads;
    return pages * system_->least_page_bytes() <= system_->budget_bytes() / 2;
  }

  Report generate() {
    Measurement measured(*system_);
    GeneratedFolder folder(kmer_.generate, plan_.generator, progress_);
    measured.pause();
    folder.keep();
    Report report;
    describe_generated(plan_.generator, report);
    report.fields["file"] = kmer_.generate;
    report.describe(options_, *system_, measured);
    return report;
  }

  /// What is no file of reads or k-mers at all should show before hours go into building.
  void check_queries() {
    reads_ = kmer_.reads;
    SequencePiece read;
    for (const std::string& path : reads_) {
      SequenceReader(path).next(read);
    }
    if (!kmer_.kmers.empty()) {
      const TextInput kmers(kmer_.kmers, "a file with a k-mer a line");
    }
  }

  Backing open_or_build() {
    if (plan_.input == KmerPlan::Input::database) {
      return Backing::open(options_.file, false);
    }
    DatabaseBuildOptions build;
    std::string taxonomy_path = kmer_.taxonomy;
    std::string sequence_taxa_path = kmer_.sequence_taxa;
    build.genomes = kmer_.genomes;
    if (plan_.input == KmerPlan::Input::generated) {
      announce_making();
      generated_.emplace(scratch_path(program_name, "input"), plan_.generator, progress_);
      const GeneratedFiles files = generated_->files();
      build.genomes = {files.genomes};
      taxonomy_path = files.taxonomy;
      sequence_taxa_path = files.sequence_taxa;
      reads_ = {files.reads};
    }
    const Taxonomy taxonomy = read_taxonomy(taxonomy_path);
    sequence_taxa_ = read_sequence_taxa(sequence_taxa_path, taxonomy);
    genomes_ = build.genomes;
    build.url = options_.file.empty() ? scratch_path(program_name, "database") : options_.file;
    build.scratch_path = is_plain_path(build.url) ? build.url + ".runs" : scratch_path(program_name, "runs");
    refuse_left_behind(build.scratch_path);
    build.k = plan_.k;
    build.index = plan_.index;
    build.prefetch = options_.prefetch;
    return build_database(build, taxonomy, sequence_taxa_, *system_, team_, progress_);
  }

  /// A name that was mistyped should not look like a database that is there.
  void announce_making() const {
    if (!options_.file.empty() && !kmer_.build_only && !options_.bytes.has_value()) {
      std::fputs(fmt::format("{}{}: {} is not there: generating genomes and reads (see --genomes and --bytes)\n",
                             progress_.shown() ? "\r\033[K" : "", program_name, options_.file)
                     .c_str(),
                 stderr);
    }
  }

  /// What was asked for, a database that is there already must have.
  void check_fits(const DatabaseHeader& header, const std::string& name) const {
    if (plan_.k_given && header.k != plan_.k) {
      throw OptionError(fmt::format("{} is a database of k {}, and --k asks for {}: leave out --k, or build another",
                                    name, header.k, plan_.k));
    }
    if (plan_.index_given && header.index != plan_.index) {
      throw OptionError(
          fmt::format("{} is a database with index {}, and --index asks for {}: leave out --index, or build "
                      "another",
                      name, index_name(header.index), index_name(plan_.index)));
    }
  }

  void look_up(const DatabaseHeader& header, KmerLookup& lookup, Store& store, OrderedOutput& output, Report& report) {
    progress_.restart("reading k-mers", 0);
    const std::vector<Kmer> kmers = kmer_.kmers.empty() ? kmers_of_reads(reads_, header.k, plan_.lookups)
                                                        : read_kmers(kmer_.kmers, header.k, plan_.lookups);
    if (kmers.empty()) {
      throw OptionError(
          fmt::format("{}: no read has {} known bases in a row: name other reads, or use a database of a "
                      "smaller k",
                      reads_.front(), header.k));
    }
    progress_.restart("looking up k-mers", kmers.size());
    Measurement measured(*system_);
    const LookupTotals totals = look_up_kmers(kmers, header.k, lookup, team_, output, progress_);
    measured.pause();
    describe_lookups(totals, kmers.size(), measured.seconds, report);
    verify(header, lookup, store, report, [&](DatabaseCheck& check) {
      std::vector<Kmer> sample;
      const std::uint64_t step = (kmers.size() + sample_kmers - 1) / sample_kmers;
      for (std::uint64_t index = 0; index < kmers.size(); index += step) {
        sample.push_back(kmers[index]);
      }
      return check.compare_with_store(sample, lookup);
    });
    report.describe(options_, *system_, measured);
  }

  void classify(const DatabaseHeader& header, const Taxonomy& taxonomy, KmerLookup& lookup, Store& store,
                OrderedOutput& output, Report& report) {
    progress_.restart("classifying", total_file_bytes(reads_, sequence_file));
    std::vector<ReadSample> samples;
    const ReadWork work{reads_, taxonomy, header.k, options_.verify ? sample_reads : 0};
    Measurement measured(*system_);
    const ReadTotals totals = classify_reads(work, lookup, team_, output, progress_, samples);
    measured.pause();
    tell_of_short_reads(totals, header.k);
    describe_reads(totals, measured.seconds, report);
    verify(header, lookup, store, report, [&](DatabaseCheck& check) {
      std::string failure = check.compare_with_store(samples, taxonomy, lookup);
      return failure.empty() && is_accuracy_expected(header) ? judge_accuracy(totals) : failure;
    });
    report.describe(options_, *system_, measured);
  }

  /// Only of what was generated here, where k-mers are long enough not to meet by chance, and reads long and right
  /// enough to tell one organism from the next.
  bool is_accuracy_expected(const DatabaseHeader& header) const {
    constexpr double most_errors = 0.02;
    constexpr std::uint32_t least_bases = 80;  // Siblings differ in eight of them.
    const GeneratorOptions& generated = plan_.generator;
    return plan_.input == KmerPlan::Input::generated && header.kmers < kmer_mask(header.k) / 64 &&
           generated.error_rate <= most_errors && generated.read_bases >= least_bases;
  }

  void tell_of_short_reads(const ReadTotals& totals, std::uint32_t k) const {
    const std::string text = explain_short_reads(totals, k);
    if (text.empty()) {
      return;
    }
    if (totals.short_reads == totals.reads) {
      throw OptionError(text);
    }
    std::fputs(fmt::format("{}{}: {}\n", progress_.shown() ? "\r\033[K" : "", program_name, text).c_str(), stderr);
  }

  template <typename CheckWork>
  void verify(const DatabaseHeader& header, KmerLookup& lookup, Store& store, Report& report,
              const CheckWork& check_work) {
    const StopWatch verifying;
    if (options_.verify) {
      progress_.restart("checking", 0);
      // The store outlives this.
      DatabaseCheck check(header, std::shared_ptr<Store>(&store, [](Store*) {}));
      report.failure = check_work(check);
      if (report.failure.empty() && !genomes_.empty()) {
        progress_.restart("checking", total_file_bytes(genomes_, sequence_file));
        report.failure = check.compare_with_genomes(genomes_, sequence_taxa_, lookup, progress_);
      }
      report.verified = report.failure.empty();
    }
    report.fields["verify_seconds"] = verifying.seconds();
  }

  Report report_build(const Backing& database, const DatabaseHeader& header, const Measurement& building) const {
    Report report;
    report.workload = "kmer-build";
    report.operations = header.occurrences;
    describe_database(header, report);
    report.fields["file"] = database.url();
    report.describe(options_, *system_, building);
    return report;
  }

  const WorkloadOptions options_;
  const KmerOptions& kmer_;
  const KmerPlan plan_;
  const std::unique_ptr<MemorySystem> system_;
  ThreadTeam team_;
  ProgressDisplay progress_;
  std::optional<GeneratedFolder> generated_;
  std::vector<std::string> genomes_;  ///< What the database was built from here.
  SequenceTaxa sequence_taxa_;
  std::vector<std::string> reads_;
};

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  tiermap::Program program(
      tiermap::program_name,
      "Builds a database of k-mers from genomes, out of core, and tells by it which organisms reads "
      "come from. Without genomes or a database it generates both, and reads whose truth is known.",
      tiermap::default_page_size);
  tiermap::KmerOptions kmer;
  tiermap::declare_options(program.app(), kmer);
  return program.run(argc, argv, [&](const tiermap::WorkloadOptions& options) {
    return tiermap::KmerRun(tiermap::with_database(options, kmer), kmer).run();
  });
}
