// `tiermap heap stat`.
#include <fmt/format.h>

#include "config/size.hpp"
#include "heap/allocator_statistics.hpp"
#include "heap/disk_use.hpp"
#include "heap_reports/json.hpp"
#include "heap_reports/reports.hpp"

namespace tiermap {
namespace {

struct Space {
  AllocatorStatistics blocks;
  std::uint64_t data_bytes;     ///< On the disk,
  std::uint64_t journal_bytes;  ///< as well.
};

double unused_share(const SizeClass& size, const AllocatorStatistics::OfClass& of_class) {
  const double taken = static_cast<double>(of_class.spans) * size.slabs * static_cast<double>(slab_bytes);
  return 1 - static_cast<double>(of_class.live_blocks) * size.bytes / taken;
}

void print_space_json(const std::string& path, const SavedHeap& heap, const Space& space) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (unsigned index = 0; index < size_class_count; ++index) {
    const AllocatorStatistics::OfClass& of_class = space.blocks.classes[index];
    if (of_class.spans != 0) {
      classes.push_back({{"block_bytes", size_classes[index].bytes},
                         {"spans", of_class.spans},
                         {"span_bytes", size_classes[index].slabs * slab_bytes},
                         {"live_blocks", of_class.live_blocks},
                         {"free_blocks", of_class.free_slots},
                         {"unused_share", unused_share(size_classes[index], of_class)}});
    }
  }
  const AllocatorStatistics& blocks = space.blocks;
  print_heap_json(
      {{"path", path},
       {"layout_version", heap_layout_version},
       {"closed", heap.closed()},
       {"checkpoints", heap.checkpoints()},
       {"page_size_bytes", heap.page_size_bytes()},
       {"capacity_bytes", blocks.capacity_bytes},
       {"used_bytes", blocks.live_bytes},
       {"taken_bytes", blocks.span_bytes + blocks.large_run_bytes},
       {"free_bytes", blocks.free_bytes},
       {"largest_free_bytes", blocks.largest_free_run_bytes},
       {"used_end_bytes", blocks.used_end_bytes},
       {"disk_bytes", space.data_bytes + space.journal_bytes},
       {"data_disk_bytes", space.data_bytes},
       {"journal_disk_bytes", space.journal_bytes},
       {"journal_bytes_to_apply", heap.bytes_to_apply()},
       {"blocks", blocks.live_blocks},
       {"objects", heap.objects().size()},
       {"unused_share", blocks.unused_share()},
       {"fragmentation", blocks.fragmentation()},
       {"size_classes", classes},
       {"large",
        {{"blocks", blocks.large_blocks}, {"bytes", blocks.large_bytes}, {"taken_bytes", blocks.large_run_bytes}}}});
}

std::string how_left(const SavedHeap& heap) {
  if (heap.closed()) {
    return "yes";
  }
  std::string text = fmt::format("no; it is opened at its last checkpoint, number {}", heap.checkpoints());
  if (heap.bytes_to_apply() != 0) {
    text += fmt::format(", of which {} are still in the journal", format_size_rounded(heap.bytes_to_apply()));
  }
  return text;
}

void print_classes(const AllocatorStatistics& blocks) {
  fmt::print("\n{:>12}  {:>10}  {:>12}  {:>12}  {:>7}\n", "BLOCK BYTES", "SPANS", "LIVE BLOCKS", "FREE BLOCKS",
             "UNUSED");
  for (unsigned index = 0; index < size_class_count; ++index) {
    const AllocatorStatistics::OfClass& of_class = blocks.classes[index];
    if (of_class.spans != 0) {
      fmt::print("{:>12}  {:>10}  {:>12}  {:>12}  {:>6.1f}%\n", size_classes[index].bytes, of_class.spans,
                 of_class.live_blocks, of_class.free_slots, 100 * unused_share(size_classes[index], of_class));
    }
  }
  if (blocks.large_blocks != 0) {
    fmt::print("{:>12}  {:>10}  {:>12}  {:>12}  {:>6.1f}%\n", "larger", "-", blocks.large_blocks, "-",
               100 * (1 - static_cast<double>(blocks.large_bytes) / static_cast<double>(blocks.large_run_bytes)));
  }
}

void print_space_text(const SavedHeap& heap, const Space& space) {
  const AllocatorStatistics& blocks = space.blocks;
  const auto line = [](const char* what, const std::string& value) { fmt::print("{:16}{}\n", what, value); };
  line("capacity", format_size_rounded(blocks.capacity_bytes));
  line("used", fmt::format("{} in {} blocks, {} of them objects with a name", format_size_rounded(blocks.live_bytes),
                           blocks.live_blocks, heap.objects().size()));
  line("set aside",
       fmt::format("{}, {:.1f}% of it not in blocks", format_size_rounded(blocks.span_bytes + blocks.large_run_bytes),
                   100 * blocks.unused_share()));
  line("free", fmt::format("{}, {} of it in one piece", format_size_rounded(blocks.free_bytes),
                           format_size_rounded(blocks.largest_free_run_bytes)));
  line("on disk", fmt::format("{}: data {}, journal {}", format_size_rounded(space.data_bytes + space.journal_bytes),
                              format_size_rounded(space.data_bytes), format_size_rounded(space.journal_bytes)));
  line("closed properly", how_left(heap));
  line("checkpoints", std::to_string(heap.checkpoints()));
  line("page size", format_size(heap.page_size_bytes()));
  line("layout version", std::to_string(heap_layout_version));
  if (blocks.live_blocks != 0) {
    print_classes(blocks);
  }
}

}  // namespace

void print_space(const std::string& path, const SavedHeap& heap, bool json) {
  const Space space{heap.space(), bytes_on_disk(path + "/data"), bytes_on_disk(path + "/journal")};
  json ? print_space_json(path, heap, space) : print_space_text(heap, space);
}

}  // namespace tiermap
