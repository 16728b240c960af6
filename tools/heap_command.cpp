// `tiermap heap`: what is in persistent heaps, whether they are sound, copies of them, and room they need not have.
#include <fmt/format.h>

#include <memory>

#include "commands.hpp"
#include "config/size.hpp"
#include "heap/compaction.hpp"
#include "heap/heap_copy.hpp"
#include "heap/heap_directory.hpp"
#include "heap/saved_heap.hpp"
#include "heap_reports/reports.hpp"
#include "interruption.hpp"
#include "observe/progress.hpp"
#include "tiermap/error.hpp"
#include "tiermap/heap.hpp"

namespace tiermap {
namespace {

constexpr int cannot_be_read = 2;

struct HeapCommandOptions {
  std::string path;
  std::string to;
  bool json = false;
  bool salvage = false;
};

/// On a terminal; in a pipe nothing is shown.
class ShownProgress {
 public:
  explicit ShownProgress(const char* what) : what_(what), display_(what, 0, ProgressDisplay::Unit::bytes) {}
  HeapProgress callback() {
    return [this](std::uint64_t done, std::uint64_t total) {
      stop_if_interrupted();
      if (total != total_) {
        display_.restart(what_, total);
        total_ = total;
      }
      display_.set(done);
    };
  }
  void finish() { display_.finish(); }

 private:
  const char* const what_;
  std::uint64_t total_ = 0;
  ProgressDisplay display_;
};

/// What the user can correct is his to hear as that.
void require_heap(const std::string& path) {
  const HeapPresence presence = heap_presence(path);
  if (presence == HeapPresence::nothing) {
    throw OptionError("heap " + path + " is missing: there is no such directory: check the path");
  }
  if (presence == HeapPresence::something || presence == HeapPresence::empty_directory) {
    throw OptionError(path + " is not a heap: a heap is a directory with a journal and data: check the path");
  }
}

void list(const HeapCommandOptions& options) {
  require_heap(options.path);
  print_objects(SavedHeap(options.path).objects(), options.json);
}

void describe(const HeapCommandOptions& options) {
  require_heap(options.path);
  print_space(options.path, SavedHeap(options.path), options.json);
}

void check(const HeapCommandOptions& options) {
  ShownProgress progress("checking");
  HeapCheck found;
  try {
    require_heap(options.path);
    found = Heap::check(options.path, progress.callback());
  } catch (const StoreError& error) {
    progress.finish();
    std::fputs(("tiermap: " + std::string(error.what()) + "\n").c_str(), stderr);
    throw ExitCode{cannot_be_read};
  }
  progress.finish();
  print_check(options.path, found, options.json);
  if (!found.sound()) {
    throw ExitCode{1};
  }
}

void copy(const HeapCommandOptions& options) {
  require_heap(options.path);
  if (heap_presence(options.to) != HeapPresence::nothing) {
    throw OptionError(options.to + " is there already: choose another path for the copy");
  }
  ShownProgress progress("copying");
  try {
    // Until then a signal ends this at once, as there is nothing to be taken away.
    if (!options.salvage) {
      copy_heap(options.path, options.to, progress.callback(), catch_signals);
      return;
    }
    const HeapSalvage salvage = salvage_heap(options.path, options.to, progress.callback(), catch_signals);
    progress.finish();
    print_salvage(options.to, salvage);
  } catch (const ExitCode&) {
    progress.finish();
    std::fputs(("tiermap: interrupted: nothing stays at " + options.to + "\n").c_str(), stderr);
    throw;
  }
}

void compact(const HeapCommandOptions& options) {
  require_heap(options.path);
  ShownProgress progress("compacting");
  const HeapCompaction done = compact_heap(options.path, progress.callback());
  progress.finish();
  if (options.json) {
    fmt::print(
        "{{\"disk_bytes_before\": {}, \"disk_bytes_after\": {}, \"journal_bytes_before\": {}, "
        "\"journal_bytes_after\": {}}}\n",
        done.bytes_before, done.bytes_after, done.journal_bytes_before, done.journal_bytes_after);
    return;
  }
  fmt::print("{} on disk before, {} after; of these the journal {} before, {} after.\n",
             format_size_rounded(done.bytes_before), format_size_rounded(done.bytes_after),
             format_size_rounded(done.journal_bytes_before), format_size_rounded(done.journal_bytes_after));
}

using HeapAction = void (*)(const HeapCommandOptions&);

/// A subcommand that takes the heap's path.
CLI::App* add(CLI::App& heap, const std::shared_ptr<HeapCommandOptions>& options, const char* name,
              const char* description, HeapAction action) {
  CLI::App* const command = heap.add_subcommand(name, description);
  command->add_option("PATH", options->path, "The heap's directory.")->required();
  command->callback([options, action] { action(*options); });
  return command;
}

}  // namespace

CLI::App* add_heap_command(CLI::App& program) {
  CLI::App* heap = program.add_subcommand("heap", "Look at persistent heaps, check, copy and compact them.");
  heap->require_subcommand(1);
  const auto options = std::make_shared<HeapCommandOptions>();
  constexpr char json[] = "Print one JSON object instead of text.";
  add(*heap, options, "ls", "List the objects that have names, and the unique ones. The heap is only read.", list)
      ->add_flag("--json", options->json, json);
  add(*heap, options, "stat",
      "Show what a heap's space is used for, what it takes up on the disk, and whether it was closed.", describe)
      ->add_flag("--json", options->json, json);
  add(*heap, options, "check",
      "Verify superblock, state, names, slab records, the bits of every span and the journal, and say of each finding "
      "where it is, what it means, and what can be saved. Writes nothing. Exit code 0: sound; 1: findings; 2: it "
      "cannot be read.",
      check)
      ->add_flag("--json", options->json, json);
  CLI::App* const copying = add(
      *heap, options, "copy",
      "Copy a heap that no process writes, in the state in which it would be opened: by reflink where the file system "
      "can, holes as holes. The copy is a closed heap; after a failure nothing stays.",
      copy);
  copying->add_option("TO", options->to, "The copy's directory, which must not exist.")->required();
  copying->add_flag("--salvage", options->salvage,
                    "Copy a heap that is not sound, so that what is intact can be opened again, and say what is not.");
  add(*heap, options, "compact",
      "Give back to the file system every page of 4 KiB that no block uses, and empty the journal. Objects cannot be "
      "moved, since they point to each other by distance: a page with one small block on it stays.",
      compact)
      ->add_flag("--json", options->json, json);
  return heap;
}

}  // namespace tiermap
