// tiermap-search: look-ups in a sorted vector, a red-black tree or a hash table that lies in a mapped file; how many a
// second. DI-MMAP's micro-benchmarks (Van Essen and others, Cluster Computing 2015, sections 5.2 and 6.3).
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/program.hpp"
#include "config/size.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "search/dictionary.hpp"
#include "search/lookup_run.hpp"
#include "search/search_file.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-search";
constexpr std::uint64_t default_bytes = std::uint64_t{1} << 30U;
constexpr std::uint64_t default_page_size = 4096;
constexpr std::uint64_t most_lookups = std::uint64_t{1} << 40U;

/// The options of this program as they are typed, and what they mean.
struct SearchOptions {
  std::string structure_text;
  std::string in;
  std::string lookups_text = "1048576";
  std::string hit_share = "50";

  Structure structure = Structure::sorted_vector;
  std::uint64_t lookups = 0;
  std::uint32_t hit_percent = 0;
};

void check_options(const WorkloadOptions& options, SearchOptions& search) {
  if (!search.structure_text.empty()) {
    search.structure = parse_structure(search.structure_text);
  }
  search.lookups = parse_whole_number(search.lookups_text, "lookups", 1, most_lookups);
  search.hit_percent = static_cast<std::uint32_t>(parse_whole_number(search.hit_share, "hit share", 0, 100));
  if (search.in.empty()) {
    if (backing_exists(options.file)) {
      throw OptionError(options.file + " exists: name a new file, or look up in what is in it with --in");
    }
    return;
  }
  if (!options.file.empty()) {
    throw OptionError("--file names a file to be made, and --in one that is there: choose one of them");
  }
  if (options.bytes.has_value()) {
    throw OptionError("--bytes is for a file to be made, and --in names one that is there: choose one of them");
  }
}

/// The file, and what its header says.
struct SearchFile {
  Backing backing;
  SearchHeader header;
};

SearchFile open_file(const SearchOptions& search, const MemorySystem& system) {
  Backing backing = Backing::open(search.in, false);
  const SearchHeader header = read_search_header(*backing.store());
  if (!search.structure_text.empty() && search.structure != header.structure) {
    throw OptionError(fmt::format("{} has structure {}, not {}: leave --structure out, or name another file", search.in,
                                  structure_name(header.structure), search.structure_text));
  }
  system.check_memory_for(backing.size_bytes());
  return {std::move(backing), header};
}

SearchFile make_file(const WorkloadOptions& options, const SearchOptions& search, MemorySystem& system,
                     ThreadTeam& team) {
  const SearchHeader header =
      SearchHeader::for_bytes(search.structure, options.bytes.value_or(default_bytes), options.seed);
  system.check_memory_for(header.file_bytes);
  Backing backing = Backing::create_unfinished(
      options.file.empty() ? scratch_path(program_name, structure_name(search.structure)) : options.file,
      header.file_bytes);
  if (backing.size_bytes() < header.file_bytes) {
    throw OptionError(fmt::format("{} has {} bytes, and {} are needed: choose fewer --bytes", backing.url(),
                                  backing.size_bytes(), header.file_bytes));
  }
  ProgressDisplay progress("preparing", 0);
  {
    const std::unique_ptr<MappedBytes> mapped = system.map(backing, Access::read_write);
    build_dictionary(header, *mapped, {team, system.budget_bytes(), progress});
    progress.restart("writing the file", 0);
    mapped->save();
  }
  // Last: a file whose making was cut short has no header, and is refused.
  write_search_header(*backing.store(), header);
  backing.finish();
  const SearchHeader written = read_search_header(*backing.store());
  return {std::move(backing), written};
}

void describe_lookups(Report& report, const SearchHeader& header, const SearchOptions& search,
                      const LookupOutcome& outcome, const Measurement& measured) {
  report.workload = "search";
  report.operations = search.lookups;
  report.bytes = header.file_bytes;
  const double per_second = static_cast<double>(search.lookups) / measured.seconds;
  report.fields["structure"] = structure_name(header.structure);
  report.fields["elements"] = header.elements;
  report.fields["lookups_per_second"] = per_second;
  report.fields["hits"] = outcome.hits;
  report.fields["misses"] = outcome.misses;
  report.fields["value_sum"] = outcome.value_sum;
  report.remark =
      fmt::format("{}, {} elements: {:.0f} look-ups a second, {} hits, {} misses", structure_name(header.structure),
                  header.elements, per_second, outcome.hits, outcome.misses);
}

Report search_file(const WorkloadOptions& options, SearchOptions search) {
  check_options(options, search);
  const std::string& url = search.in.empty() ? options.file : search.in;
  const std::unique_ptr<MemorySystem> system = MemorySystem::make(options);
  if (!url.empty()) {
    system->check_url(url);
  }
  ThreadTeam team(options.threads);

  const StopWatch preparing;
  SearchFile file = search.in.empty() ? make_file(options, search, *system, team) : open_file(search, *system);
  file.backing.make_cold();
  const double prepare_seconds = preparing.seconds();
  const StopWatch loading;
  const std::unique_ptr<MappedBytes> mapped = system->map(file.backing, Access::read_only);
  const double load_seconds = loading.seconds();

  const std::unique_ptr<const Dictionary> dictionary = open_dictionary(file.header, *mapped, file.backing.url());
  const LookupSequence sequence(Entries(file.header.seed), file.header.elements, options.seed, search.hit_percent);
  ProgressDisplay progress("looking up", search.lookups);
  Measurement measured(*system);
  const LookupOutcome outcome = look_up(*dictionary, sequence, search.lookups, team, progress);
  measured.pause();

  Report report;
  describe_lookups(report, file.header, search, outcome, measured);
  if (options.verify) {
    report.failure = outcome.failure(sequence, file.backing.url());
    report.verified = report.failure.empty();
  }
  report.fields["prepare_seconds"] = prepare_seconds;
  report.fields["load_seconds"] = load_seconds;
  report.describe(options, *system, measured);
  if (options.keep && search.in.empty()) {
    report.fields["file"] = file.backing.url();
    file.backing.keep();
  }
  return report;
}

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  tiermap::Program program(tiermap::program_name,
                           "Looks up keys in a sorted vector, a red-black tree or a hash table in a mapped file, and "
                           "checks every answer.",
                           tiermap::default_page_size);
  tiermap::SearchOptions search;
  program.app().add_option("--structure", search.structure_text,
                           "What is made: vector (sorted, default), ordered (red-black tree) or unordered (hash "
                           "table)");
  program.app().add_option("--in", search.in, "Look up in this file, made before with --file and --keep");
  program.app().add_option("--lookups", search.lookups_text, "How many look-ups (default: 1048576)");
  program.app().add_option("--hit-share", search.hit_share,
                           "How many of a hundred look-ups are of keys that are there (default: 50)");
  return program.run(argc, argv,
                     [&](const tiermap::WorkloadOptions& options) { return tiermap::search_file(options, search); });
}
