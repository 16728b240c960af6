// From which rank of a job each rank gets the pages that all are about to read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tiermap {

/// Of who asks the home.
inline constexpr std::uint32_t no_parent = ~std::uint32_t{0};

/// A rank's parent in the tree, by rank. `hosts` says where each rank is: ranks of one node hang below the first of
/// them, in a tree of its own, so that what they all read comes to the node once. First ranks of nodes are a tree below
/// the home. Nobody has more than `degree` children in either tree, and neither has the home.
std::vector<std::uint32_t> parents_in_tree(const std::vector<std::string>& hosts, std::uint32_t degree);

}  // namespace tiermap
