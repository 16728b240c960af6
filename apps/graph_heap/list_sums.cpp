#include "graph_heap/list_sums.hpp"

#include <atomic>

namespace tiermap {

void ListSums::add(std::span<const Edge> edges) noexcept {
  for (const Edge& edge : edges) {
    ListSum& list = sums_[edge.source];
    std::atomic_ref(list.degree).fetch_add(1, std::memory_order_relaxed);
    std::atomic_ref(list.sum).fetch_add(ListSum::hash(edge.target), std::memory_order_relaxed);
  }
}

}  // namespace tiermap
