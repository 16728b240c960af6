#include "search/ordered_map.hpp"

#include <bit>

#include "parallel/permutation.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t order_salt = 0x6f72646572;

/// The tree over the ranks under a count: each subtree's root is the middle of its ranks. The sizes of two siblings
/// differ by one at most, so all levels but the lowest are full.
class BalancedTree {
 public:
  BalancedTree(std::uint64_t count, std::uint64_t seed)
      : count_(count), order_(count, seed ^ order_salt), entries_(seed), lowest_level_(bit_width(count) - 1) {}

  Link root() const noexcept { return link_of(middle(0, count_)); }

  TreeNode node(std::uint64_t index) const noexcept {
    const std::uint64_t rank = order_.at(index);
    TreeNode node;
    node.entry = entries_.at(rank);
    std::uint64_t first = 0;
    std::uint64_t end = count_;
    std::uint64_t level = 0;
    std::uint64_t parent = count_;
    for (std::uint64_t here = middle(first, end); here != rank; here = middle(first, end)) {
      if (rank < here) {
        end = here;
      } else {
        first = here + 1;
      }
      parent = here;
      ++level;
    }
    node.parent = level > 0 ? link_of(parent) : 0;
    node.left = first < rank ? link_of(middle(first, rank)) : 0;
    node.right = rank + 1 < end ? link_of(middle(rank + 1, end)) : 0;
    // The full levels are black; of the lowest, no way down has more than one.
    node.red = level > 0 && level == lowest_level_ ? 1 : 0;
    return node;
  }

 private:
  static std::uint64_t bit_width(std::uint64_t number) noexcept {
    return static_cast<std::uint64_t>(std::bit_width(number));
  }
  static std::uint64_t middle(std::uint64_t first, std::uint64_t end) noexcept { return first + (end - first) / 2; }
  Link link_of(std::uint64_t rank) const noexcept { return order_.place_of(rank) + 1; }

  std::uint64_t count_;
  Permutation order_;
  Entries entries_;
  std::uint64_t lowest_level_;
};

}  // namespace

OrderedMap::OrderedMap(const SearchHeader& header, const MappedBytes& mapped, std::string name)
    : name_(std::move(name)),
      root_(heads_in(header, mapped).data()),
      nodes_(elements_in<const TreeNode>(header, mapped)),
      // The most levels that a red-black tree of so many nodes can have: more only where links go in circles.
      most_steps_(2 * static_cast<std::uint64_t>(std::bit_width(header.elements))) {}

std::optional<std::uint64_t> OrderedMap::find(std::uint64_t key) const {
  Link link = *root_;
  for (std::uint64_t steps = 0; link != 0; ++steps) {
    if (link > nodes_.size() || steps == most_steps_) {
      refuse_link(name_, link);
    }
    const TreeNode& node = nodes_[link - 1];
    if (key == node.entry.key) {
      return node.entry.value;
    }
    link = key < node.entry.key ? node.left : node.right;
  }
  return std::nullopt;
}

void build_ordered_map(const SearchHeader& header, const MappedBytes& mapped, const BuildTools& tools) {
  const BalancedTree tree(header.elements, header.seed);
  tools.progress.restart("building", header.elements);
  heads_in(header, mapped).front() = tree.root();
  fill_elements(elements_in<TreeNode>(header, mapped), tools.team, tools.progress,
                [&](std::uint64_t index) { return tree.node(index); });
}

}  // namespace tiermap
