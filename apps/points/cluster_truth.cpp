#include "points/cluster_truth.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "command_line/backing.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

class PlantedTruth final : public ClusterTruth {
 public:
  explicit PlantedTruth(const Particles& particles) : particles_(particles) {}
  void read(std::uint64_t first, std::span<std::uint32_t> numbers) const override {
    for (std::uint32_t& number : numbers) {
      number = particles_.cluster_of(first++);
    }
  }

 private:
  const Particles& particles_;
};

class StoredTruth final : public ClusterTruth {
 public:
  explicit StoredTruth(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  void read(std::uint64_t first, std::span<std::uint32_t> numbers) const override {
    read_fully(*store_, numbers.data(), numbers.size_bytes(), first * sizeof(std::uint32_t));
  }

 private:
  std::shared_ptr<Store> store_;
};

/// Of so many things.
double pairs(std::uint64_t things) {
  return static_cast<double>(things) * (static_cast<double>(things) - 1) / 2;
}

double pairs_within(const std::unordered_map<std::uint32_t, std::uint64_t>& groups) {
  double sum = 0;
  for (const auto& [group, things] : groups) {
    sum += pairs(things);
  }
  return sum;
}

}  // namespace

std::unique_ptr<ClusterTruth> planted_truth(const Particles& particles) {
  return std::make_unique<PlantedTruth>(particles);
}

std::unique_ptr<ClusterTruth> stored_truth(std::shared_ptr<Store> store, std::uint64_t points) {
  if (store->size_bytes() != points * sizeof(std::uint32_t)) {
    throw StoreError(EINVAL, fmt::format("{} has {} bytes, and not 4 for each of the {} points: name the file that was "
                                         "written with them",
                                         store->name(), store->size_bytes(), points));
  }
  return std::make_unique<StoredTruth>(std::move(store));
}

void Agreement::combine(Ranks& ranks) {
  struct Count {
    std::uint64_t both;
    std::uint64_t things;
  };
  std::vector<Count> counts;
  for (const auto& [both, things] : std::exchange(together_, {})) {
    counts.push_back({both, things});
  }
  for (const auto& [both, things] : ranks.gather(std::move(counts))) {
    together_[both] += things;
  }
}

std::size_t Agreement::others() const {
  std::unordered_map<std::uint32_t, bool> seen;
  for (const auto& [both, things] : together_) {
    seen[static_cast<std::uint32_t>(both)] = true;
  }
  return seen.size();
}

double Agreement::adjusted_rand_index() const {
  std::unordered_map<std::uint32_t, std::uint64_t> ones;
  std::unordered_map<std::uint32_t, std::uint64_t> others;
  std::uint64_t all = 0;
  double in_both = 0;
  for (const auto& [both, things] : together_) {
    ones[static_cast<std::uint32_t>(both >> 32U)] += things;
    others[static_cast<std::uint32_t>(both)] += things;
    in_both += pairs(things);
    all += things;
  }
  const double in_one = pairs_within(ones);
  const double in_other = pairs_within(others);
  const double by_chance = all > 1 ? in_one * in_other / pairs(all) : 0;
  const double at_most = (in_one + in_other) / 2;
  // Everything in one group, or each thing in a group of its own, on both sides.
  return at_most == by_chance ? 1 : (in_both - by_chance) / (at_most - by_chance);
}

}  // namespace tiermap
