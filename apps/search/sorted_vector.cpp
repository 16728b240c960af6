#include "search/sorted_vector.hpp"

#include <algorithm>

#include "search/mapped_elements.hpp"

namespace tiermap {

SortedVector::SortedVector(const SearchHeader& header, const MappedBytes& mapped)
    : entries_(elements_in<const Entry>(header, mapped)) {}

std::optional<std::uint64_t> SortedVector::find(std::uint64_t key) const {
  const auto found = std::ranges::lower_bound(entries_, key, {}, &Entry::key);
  if (found == entries_.end() || found->key != key) {
    return std::nullopt;
  }
  return found->value;
}

void build_sorted_vector(const SearchHeader& header, const MappedBytes& mapped, const BuildTools& tools) {
  const Entries entries(header.seed);
  tools.progress.restart("building", header.elements);
  fill_elements(elements_in<Entry>(header, mapped), tools.team, tools.progress,
                [&](std::uint64_t rank) { return entries.at(rank); });
}

}  // namespace tiermap
