// The transaction of one pass over the planes of a vector, from one on and around.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tiermap/transaction.hpp"

namespace tiermap {

/// Planes lie one after the other. Those at the beginning may come again at the end.
class PlanePass final : public Transaction {
 public:
  PlanePass(VectorStorage& vector, Intent intent, std::uint64_t plane_elements, std::uint64_t first_plane,
            std::uint64_t planes, const TransactionOptions& options)
      : Transaction(vector, intent, planes * plane_elements, options),
        elements_(vector.size()),
        plane_elements_(plane_elements),
        first_(first_plane * plane_elements) {}

  void pages(std::uint64_t position, std::uint64_t count, std::vector<PageAccesses>& runs) const override {
    for (std::uint64_t run = 0; run < count && position < length(); ++run) {
      const std::uint64_t element = (first_ + position) % elements_;
      const std::uint64_t page = page_of(element);
      const std::uint64_t accesses = std::min(end_of_page(page), elements_) - element;
      runs.push_back({page, accesses});
      position += accesses;
    }
  }
  /// So many planes are done with, counted from the first.
  void passed(std::uint64_t planes) {
    advance(planes * plane_elements_ - position());
    static_cast<void>(until_turn());  // What comes next is on its way.
  }

 private:
  const std::uint64_t elements_;
  const std::uint64_t plane_elements_;
  const std::uint64_t first_;
};

}  // namespace tiermap
