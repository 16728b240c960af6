// tiermap-sort: sorts 64-bit words in place in a mapped file that may be several times larger than memory.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/orderly_end.hpp"
#include "command_line/program.hpp"
#include "config/size.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "parallel/word_sort.hpp"
#include "sort/word_input.hpp"
#include "sort/word_sum.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-sort";
constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);
constexpr std::uint64_t default_bytes = std::uint64_t{4} << 30U;
constexpr std::uint64_t default_page_size = std::uint64_t{2} << 20U;

struct SortOptions {
  std::string order;  ///< Empty: uniform.
  bool in_place = false;
};

std::string order_of(const SortOptions& sort) {
  return sort.order.empty() ? "uniform" : sort.order;
}

void check_size(std::uint64_t bytes, const std::string& what) {
  if (bytes == 0 || bytes % word_bytes != 0) {
    const std::uint64_t near = std::max(word_bytes, bytes / word_bytes * word_bytes);
    throw OptionError(
        fmt::format("{} {} is not a positive multiple of 8: choose for example {}", what, bytes, format_size(near)));
  }
}

/// The input, and what is known of it.
struct Input {
  Backing backing;
  WordSum sum;
};

Input prepare_input(const WorkloadOptions& options, const SortOptions& sort, const MemorySystem& system,
                    ThreadTeam& team, ProgressDisplay& progress) {
  if (sort.in_place) {
    Backing backing = Backing::open(options.file, true);
    check_size(backing.size_bytes(), "the size of " + options.file + ",");
    system.check_memory_for(backing.size_bytes());
    const WordSum sum = check_words(*backing.store(), team).sum;
    return {std::move(backing), sum};
  }
  const std::uint64_t wanted = options.bytes.value_or(default_bytes);
  system.check_memory_for(wanted);
  // What is not sorted yet would look like any other file of words.
  Backing backing = options.file.empty() ? Backing::create(scratch_path(program_name, "words"), wanted)
                                         : Backing::create_unfinished(options.file, wanted);
  const std::uint64_t bytes = backing.size_bytes();
  check_size(bytes, "the size of " + backing.url() + ",");
  if (options.bytes.value_or(bytes) != bytes) {
    throw OptionError(fmt::format("{} has {}, not the {} of --bytes: leave one of them out", backing.url(),
                                  format_size(bytes), format_size(*options.bytes)));
  }
  progress.restart("generating", bytes);
  const WordSum sum = write_words(*backing.store(), parse_word_order(order_of(sort)), options.seed, team, progress);
  return {std::move(backing), sum};
}

/// All that can be known to be wrong before anything is made.
void check_options(const WorkloadOptions& options, const SortOptions& sort) {
  parse_word_order(order_of(sort));
  if (sort.in_place) {
    if (options.file.empty()) {
      throw OptionError("--in-place sorts a file that is there: name it with --file");
    }
    if (options.bytes.has_value()) {
      throw OptionError("--bytes is for a file to be made, and --in-place sorts one that is there: choose one of them");
    }
    if (!sort.order.empty()) {
      throw OptionError("--order is that of words to be made, and --in-place sorts those that are there: leave it out");
    }
    return;
  }
  check_size(options.bytes.value_or(default_bytes), "size");
  if (backing_exists(options.file)) {
    throw OptionError(fmt::format("{} exists: name a new file, or sort what is in it with --in-place", options.file));
  }
}

/// The options of the sort itself, with what the program says to the system about its accesses.
WordSortOptions sort_options(const WorkloadOptions& options, const MemorySystem& system, MappedBytes& mapped,
                             ProgressDisplay& progress) {
  WordSortOptions sort;
  // Some of the budget is for pages on their way in and out.
  sort.memory_bytes = system.budget_bytes() / 10 * 7;
  sort.seed = options.seed;
  if (options.prefetch) {
    sort.ahead = [&mapped](std::uint64_t first, std::uint64_t count) {
      mapped.prefetch({first * word_bytes, count * word_bytes});
    };
  }
  sort.finished = [&mapped, &progress, early = options.prefetch](std::uint64_t first, std::uint64_t count) {
    if (early) {
      mapped.flush({first * word_bytes, count * word_bytes});
    }
    progress.add(count * word_bytes);
  };
  return sort;
}

/// Until the words are durable. What is sorted in place is its user's own: whoever asks the program to end finds all of
/// its words.
void sort_mapped(const SortOptions& sort, WordSortOptions how, MappedBytes& mapped, ThreadTeam& team) {
  std::optional<OrderlyEnd> end;
  if (sort.in_place) {
    end.emplace();
    how.between = [&end] { end->check(); };
  }
  try {
    sort_words(mapped.as_span<std::uint64_t>(), team, how);
  } catch (const WorkInterrupted&) {
    mapped.sync();
    throw;
  }
  mapped.sync();
}

void keep_sorted(const SortOptions& sort, Input& input, std::unique_ptr<MappedBytes>& mapped) {
  std::optional<OrderlyEnd> end;
  if (sort.in_place) {
    end.emplace();
  }
  mapped->save();
  mapped.reset();
  input.backing.finish();
  input.backing.keep();
}

/// Of the store itself where the result has to be there, of memory where it is only there.
WordCheck check_result(const WorkloadOptions& options, Input& input, const MappedBytes& mapped, ThreadTeam& team) {
  if (options.system == System::memory) {
    return check_words(mapped.as_span<const std::uint64_t>(), team);
  }
  input.backing.make_cold();
  return check_words(*input.backing.store(), team);
}

Report sort_file(const WorkloadOptions& options, const SortOptions& sort) {
  check_options(options, sort);
  const std::unique_ptr<MemorySystem> system = MemorySystem::make(options);
  if (!options.file.empty()) {
    system->check_url(options.file);
  }
  ThreadTeam team(options.threads);
  ProgressDisplay progress("preparing", 0, ProgressDisplay::Unit::bytes);

  const StopWatch preparing;
  Input input = prepare_input(options, sort, *system, team, progress);
  input.backing.make_cold();
  const double prepare_seconds = preparing.seconds();
  const StopWatch loading;
  std::unique_ptr<MappedBytes> mapped = system->map(input.backing, Access::read_write);
  const double load_seconds = loading.seconds();

  progress.restart("sorting", mapped->size());
  Measurement measured(*system);
  sort_mapped(sort, sort_options(options, *system, *mapped, progress), *mapped, team);
  measured.pause();

  Report report;
  report.workload = "sort";
  report.operations = mapped->size() / word_bytes;
  report.bytes = mapped->size();
  const StopWatch verifying;
  if (options.verify) {
    progress.restart("checking", 0);
    report.failure = explain_difference(input.sum, check_result(options, input, *mapped, team));
    report.verified = report.failure.empty();
  }
  report.fields["order"] = sort.in_place ? "in-place" : order_of(sort);
  report.fields["prepare_seconds"] = prepare_seconds;
  report.fields["load_seconds"] = load_seconds;
  report.fields["verify_seconds"] = verifying.seconds();
  report.describe(options, *system, measured);
  if (options.keep || sort.in_place) {
    keep_sorted(sort, input, mapped);
    report.fields["file"] = input.backing.url();
  }
  return report;
}

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  tiermap::Program program(tiermap::program_name,
                           "Sorts 64-bit words in place in a mapped file, out of core, and checks the result.",
                           tiermap::default_page_size);
  tiermap::SortOptions sort;
  program.app().add_option("--order", sort.order,
                           "Order of the generated words: uniform (default), ascending, descending or few-distinct");
  program.app().add_flag("--in-place", sort.in_place, "Sort what is in --file instead of generating words");
  return program.run(argc, argv,
                     [&](const tiermap::WorkloadOptions& options) { return tiermap::sort_file(options, sort); });
}
