#include "points/particles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "command_line/backing.hpp"
#include "points/random_share.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr double box_side = 1000;
constexpr double deviations_apart = 12;
/// Whole blocks of the disk, whatever the number of dimensions.
constexpr std::uint64_t least_at_once = 1024;
constexpr std::uint64_t floats_at_once = 65536;

/// Nearly normal, with a standard deviation of 1: the sum of four evenly distributed numbers, of 16 bits each. Without
/// a function that is not the same in every library.
double nearly_normal(std::uint64_t word) noexcept {
  constexpr double mean = 4 * 65535.0 / 2;
  constexpr double deviation = 37837.227;  // 65536 / sqrt(3)
  const std::uint64_t sum = (word & 0xffffU) + (word >> 16U & 0xffffU) + (word >> 32U & 0xffffU) + (word >> 48U);
  return (static_cast<double>(sum) - mean) / deviation;
}

}  // namespace

Particles::Particles(std::uint32_t clusters, std::uint32_t dimensions, std::uint64_t seed)
    : seed_(seed), centres_(dimensions) {
  choose_centres(clusters);
  double sum = 0;
  for (std::uint32_t cluster = 0; cluster < clusters; ++cluster) {
    sum += 1 + 2 * random_share(seed_of(seed_, Purpose::sizes), cluster);
    shares_.push_back(sum);
  }
  for (double& share : shares_) {
    share /= sum;
  }
}

// At random, again and again, until none is too near to another. As far apart as leaves most of the box free.
void Particles::choose_centres(std::uint32_t clusters) {
  const double apart = 0.4 * box_side / std::pow(clusters, 1.0 / dimensions());
  deviation_ = apart / deviations_apart;
  const std::uint64_t seed = seed_of(seed_, Purpose::centres);
  std::vector<float> centre(dimensions());
  for (std::uint64_t drawn = 0; centres_.size() < clusters;) {
    for (float& coordinate : centre) {
      coordinate = static_cast<float>(box_side * random_share(seed, drawn++));
    }
    if (centres_.nearest(centre.data()).squared >= apart * apart) {
      centres_.add<float>(centre);
    }
  }
}

std::uint32_t Particles::cluster_of(std::uint64_t particle) const noexcept {
  const double share = random_share(seed_of(seed_, Purpose::members), particle);
  const auto after = std::upper_bound(shares_.begin(), shares_.end() - 1, share);
  return static_cast<std::uint32_t>(after - shares_.begin());
}

void Particles::place(std::uint64_t particle, std::span<float> coordinates) const noexcept {
  const std::uint32_t cluster = cluster_of(particle);
  const std::uint64_t seed = seed_of(seed_, Purpose::places);
  for (std::uint32_t dimension = 0; dimension < coordinates.size(); ++dimension) {
    const double away = nearly_normal(random_word(seed, particle * coordinates.size() + dimension));
    coordinates[dimension] = static_cast<float>(centres_.coordinate(cluster, dimension) + deviation_ * away);
  }
}

void write_particles(const Particles& particles, Store& store, Store* truth, ThreadTeam& team,
                     ProgressDisplay& progress) {
  const std::uint32_t dimensions = particles.dimensions();
  const std::uint64_t particle_bytes = dimensions * sizeof(float);
  const std::uint64_t count = store.size_bytes() / particle_bytes;
  const std::uint64_t at_once = std::max(floats_at_once / dimensions / least_at_once, std::uint64_t{1}) * least_at_once;
  std::atomic<std::uint64_t> next{0};
  team.run([&](std::uint32_t) {
    AlignedBuffer places(at_once * particle_bytes);
    AlignedBuffer clusters(at_once * sizeof(std::uint32_t));
    for (std::uint64_t first = next.fetch_add(at_once); first < count; first = next.fetch_add(at_once)) {
      const std::uint64_t here = std::min(at_once, count - first);
      const std::span<float> coordinates = places.as_span<float>();
      const std::span<std::uint32_t> numbers = clusters.as_span<std::uint32_t>();
      for (std::uint64_t index = 0; index < here; ++index) {
        particles.place(first + index, coordinates.subspan(index * dimensions, dimensions));
        numbers[index] = particles.cluster_of(first + index);
      }
      write_fully(store, coordinates.data(), here * particle_bytes, first * particle_bytes);
      if (truth != nullptr) {
        write_fully(*truth, numbers.data(), here * sizeof(std::uint32_t), first * sizeof(std::uint32_t));
      }
      progress.add(here * particle_bytes);
    }
  });
}

void refuse_ranks_that_make_points(const Ranks& ranks) {
  if (!ranks.alone()) {
    throw OptionError(
        fmt::format("points are made by one process, and there are {} ranks: make them first, by "
                    "`tiermap-kmeans generate` alone, and name their file",
                    ranks.count()));
  }
}

}  // namespace tiermap
