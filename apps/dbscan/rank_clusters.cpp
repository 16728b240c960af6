#include "dbscan/rank_clusters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "points/stored_rows.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Of what is never empty, as the system maps nothing that is.
std::uint64_t some(std::uint64_t bytes) {
  return std::max(bytes, std::uint64_t{4096});
}

}  // namespace

void refuse_if_misplaced(std::uint64_t point, const float* coordinates, std::uint32_t dimensions) {
  for (std::uint32_t axis = 0; axis < dimensions; ++axis) {
    if (!std::isfinite(coordinates[axis])) {
      throw StoreError(EINVAL, fmt::format("point {} has no place: its coordinate {} is {} (both are counted from 0): "
                                           "leave such points out of the file, or give them numbers",
                                           point, axis, coordinates[axis]));
    }
  }
}

RankClusters::RankClusters(const RankWork& work, RowExchange& exchange, ThreadTeam& team, ProgressDisplay& progress)
    : work_(work), exchange_(exchange), team_(team), progress_(progress), slabs_(work.points, work.layout, exchange) {}

DensityCounts RankClusters::find() {
  take_points();
  tree_->build(team_, progress_);
  halo_.emplace(*tree_, slabs_, exchange_, team_, progress_);
  clusters_.emplace(*tree_, *links_, work_.neighbours, team_, progress_, &*halo_);
  return clusters_->find();
}

// Read twice: the first time to count, so that each row has its place before it is sent.
void RankClusters::take_points() {
  const VectorRange own = partition(work_.layout.points, exchange_.rank(), exchange_.ranks());
  const std::uint32_t dimensions = work_.layout.dimensions;
  progress_.restart("loading", 2 * own.count);
  RowExchange::Rows rows;
  rows.row_bytes = PointTree::row_bytes(dimensions);
  rows.counts.resize(exchange_.ranks());
  for_each_stored_row(work_.points, work_.layout, own, [&](std::uint64_t point, const float* coordinates) {
    refuse_if_misplaced(point, coordinates, dimensions);
    ++rows.counts[slabs_.owner(coordinates)];
    progress_.add(1);
    return true;
  });
  rows.produce = [&](const RowExchange::Send& send) {
    std::vector<float> row(dimensions + 1);
    for_each_stored_row(work_.points, work_.layout, own, [&](std::uint64_t point, const float* coordinates) {
      std::copy_n(coordinates, dimensions, row.data());
      const auto number = static_cast<std::uint32_t>(point);
      std::memcpy(&row[dimensions], &number, sizeof(number));
      send(slabs_.owner(coordinates), row.data());
      progress_.add(1);
      return true;
    });
  };
  rows.expect = [&](std::uint64_t count) { expect_points(count); };
  rows.consume = [&, next = std::uint32_t{0}](std::uint32_t, const std::byte* row) mutable {
    std::uint32_t number = 0;
    std::memcpy(&number, row + dimensions * sizeof(float), sizeof(number));
    tree_->set_row(next++, reinterpret_cast<const float*>(row), number);
  };
  exchange_.exchange(rows);
}

void RankClusters::expect_points(std::uint64_t count) {
  const TreePlan plan{static_cast<std::uint32_t>(count), work_.layout.dimensions, work_.reach, work_.least_to_split};
  rows_ = work_.make_room("rows", some(PointTree::rows_bytes(plan)));
  nodes_ = work_.make_room("nodes", some(PointTree::nodes_bytes(plan)));
  links_ = work_.make_room("links", some(count * sizeof(std::uint32_t)));
  tree_.emplace(plan, *rows_, *nodes_, work_.hints);
}

// Rows are in the tree's order and labels in that of the file: of a part that is larger than memory one piece after the
// other is asked for.
void RankClusters::visit_labels(const std::function<void(std::uint64_t, std::span<const std::uint32_t>)>& put) {
  const std::uint64_t at_once = std::max<std::uint64_t>(work_.label_bytes_at_once / sizeof(std::uint32_t), 1);
  const std::uint64_t most = partition(work_.layout.points, 0, exchange_.ranks()).count;
  progress_.restart("writing labels", most);
  for (std::uint64_t first = 0; first < most; first += at_once) {
    visit_labels_of(first, std::min(at_once, most - first), put);
    progress_.add(std::min(at_once, most - first));
  }
}

/// Of each rank's part of the file so many points, from one on.
void RankClusters::visit_labels_of(std::uint64_t first, std::uint64_t count,
                                   const std::function<void(std::uint64_t, std::span<const std::uint32_t>)>& put) {
  struct Label {
    std::uint32_t place;  ///< In the piece.
    std::uint32_t label;
  };
  std::vector<VectorRange> parts;
  for (std::uint32_t rank = 0; rank < exchange_.ranks(); ++rank) {
    parts.push_back(partition(work_.layout.points, rank, exchange_.ranks()));
  }
  const auto for_each_in_piece = [&](const auto& use) {
    for (std::uint32_t row = 0; row < tree_->plan().points; ++row) {
      const std::uint64_t point = tree_->point(row);
      const auto after = std::ranges::upper_bound(parts, point, {}, &VectorRange::first);
      const auto to = static_cast<std::uint32_t>(after - parts.begin() - 1);
      const std::uint64_t place = point - parts[to].first - first;
      if (place < count) {
        use(to, static_cast<std::uint32_t>(place), row);
      }
    }
  };
  RowExchange::Rows rows;
  rows.row_bytes = sizeof(Label);
  rows.counts.resize(exchange_.ranks());
  for_each_in_piece([&](std::uint32_t to, std::uint32_t, std::uint32_t) { ++rows.counts[to]; });
  rows.produce = [&](const RowExchange::Send& send) {
    for_each_in_piece([&](std::uint32_t to, std::uint32_t place, std::uint32_t row) {
      const Label label{place, clusters_->label(row)};
      send(to, &label);
    });
  };
  std::vector<std::uint32_t> labels;
  rows.expect = [&](std::uint64_t expected) { labels.resize(expected); };
  rows.consume = [&](std::uint32_t, const std::byte* row) {
    Label label{};
    std::memcpy(&label, row, sizeof(label));
    labels[label.place] = label.label;
  };
  exchange_.exchange(rows);
  if (!labels.empty()) {
    put(parts[exchange_.rank()].first + first, labels);
  }
}

}  // namespace tiermap
