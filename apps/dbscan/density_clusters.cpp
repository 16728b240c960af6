#include "dbscan/density_clusters.hpp"

#include <algorithm>
#include <functional>
#include <mutex>

namespace tiermap {
namespace {

/// Of a cluster, by the row that stands for it: its first core point, and later its number.
using ByRoot = std::unordered_map<std::uint32_t, std::uint32_t>;

}  // namespace

DensityCounts DensityClusters::find() {
  step("finding core points", [this](const TreeNode& leaf) { find_core(leaf); });
  step("joining", [this](const TreeNode& leaf) { join_leaf(leaf); });
  number_clusters();
  step("finding borders", [this](const TreeNode& leaf) { find_border(leaf); });
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
  return tree_.visit_near(point, [&](std::uint32_t first, std::uint32_t count, bool all) {
    if (all) {
      found += count;
    }
    for (std::uint32_t other = first; !all && other < first + count && found < neighbours_; ++other) {
      found += tree_.within_reach(point, tree_.coordinates(other)) ? 1U : 0U;
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

// Which row stands for a cluster depends on who joined what first; which points are in it does not.
void DensityClusters::number_clusters() {
  ByRoot clusters;
  std::mutex mutex;
  step("numbering", [&](const TreeNode& leaf) {
    ByRoot mine;
    for (std::uint32_t row = leaf.first; row < leaf.first + leaf.count; ++row) {
      if (link(row) != none) {
        const std::uint32_t root = root_of(row);
        const auto [lowest, added] = mine.try_emplace(root, tree_.point(row));
        lowest->second = std::min(lowest->second, tree_.point(row));
      }
    }
    const std::lock_guard lock(mutex);
    for (const auto& [root, point] : mine) {
      const auto [lowest, added] = clusters.try_emplace(root, point);
      lowest->second = std::min(lowest->second, point);
    }
  });
  std::vector<std::pair<std::uint32_t, std::uint32_t>> in_order;
  in_order.reserve(clusters.size());
  for (const auto& [root, point] : clusters) {
    in_order.emplace_back(point, root);
  }
  std::ranges::sort(in_order);
  for (std::uint32_t number = 0; number < in_order.size(); ++number) {
    clusters[in_order[number].second] = number;
  }
  counts_.clusters = in_order.size();
  // All links first lead straight to their root, since a number would be taken for one.
  step("numbering", [&](const TreeNode& leaf) {
    for (std::uint32_t row = leaf.first; row < leaf.first + leaf.count; ++row) {
      if (link(row) != none) {
        set_link(row, root_of(row));
      }
    }
  });
  std::atomic<std::uint64_t> core{0};
  step("numbering", [&](const TreeNode& leaf) {
    std::uint64_t here = 0;
    for (std::uint32_t row = leaf.first; row < leaf.first + leaf.count; ++row) {
      if (const std::uint32_t root = link(row); root != none) {
        set_link(row, clusters.at(root));
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
    tree_.visit_near(point, [&](std::uint32_t first, std::uint32_t count, bool all) {
      for (std::uint32_t other = first; other < first + count; ++other) {
        const std::uint32_t cluster = link(other);
        if (cluster < border && cluster < best && (all || tree_.within_reach(point, tree_.coordinates(other)))) {
          best = cluster;
        }
      }
      return best == 0;
    });
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
          const std::uint32_t label = link(row);
          out[point] = label == none ? noise_label : label & ~border;
        }
      }
      progress_.add(leaf.count);
    });
    labels.flush({begin * sizeof(std::uint32_t), std::min(at_once, out.size() - begin) * sizeof(std::uint32_t)});
  }
}

}  // namespace tiermap
