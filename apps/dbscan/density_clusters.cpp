#include "dbscan/density_clusters.hpp"

#include <algorithm>
#include <functional>
#include <optional>

namespace tiermap {
namespace {

/// Of a cluster, by the row that stands for it: its first core point, or its number.
using ByRoot = std::unordered_map<std::uint32_t, std::uint32_t>;

/// Of each root which one comes before it in the same cluster, until that is itself.
std::uint32_t first_of(ByRoot& before, std::uint32_t root) {
  for (std::uint32_t* next = &before.at(root); *next != root; next = &before.at(root)) {
    *next = before.at(*next);
    root = *next;
  }
  return root;
}

/// `points` are first core points with their roots, `joins` two roots each: numbers in the order of first core points.
/// The same whatever the order of both.
ByRoot number_roots(std::vector<std::uint64_t> points, const std::vector<std::uint64_t>& joins,
                    std::uint64_t& clusters) {
  std::ranges::sort(points);
  ByRoot order;
  ByRoot before;
  for (const std::uint64_t word : points) {
    const auto root = static_cast<std::uint32_t>(word);
    order.emplace(root, static_cast<std::uint32_t>(order.size()));
    before.emplace(root, root);
  }
  for (const std::uint64_t word : joins) {
    const std::uint32_t one = first_of(before, static_cast<std::uint32_t>(word >> 32U));
    const std::uint32_t other = first_of(before, static_cast<std::uint32_t>(word));
    before[order[one] < order[other] ? other : one] = order[one] < order[other] ? one : other;
  }
  ByRoot numbers;
  clusters = 0;
  for (const std::uint64_t word : points) {
    const auto root = static_cast<std::uint32_t>(word);
    const std::uint32_t first = first_of(before, root);
    numbers.emplace(root, first == root ? static_cast<std::uint32_t>(clusters++) : numbers.at(first));
  }
  return numbers;
}

}  // namespace

DensityCounts DensityClusters::find() {
  step("finding core points", [this](const TreeNode& leaf) { find_core(leaf); });
  step("joining", [this](const TreeNode& leaf) { join_leaf(leaf); });
  lead_to_roots();
  if (halo_ != nullptr) {
    halo_->exchange_links(links_);
    step("joining", [this](const TreeNode& leaf) { join_leaf_across(leaf, halo_->above()); });
  }
  number_clusters();
  if (halo_ != nullptr) {
    halo_->exchange_links(links_);
  }
  step("finding borders", [this](const TreeNode& leaf) { find_border(leaf); });
  if (halo_ != nullptr) {
    sum_counts();
  }
  return counts_;
}

void DensityClusters::step(const char* what, const std::function<void(const TreeNode&)>& use) {
  progress_.restart(what, tree_.plan().points);
  tree_.for_each_leaf(team_, [&](const TreeNode& leaf) {
    use(leaf);
    progress_.add(leaf.count);
  });
}

// Of a micro-cluster with enough points each is a core point, and all are in one cluster: nothing is to be looked up.
void DensityClusters::find_core(const TreeNode& leaf) {
  const bool compact = tree_.compact(leaf);
  const bool dense = compact && leaf.count >= neighbours_;
  std::uint32_t first = none;
  for (std::uint32_t row = leaf.first; row < leaf.first + leaf.count; ++row) {
    if (!dense && !is_core(row)) {
      set_link(row, none);
      continue;
    }
    first = first == none || !compact ? row : first;
    set_link(row, first);
  }
}

bool DensityClusters::is_core(std::uint32_t row) const {
  const float* const point = tree_.coordinates(row);
  std::uint64_t found = 0;
  return has_enough(tree_, point, found) || (halo_ != nullptr && (has_enough(halo_->below().tree, point, found) ||
                                                                  has_enough(halo_->above().tree, point, found)));
}

/// Adds those of a tree to what was found, as far as there are not enough.
bool DensityClusters::has_enough(const PointTree& tree, const float* point, std::uint64_t& found) const {
  return tree.visit_near(point, [&](std::uint32_t first, std::uint32_t count, bool all) {
    if (all) {
      found += count;
    }
    for (std::uint32_t other = first; !all && other < first + count && found < neighbours_; ++other) {
      found += tree.within_reach(point, tree.coordinates(other)) ? 1U : 0U;
    }
    return found >= neighbours_;
  });
}

void DensityClusters::join_leaf(const TreeNode& leaf) {
  if (first_core(leaf) == none) {
    return;
  }
  if (!tree_.compact(leaf)) {
    join_leaves(leaf, leaf);
  }
  tree_.visit_leaves_near(leaf, [&](const TreeNode& other) { join_leaves(leaf, other); });
}

// Where both are micro-clusters one pair tells all.
void DensityClusters::join_leaves(const TreeNode& one, const TreeNode& other) {
  const bool once = tree_.compact(one) && tree_.compact(other);
  const std::uint32_t begin = first_core(other);
  if (begin == none || (once && root_of(first_core(one)) == root_of(begin))) {
    return;
  }
  for (std::uint32_t row = one.first; row < one.first + one.count; ++row) {
    const float* const point = tree_.coordinates(row);
    if (link(row) == none || !tree_.may_reach(point, other)) {
      continue;
    }
    for (std::uint32_t next = begin; next < other.first + other.count; ++next) {
      if (link(next) != none && tree_.within_reach(point, tree_.coordinates(next))) {
        unite(row, next);
        if (once) {
          return;
        }
      }
    }
  }
}

std::uint32_t DensityClusters::first_core(const TreeNode& leaf) const {
  for (std::uint32_t row = leaf.first; row < leaf.first + leaf.count; ++row) {
    if (link(row) != none) {
      return row;
    }
  }
  return none;
}

// Halves the path as it goes (Tarjan and van Leeuwen, 1984). Links lead to lower rows only, so there are no circles,
// whoever else is at work; a link that somebody else has moved on is as good.
std::uint32_t DensityClusters::root_of(std::uint32_t row) noexcept {
  for (std::uint32_t next = link(row); next != row; next = link(row)) {
    const std::uint32_t beyond = link(next);
    std::atomic_ref(links_[row]).compare_exchange_weak(next, beyond, std::memory_order_relaxed);
    row = beyond;
  }
  return row;
}

void DensityClusters::unite(std::uint32_t one, std::uint32_t other) noexcept {
  for (;;) {
    one = root_of(one);
    other = root_of(other);
    if (one == other) {
      return;
    }
    if (one < other) {
      std::swap(one, other);
    }
    // Only while it still stands for its cluster.
    std::uint32_t expected = one;
    if (std::atomic_ref(links_[one]).compare_exchange_strong(expected, other, std::memory_order_relaxed)) {
      return;
    }
  }
}

/// From here on links lead straight to roots, and those are numbered among the rows of all ranks.
void DensityClusters::lead_to_roots() {
  step("joining", [this](const TreeNode& leaf) {
    for (std::uint32_t row = leaf.first; row < leaf.first + leaf.count; ++row) {
      if (link(row) != none) {
        set_link(row, root_of(row));
      }
    }
  });
  const std::uint32_t first_row = halo_ != nullptr ? halo_->first_row() : 0;
  if (first_row == 0) {
    return;
  }
  step("joining", [&](const TreeNode& leaf) {
    for (std::uint32_t row = leaf.first; row < leaf.first + leaf.count; ++row) {
      if (link(row) != none) {
        set_link(row, link(row) + first_row);
      }
    }
  });
}

void DensityClusters::join_leaf_across(const TreeNode& leaf, const HaloTrees::Side& side) {
  if (first_core(leaf) != none) {
    side.tree.visit_all_leaves_near(leaf, [&](const TreeNode& other) { join_leaves_across(leaf, side, other); });
  }
}

void DensityClusters::join_leaves_across(const TreeNode& one, const HaloTrees::Side& side, const TreeNode& other) {
  const bool once = tree_.compact(one) && side.tree.compact(other);
  std::optional<std::uint64_t> last;
  for (std::uint32_t row = one.first; row < one.first + one.count; ++row) {
    const float* const point = tree_.coordinates(row);
    if (link(row) == none || !tree_.may_reach(point, other)) {
      continue;
    }
    for (std::uint32_t next = other.first; next < other.first + other.count; ++next) {
      if (side.link(next) != none && tree_.within_reach(point, side.tree.coordinates(next))) {
        if (const std::uint64_t join = std::uint64_t{link(row)} << 32U | side.link(next); join != last) {
          const std::lock_guard lock(mutex_);
          joins_.insert(join);
          last = join;
        }
        if (once) {
          return;
        }
      }
    }
  }
}

ByRoot DensityClusters::first_points() {
  ByRoot points;
  step("numbering", [&](const TreeNode& leaf) {
    ByRoot mine;
    for (std::uint32_t row = leaf.first; row < leaf.first + leaf.count; ++row) {
      if (link(row) != none) {
        const auto [lowest, added] = mine.try_emplace(link(row), tree_.point(row));
        lowest->second = std::min(lowest->second, tree_.point(row));
      }
    }
    const std::lock_guard lock(mutex_);
    for (const auto& [root, point] : mine) {
      const auto [lowest, added] = points.try_emplace(root, point);
      lowest->second = std::min(lowest->second, point);
    }
  });
  return points;
}

// Which row stands for a cluster depends on who joined what first; which points are in it does not.
void DensityClusters::number_clusters() {
  std::vector<std::uint64_t> points;
  for (const auto& [root, point] : first_points()) {
    points.push_back(std::uint64_t{point} << 32U | root);
  }
  std::vector<std::uint64_t> joins(joins_.begin(), joins_.end());
  if (halo_ != nullptr) {
    points = halo_->exchange().gather(std::move(points));
    joins = halo_->exchange().gather(std::move(joins));
  }
  const ByRoot numbers = number_roots(std::move(points), joins, counts_.clusters);
  std::atomic<std::uint64_t> core{0};
  step("numbering", [&](const TreeNode& leaf) {
    std::uint64_t here = 0;
    for (std::uint32_t row = leaf.first; row < leaf.first + leaf.count; ++row) {
      if (const std::uint32_t root = link(row); root != none) {
        set_link(row, numbers.at(root));
        ++here;
      }
    }
    core += here;
  });
  counts_.core = core;
}

void DensityClusters::find_border(const TreeNode& leaf) {
  DensityCounts here;
  for (std::uint32_t row = leaf.first; row < leaf.first + leaf.count; ++row) {
    if (link(row) != none) {
      continue;
    }
    const float* const point = tree_.coordinates(row);
    std::uint32_t best = none;
    const auto look = [&](const PointTree& tree, const auto& link_of) {
      tree.visit_near(point, [&](std::uint32_t first, std::uint32_t count, bool all) {
        for (std::uint32_t other = first; other < first + count; ++other) {
          const std::uint32_t cluster = link_of(other);
          if (cluster < border && cluster < best && (all || tree.within_reach(point, tree.coordinates(other)))) {
            best = cluster;
          }
        }
        return best == 0;
      });
    };
    look(tree_, [this](std::uint32_t other) { return link(other); });
    if (halo_ != nullptr) {
      for (const HaloTrees::Side& side : {halo_->below(), halo_->above()}) {
        look(side.tree, [&](std::uint32_t other) { return side.link(other); });
      }
    }
    if (best != none) {
      set_link(row, best | border);
      ++here.border;
    } else {
      ++here.noise;
    }
  }
  std::atomic_ref(counts_.border).fetch_add(here.border);
  std::atomic_ref(counts_.noise).fetch_add(here.noise);
}

/// Of all ranks.
void DensityClusters::sum_counts() {
  const std::vector<std::uint64_t> all = halo_->exchange().gather({counts_.core, counts_.border, counts_.noise});
  counts_.core = counts_.border = counts_.noise = 0;
  for (std::size_t rank = 0; rank < all.size(); rank += 3) {
    counts_.core += all[rank];
    counts_.border += all[rank + 1];
    counts_.noise += all[rank + 2];
  }
}

// Rows are in the tree's order and labels in that of the points: written all over a file that is larger than memory,
// each would cost a page. So the rows are gone through once for every part of the labels that fits.
void DensityClusters::write_labels(MappedBytes& labels, std::uint64_t bytes_at_once) const {
  const std::span<std::uint32_t> out = labels.as_span<std::uint32_t>();
  const std::uint64_t at_once = std::max<std::uint64_t>(bytes_at_once / sizeof(std::uint32_t), 1);
  progress_.restart("writing labels", (out.size() + at_once - 1) / at_once * out.size());
  for (std::uint64_t begin = 0; begin < out.size(); begin += at_once) {
    tree_.for_each_leaf(team_, [&](const TreeNode& leaf) {
      for (std::uint32_t row = leaf.first; row < leaf.first + leaf.count; ++row) {
        const std::uint32_t point = tree_.point(row);
        if (point - begin < at_once) {
          out[point] = label(row);
        }
      }
      progress_.add(leaf.count);
    });
    labels.flush({begin * sizeof(std::uint32_t), std::min(at_once, out.size() - begin) * sizeof(std::uint32_t)});
  }
}

}  // namespace tiermap
