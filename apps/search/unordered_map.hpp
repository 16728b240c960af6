// A hash table with chains: the hash of a key chooses a head, from which a chain of nodes goes. There are as many heads
// as nodes, so that chains are short: one node on average.
#pragma once

#include <span>

#include "search/dictionary.hpp"
#include "search/entries.hpp"
#include "search/mapped_elements.hpp"

namespace tiermap {

/// What a node of std::unordered_map has.
struct ChainNode {
  Entry entry;
  Link next = 0;  ///< Always a lower number: chains grow at their head, as nodes are added in order.
};

class UnorderedMap final : public Dictionary {
 public:
  UnorderedMap(const SearchHeader& header, const MappedBytes& mapped, std::string name);
  std::optional<std::uint64_t> find(std::uint64_t key) const override;

 private:
  std::string name_;  ///< Of the file, in messages.
  std::span<const Link> heads_;
  std::span<const ChainNode> nodes_;
};

/// Hashes are all over the heads: where these do not fit in memory, as many passes go over the nodes as it takes for
/// each to keep to heads that do.
void build_unordered_map(const SearchHeader& header, const MappedBytes& mapped, const BuildTools& tools);

}  // namespace tiermap
