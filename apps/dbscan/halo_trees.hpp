// What a rank knows of the points that are others': those within reach of its slab.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "command_line/plain_bytes.hpp"
#include "dbscan/point_tree.hpp"
#include "dbscan/row_exchange.hpp"
#include "dbscan/slabs.hpp"

namespace tiermap {

/// One tree of points of lower ranks and one of those of higher ones, in memory. A row's point is not its number in the
/// file here, but which one it was of those that came.
class HaloTrees {
 public:
  struct Side {
    const PointTree& tree;
    const std::vector<std::uint32_t>& links;
    /// What its rank has written down of a row.
    std::uint32_t link(std::uint32_t row) const noexcept { return links[tree.point(row)]; }
  };

  /// By all ranks: sends what others need of the own tree's rows, and gets what this one needs.
  HaloTrees(const PointTree& own, const Slabs& slabs, RowExchange& exchange, ThreadTeam& team,
            ProgressDisplay& progress);

  Side below() const noexcept { return {*below_.tree, below_.links}; }
  Side above() const noexcept { return {*above_.tree, above_.links}; }
  /// How many points lower ranks have.
  std::uint32_t first_row() const noexcept { return first_row_; }
  std::uint64_t points() const noexcept { return below_.links.size() + above_.links.size(); }
  /// By all ranks: from here on links are those that their ranks have now.
  void exchange_links(std::span<const std::uint32_t> own);
  RowExchange& exchange() const noexcept { return exchange_; }

 private:
  struct Part {
    std::vector<std::byte> rows;
    std::vector<std::uint32_t> links;
    std::optional<PlainBytes> tree_rows;
    std::optional<PlainBytes> tree_nodes;
    std::optional<PointTree> tree;
  };

  void choose_rows(const PointTree& own, const Slabs& slabs);
  void exchange_rows(const PointTree& own);
  void build(Part& part, const TreePlan& plan, ThreadTeam& team, ProgressDisplay& progress);
  std::vector<std::uint64_t> counts() const;
  Part& part_of(std::uint32_t rank) noexcept { return rank < exchange_.rank() ? below_ : above_; }

  RowExchange& exchange_;
  std::vector<std::vector<std::uint32_t>> rows_for_;  ///< Own rows that each rank needs.
  std::uint32_t first_row_ = 0;
  Part below_;
  Part above_;
};

}  // namespace tiermap
