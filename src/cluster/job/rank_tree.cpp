#include "cluster/job/rank_tree.hpp"

#include <map>

namespace tiermap {

std::vector<std::uint32_t> parents_in_tree(const std::vector<std::string>& hosts, std::uint32_t degree) {
  std::vector<std::uint32_t> parents(hosts.size());
  std::vector<std::uint32_t> firsts;  // Of each node, in the order of ranks.
  std::map<std::string, std::vector<std::uint32_t>> nodes;
  for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
    std::vector<std::uint32_t>& node = nodes[hosts[rank]];
    if (node.empty()) {
      const auto place = static_cast<std::uint32_t>(firsts.size());
      parents[rank] = place < degree ? no_parent : firsts[place / degree - 1];
      firsts.push_back(rank);
    } else {
      parents[rank] = node[(node.size() - 1) / degree];
    }
    node.push_back(rank);
  }
  return parents;
}

}  // namespace tiermap
