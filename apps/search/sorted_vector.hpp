// Entries in the order of their keys, searched by halving.
#pragma once

#include <span>

#include "search/dictionary.hpp"
#include "search/entries.hpp"

namespace tiermap {

class SortedVector final : public Dictionary {
 public:
  SortedVector(const SearchHeader& header, const MappedBytes& mapped);
  std::optional<std::uint64_t> find(std::uint64_t key) const override;

 private:
  std::span<const Entry> entries_;
};

void build_sorted_vector(const SearchHeader& header, const MappedBytes& mapped, const BuildTools& tools);

}  // namespace tiermap
