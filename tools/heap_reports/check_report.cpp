// `tiermap heap check`, and what `copy --salvage` has to say.
#include <fmt/format.h>

#include <algorithm>

#include "config/size.hpp"
#include "heap_reports/json.hpp"
#include "heap_reports/reports.hpp"

namespace tiermap {
namespace {

const char* condition_name(HeapCondition condition) {
  switch (condition) {
    case HeapCondition::closed:
      return "closed";
    case HeapCondition::checkpoint:
      return "checkpoint";
    case HeapCondition::unsaved:
      return "unsaved";
    case HeapCondition::unknown:
      break;
  }
  return "unknown";
}

std::string in_words(const HeapCheck& check) {
  switch (check.condition) {
    case HeapCondition::closed:
      return "It was closed properly.";
    case HeapCondition::checkpoint:
      return fmt::format("It was not closed, and is opened at its last checkpoint, number {}.", check.checkpoints);
    case HeapCondition::unsaved:
      return "It was written without checkpoints and not closed: it cannot be opened.";
    case HeapCondition::unknown:
      break;
  }
  return "It is not known whether it was closed.";
}

void print_names(const std::vector<HeapObject>& objects) {
  for (const HeapObject& object : objects) {
    fmt::print("  {}  ({} x {} bytes at offset {})\n",
               object.unique ? "the unique " + shown(object.type_name) : shown(object.name), object.count,
               object.size_bytes, object.offset);
  }
}

void print_what_can_be_saved(const HeapCheck& check) {
  if (!check.sound() && !check.intact.empty()) {
    fmt::print(
        "\nCan be saved ('tiermap heap copy --salvage'): by intact metadata these objects are where they "
        "belong, whole; {}\n",
        check.condition == HeapCondition::unsaved
            ? "what is in them, and in the blocks that they point to, may be of different moments."
            : "what programs put into them, and the blocks that they point to, have no checksum.");
    print_names(check.intact);
  }
  if (!check.doubtful.empty()) {
    fmt::print("\nIn doubt: no intact metadata says that these objects are what their names say.\n");
    print_names(check.doubtful);
  }
}

void print_check_text(const std::string& path, const HeapCheck& check) {
  fmt::print("Heap {} {}. {}\n", path,
             check.sound()                ? std::string("is sound")
             : check.findings.size() == 1 ? std::string("is not sound: 1 finding")
                                          : fmt::format("is not sound: {} findings", check.findings.size()),
             in_words(check));
  if (check.journal_bytes_to_apply != 0) {
    fmt::print(
        "Its journal has {} of that checkpoint to be finished: the next that opens it for writing does that, and "
        "readers read it there.\n",
        format_size_rounded(check.journal_bytes_to_apply));
  }
  fmt::print("Live blocks: {}, with {}; objects with a name: {}.\n", check.live_blocks,
             format_size_rounded(check.live_bytes), check.intact.size() + check.doubtful.size());
  for (const HeapFinding& finding : check.findings) {
    fmt::print("\n{}, byte {}: {}\n  -> {}\n", finding.file, finding.byte, shown(finding.what), finding.meaning);
  }
  print_what_can_be_saved(check);
}

void print_check_json(const std::string& path, const HeapCheck& check) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const HeapFinding& finding : check.findings) {
    findings.push_back(
        {{"file", finding.file}, {"byte", finding.byte}, {"what", finding.what}, {"meaning", finding.meaning}});
  }
  print_heap_json({{"path", path},
                   {"sound", check.sound()},
                   {"condition", condition_name(check.condition)},
                   {"checkpoints", check.checkpoints},
                   {"journal_bytes_to_apply", check.journal_bytes_to_apply},
                   {"blocks", check.live_blocks},
                   {"bytes", check.live_bytes},
                   {"findings", findings},
                   {"intact", as_json(check.intact)},
                   {"doubtful", as_json(check.doubtful)}});
}

}  // namespace

void print_check(const std::string& path, const HeapCheck& check, bool json) {
  json ? print_check_json(path, check) : print_check_text(path, check);
}

void print_salvage(const std::string& to, const HeapSalvage& salvage) {
  if (salvage.was_sound) {
    fmt::print("There was nothing to salvage: the heap is sound, and {} is a copy of it.\n", to);
    return;
  }
  fmt::print(
      "Heap {} can be opened. Its blocks are copied as they were, and nothing says whether they go together: "
      "open it read-only, copy what is good to a new heap, and expect pointers in it that lead astray.\n",
      to);
  fmt::print("Objects with a name that are where intact metadata has them: {}.\n", salvage.kept.size());
  if (!salvage.doubtful.empty()) {
    fmt::print("In doubt, and kept as they were found:\n");
    print_names(salvage.doubtful);
  }
  if (!salvage.lost.empty()) {
    fmt::print("Lost, since their memory is not theirs any more:\n");
    print_names(salvage.lost);
  }
  if (salvage.unknown_bytes != 0) {
    fmt::print("{} are kept of which nobody knows what they hold; a block that is freed there gives 8 bytes back.\n",
               format_size_rounded(salvage.unknown_bytes));
  }
  if (salvage.unsure_blocks != 0) {
    fmt::print("{} small blocks count as live, as which of them are is lost.\n", salvage.unsure_blocks);
  }
}

}  // namespace tiermap
