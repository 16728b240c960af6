#include "dbscan/density_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "command_line/backing.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t labels_at_once = 16384;
constexpr std::uint64_t most_looked_at = 32;

/// One of the points that are looked at, and what is around it.
struct LookedAt {
  std::uint64_t point = 0;
  std::vector<float> coordinates;
  std::uint32_t label = noise_label;
  std::uint64_t neighbours = 0;
  std::uint64_t noise = 0;           ///< Of the neighbours, those that are in no cluster.
  std::uint32_t highest = 0;         ///< The highest number of a neighbour's cluster.
  std::uint64_t of_its_cluster = 0;  ///< Neighbours of the same cluster, beside itself.
};

double squared_distance(const float* one, const float* other, std::uint32_t dimensions) {
  double squared = 0;
  for (std::uint32_t axis = 0; axis < dimensions; ++axis) {
    const double away = static_cast<double>(one[axis]) - static_cast<double>(other[axis]);
    squared += away * away;
  }
  return squared;
}

std::vector<LookedAt> choose_points(const LabelledPoints& files) {
  const std::uint64_t count = std::min(files.layout.points, most_looked_at);
  std::vector<LookedAt> chosen(count);
  for (std::uint64_t index = 0; index < count; ++index) {
    LookedAt& one = chosen[index];
    one.point = files.layout.points * index / count;
    one.coordinates.resize(files.layout.dimensions);
    const std::uint64_t bytes = files.layout.dimensions * sizeof(float);
    read_fully(files.points, one.coordinates.data(), bytes, one.point * bytes);
    read_fully(files.labels, &one.label, sizeof(one.label), one.point * sizeof(one.label));
  }
  return chosen;
}

void look(LookedAt& one, std::uint64_t point, const float* coordinates, std::uint32_t label,
          const LabelledPoints& files) {
  if (squared_distance(one.coordinates.data(), coordinates, files.layout.dimensions) > files.reach * files.reach) {
    return;
  }
  ++one.neighbours;
  if (label == noise_label) {
    ++one.noise;
    return;
  }
  one.highest = std::max(one.highest, label);
  one.of_its_cluster += label == one.label && point != one.point ? 1 : 0;
}

std::string wrong_about(const LookedAt& one, const LabelledPoints& files) {
  const bool core = one.neighbours >= files.neighbours;
  if (core && one.label == noise_label) {
    return fmt::format("point {} has {} points within reach, and is in no cluster", one.point, one.neighbours);
  }
  if (core && one.noise != 0) {
    return fmt::format("point {} is a core point, and {} of its neighbours are in no cluster", one.point, one.noise);
  }
  if (core && one.highest > one.label) {
    return fmt::format("point {} is a core point of cluster {}, and a neighbour is in cluster {}", one.point, one.label,
                       one.highest);
  }
  if (!core && one.label != noise_label && one.of_its_cluster == 0) {
    return fmt::format("point {} is in cluster {}, and none of its neighbours is", one.point, one.label);
  }
  return {};
}

}  // namespace

std::string find_wrong_label(const LabelledPoints& files, const DensityCounts& counts, const ClusterTruth* truth,
                             Agreement& agreement, ProgressDisplay& progress) {
  std::vector<LookedAt> chosen = choose_points(files);
  const std::uint64_t point_bytes = files.layout.dimensions * sizeof(float);
  AlignedBuffer points(labels_at_once * point_bytes);
  AlignedBuffer labels(labels_at_once * sizeof(std::uint32_t));
  std::vector<std::uint32_t> known(labels_at_once);
  std::uint64_t noise = 0;
  for (std::uint64_t first = 0; first < files.layout.points; first += labels_at_once) {
    const std::uint64_t count = std::min(labels_at_once, files.layout.points - first);
    read_fully(files.points, points.data(), count * point_bytes, first * point_bytes);
    read_fully(files.labels, labels.data(), count * sizeof(std::uint32_t), first * sizeof(std::uint32_t));
    if (truth != nullptr) {
      truth->read(first, std::span(known).first(count));
    }
    for (std::uint64_t index = 0; index < count; ++index) {
      const std::uint32_t label = labels.as_span<std::uint32_t>()[index];
      if (label != noise_label && label >= counts.clusters) {
        return fmt::format("point {} is in cluster {}, of {}", first + index, label, counts.clusters);
      }
      noise += label == noise_label ? 1 : 0;
      if (truth != nullptr && label != noise_label) {
        agreement.add(label, known[index]);
      }
      for (LookedAt& one : chosen) {
        look(one, first + index, points.as_span<float>().data() + index * files.layout.dimensions, label, files);
      }
    }
    progress.add(count);
  }
  if (noise != counts.noise) {
    return fmt::format("{} points are in no cluster, and {} were found", noise, counts.noise);
  }
  for (const LookedAt& one : chosen) {
    if (std::string wrong = wrong_about(one, files); !wrong.empty()) {
      return wrong;
    }
  }
  return {};
}

std::vector<std::uint32_t> plain_density_labels(std::span<const float> coordinates, const LabelledPoints& about,
                                                ProgressDisplay& progress) {
  const std::uint32_t dimensions = about.layout.dimensions;
  const std::uint64_t count = coordinates.size() / dimensions;
  const auto around = [&](std::uint64_t one) {
    std::vector<std::uint32_t> near;
    for (std::uint64_t other = 0; other < count; ++other) {
      if (squared_distance(&coordinates[one * dimensions], &coordinates[other * dimensions], dimensions) <=
          about.reach * about.reach) {
        near.push_back(static_cast<std::uint32_t>(other));
      }
    }
    progress.add(1);
    return near;
  };
  std::vector<std::uint32_t> labels(count, noise_label);
  std::uint32_t clusters = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    if (labels[seed] != noise_label || around(seed).size() < about.neighbours) {
      continue;
    }
    std::deque<std::uint64_t> to_follow{seed};
    labels[seed] = clusters;
    while (!to_follow.empty()) {
      const std::vector<std::uint32_t> near = around(to_follow.front());
      to_follow.pop_front();
      for (const std::uint32_t other : near) {
        if (near.size() >= about.neighbours && labels[other] == noise_label) {
          labels[other] = clusters;
          to_follow.push_back(other);
        }
      }
    }
    ++clusters;
  }
  return labels;
}

std::string compare_with_plain_labels(const LabelledPoints& files, ProgressDisplay& progress) {
  std::vector<float> points(files.layout.points * files.layout.dimensions);
  std::vector<std::uint32_t> labels(files.layout.points);
  read_fully(files.points, points.data(), files.layout.bytes(), 0);
  read_fully(files.labels, labels.data(), labels.size() * sizeof(std::uint32_t), 0);
  const std::vector<std::uint32_t> plain = plain_density_labels(points, files, progress);
  const auto [found, expected] = std::ranges::mismatch(labels, plain);
  if (found == labels.end()) {
    return {};
  }
  const auto name = [](std::uint32_t label) {
    return label == noise_label ? std::string("no cluster") : fmt::format("cluster {}", label);
  };
  return fmt::format("point {} is in {}, and by plain search in {}", found - labels.begin(), name(*found),
                     name(*expected));
}

}  // namespace tiermap
