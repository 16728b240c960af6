#include "graph_heap/graph_containers.hpp"

#include <fmt/format.h>

#include <boost/container/vector.hpp>
#include <boost/unordered_map.hpp>
#include <cerrno>
#include <utility>

#include "tiermap/error.hpp"
#include "tiermap/heap_containers.hpp"

namespace tiermap {
namespace {

constexpr const char* banks_name = "adjacency lists";
constexpr const char* counts_name = "counts";

using HeapBank = HeapUnorderedMap<Vertex, HeapVector<Vertex>>;
/// The same containers; only where they live differs.
using MemoryBank = boost::unordered_map<Vertex, boost::container::vector<Vertex>, HeapHash<Vertex>>;

/// The kernel's pages: a cache that never has too many.
std::unique_ptr<Cache> make_cache_of_kernel_pages() {
  CacheOptions options;
  options.fault_mode = FaultMode::kernel;
  options.budget_bytes = std::uint64_t{1} << 46U;
  return std::make_unique<Cache>(options);
}

class GraphHeap final : public GraphContainers {
 public:
  using Open = Heap (*)(const std::string&, const HeapOptions&);

  GraphHeap(Open open, const std::string& path, MemorySystem& system, const WorkloadOptions& options,
            const GraphHeapOptions& wanted)
      : heap_(open(path, heap_options(system, options, wanted))) {
    if (heap_.writable()) {
      heap_.construct<HeapBank>(banks_name)[bank_count]();
    }
    const std::span<HeapBank> banks = heap_.find_all<HeapBank>(banks_name);
    if (banks.size() != bank_count) {
      throw StoreError(EINVAL, fmt::format("heap {} holds no graph: name one that tiermap-ingest has made", path));
    }
    banks_.emplace(banks.first<bank_count>());
  }

  void insert(std::span<const Edge> edges) override { banks_->insert(edges); }
  std::span<const Vertex> neighbours(Vertex vertex) const override { return banks_->neighbours(vertex); }
  AskedBytes asked() const override { return banks_->asked(); }
  HeapStatistics statistics() const override { return heap_.statistics(); }
  void checkpoint() override { heap_.checkpoint(); }
  void close(const GraphCounts& counts) override {
    *heap_.find_or_construct<GraphCounts>(counts_name)() = counts;
    heap_.close();
  }
  GraphCounts counts() const {
    const GraphCounts* const found = heap_.find<GraphCounts>(counts_name);
    if (found == nullptr) {
      throw StoreError(EINVAL, fmt::format("heap {} was not filled to the end: make it anew", heap_.path()));
    }
    return *found;
  }

 private:
  HeapOptions heap_options(MemorySystem& system, const WorkloadOptions& options, const GraphHeapOptions& wanted) {
    HeapOptions heap;
    heap.capacity_bytes = wanted.capacity_bytes;
    heap.cache = system.cache();
    heap.advice = options.advice;
    heap.page_size_bytes = options.page_size_bytes;
    heap.checkpoints = wanted.checkpoints;
    if (heap.cache == nullptr) {
      kernel_pages_ = make_cache_of_kernel_pages();
      heap.cache = kernel_pages_.get();
      heap.checkpoints = false;
    }
    return heap;
  }

  std::unique_ptr<Cache> kernel_pages_;  ///< Of --system mmap.
  Heap heap_;
  std::optional<AdjacencyBanks<HeapBank>> banks_;
};

class GraphInMemory final : public GraphContainers {
 public:
  GraphInMemory() : maps_(bank_count), banks_(std::span(maps_).first<bank_count>()) {}
  void insert(std::span<const Edge> edges) override { banks_.insert(edges); }
  std::span<const Vertex> neighbours(Vertex vertex) const override { return banks_.neighbours(vertex); }
  AskedBytes asked() const override { return banks_.asked(); }
  void close(const GraphCounts&) override {}

 private:
  std::vector<MemoryBank> maps_;
  AdjacencyBanks<MemoryBank> banks_;
};

}  // namespace

std::unique_ptr<GraphContainers> make_graph_heap(const std::string& path, MemorySystem& system,
                                                 const WorkloadOptions& options, const GraphHeapOptions& heap) {
  return std::make_unique<GraphHeap>(&Heap::create, path, system, options, heap);
}

std::unique_ptr<GraphContainers> open_graph_heap(const std::string& path, MemorySystem& system,
                                                 const WorkloadOptions& options, GraphCounts& counts) {
  auto graph = std::make_unique<GraphHeap>(&Heap::open_read_only, path, system, options, GraphHeapOptions());
  counts = graph->counts();
  return graph;
}

std::unique_ptr<GraphContainers> make_graph_in_memory() {
  return std::make_unique<GraphInMemory>();
}

}  // namespace tiermap
