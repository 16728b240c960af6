// A red-black tree: every node is red or black, a red one has no red child, every way down from the root passes as many
// black ones. Which node of the file has which key is random, as where nodes are allocated one by one for keys that
// come in no order: a way down touches another page at almost every step.
#pragma once

#include <span>

#include "search/dictionary.hpp"
#include "search/entries.hpp"
#include "search/mapped_elements.hpp"

namespace tiermap {

/// What a node of std::map has.
struct TreeNode {
  Entry entry;
  Link parent = 0;  ///< 0 for the root.
  Link left = 0;    ///< Smaller keys.
  Link right = 0;   ///< Larger keys.
  std::uint64_t red = 0;
};

class OrderedMap final : public Dictionary {
 public:
  OrderedMap(const SearchHeader& header, const MappedBytes& mapped, std::string name);
  std::optional<std::uint64_t> find(std::uint64_t key) const override;

 private:
  std::string name_;  ///< Of the file, in messages.
  const Link* root_;
  std::span<const TreeNode> nodes_;
  std::uint64_t most_steps_;
};

/// Nothing is inserted, which out of core would take a fault or more for each step of each insertion: the tree is a
/// balanced one whose shape is known, so what a node holds follows from its key's rank alone, and nodes are written in
/// the order of the file.
void build_ordered_map(const SearchHeader& header, const MappedBytes& mapped, const BuildTools& tools);

}  // namespace tiermap
