#include "dbscan/halo_trees.hpp"

namespace tiermap {

HaloTrees::HaloTrees(const PointTree& own, const Slabs& slabs, RowExchange& exchange, ThreadTeam& team,
                     ProgressDisplay& progress)
    : exchange_(exchange), rows_for_(exchange.ranks()) {
  const std::vector<std::uint64_t> of_ranks = exchange.gather({own.plan().points});
  for (std::uint32_t rank = 0; rank < exchange.rank(); ++rank) {
    first_row_ += static_cast<std::uint32_t>(of_ranks[rank]);
  }
  choose_rows(own, slabs);
  exchange_rows(own);
  build(below_, own.plan(), team, progress);
  build(above_, own.plan(), team, progress);
}

void HaloTrees::choose_rows(const PointTree& own, const Slabs& slabs) {
  for (std::uint32_t row = 0; row < own.plan().points; ++row) {
    const Slabs::Ranks near = slabs.near(own.coordinates(row), own.plan().reach);
    for (std::uint32_t rank = near.first; rank <= near.last; ++rank) {
      if (rank != exchange_.rank()) {
        rows_for_[rank].push_back(row);
      }
    }
  }
}

void HaloTrees::exchange_rows(const PointTree& own) {
  RowExchange::Rows rows;
  rows.row_bytes = own.plan().dimensions * sizeof(float);
  rows.counts = counts();
  rows.produce = [&](const RowExchange::Send& send) {
    for (std::uint32_t rank = 0; rank < rows_for_.size(); ++rank) {
      for (const std::uint32_t row : rows_for_[rank]) {
        send(rank, own.coordinates(row));
      }
    }
  };
  rows.expect = [](std::uint64_t) {};
  rows.consume = [&](std::uint32_t from, const std::byte* row) {
    Part& part = part_of(from);
    part.rows.insert(part.rows.end(), row, row + rows.row_bytes);
  };
  exchange_.exchange(rows);
}

void HaloTrees::build(Part& part, const TreePlan& plan, ThreadTeam& team, ProgressDisplay& progress) {
  const std::uint64_t row_bytes = plan.dimensions * sizeof(float);
  const auto points = static_cast<std::uint32_t>(part.rows.size() / row_bytes);
  const TreePlan here{points, plan.dimensions, plan.reach, plan.least_to_split};
  part.links.resize(points);
  part.tree_rows.emplace(PointTree::rows_bytes(here));
  part.tree_nodes.emplace(PointTree::nodes_bytes(here));
  part.tree.emplace(here, *part.tree_rows, *part.tree_nodes, false);
  for (std::uint32_t row = 0; row < points; ++row) {
    part.tree->set_row(row, reinterpret_cast<const float*>(part.rows.data() + row * row_bytes), row);
  }
  std::vector<std::byte>().swap(part.rows);
  part.tree->build(team, progress);
}

void HaloTrees::exchange_links(std::span<const std::uint32_t> own) {
  below_.links.clear();
  above_.links.clear();
  RowExchange::Rows rows;
  rows.row_bytes = sizeof(std::uint32_t);
  rows.counts = counts();
  rows.produce = [&](const RowExchange::Send& send) {
    for (std::uint32_t rank = 0; rank < rows_for_.size(); ++rank) {
      for (const std::uint32_t row : rows_for_[rank]) {
        send(rank, &own[row]);
      }
    }
  };
  rows.expect = [](std::uint64_t) {};
  rows.consume = [&](std::uint32_t from, const std::byte* row) {
    std::uint32_t link = 0;
    std::memcpy(&link, row, sizeof(link));
    part_of(from).links.push_back(link);
  };
  exchange_.exchange(rows);
}

std::vector<std::uint64_t> HaloTrees::counts() const {
  std::vector<std::uint64_t> counts;
  for (const std::vector<std::uint32_t>& rows : rows_for_) {
    counts.push_back(rows.size());
  }
  return counts;
}

}  // namespace tiermap
