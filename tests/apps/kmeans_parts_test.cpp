// The parts of tiermap-kmeans: centroids beside plain loops, k-means|| and Lloyd's iterations beside plain ones from
// the same centroids, the adjusted Rand index beside one that counts every pair, and checks that find what is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "command_line/memory_system.hpp"
#include "kmeans/clustering_check.hpp"
#include "kmeans/initial_centroids.hpp"
#include "kmeans/lloyd.hpp"
#include "points/cluster_truth.hpp"
#include "points/point_pass.hpp"

namespace tiermap::test {
namespace {

/// Points that are no clusters at all, on which every mistake shows.
class KMeansParts : public testing::Test {
 protected:
  static constexpr std::uint64_t points = 5000;
  static constexpr std::uint32_t dimensions = 5;

  KMeansParts()
      : coordinates_(points * dimensions),
        points_(Backing::create("memory:" + std::to_string(points * dimensions * sizeof(float)), 0)),
        assignments_(Backing::create("memory:" + std::to_string(points * sizeof(std::uint32_t)), 0)) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& coordinate : coordinates_) {
      coordinate = uniform(random);
    }
    write_fully(*points_.store(), coordinates_.data(), points * dimensions * sizeof(float), 0);
  }

  struct Run {
    InitialCentroids initial;
    Clustering clustering;
  };
  Run run(std::uint32_t threads, std::uint32_t clusters, const LloydOptions& lloyd = {}) {
    WorkloadOptions options;
    options.system = System::memory;
    options.threads = threads;
    const auto system = MemorySystem::make(options);
    const auto memory = PointMemory::make(*system, options, layout_, points_, assignments_);
    ThreadTeam team(threads);
    ProgressDisplay progress("testing", 0);
    Ranks alone;
    const PointPass pass{*memory, team, progress, alone};
    InitialOptions initial_options;
    initial_options.clusters = clusters;
    InitialCentroids initial = choose_initial_centroids(pass, initial_options);
    Clustering clustering = iterate(pass, initial.centroids, lloyd);
    memory->save_assignments();
    return {std::move(initial), std::move(clustering)};
  }
  const float* point(std::uint64_t index) const { return coordinates_.data() + index * dimensions; }
  std::string wrong(const Clustering& clustering) {
    ProgressDisplay progress("testing", 0);
    Agreement agreement;
    Ranks alone;
    return find_wrong_assignment({*points_.store(), *assignments_.store(), layout_}, clustering, nullptr, agreement,
                                 progress, alone);
  }

  PointLayout layout_{points, dimensions};
  std::vector<float> coordinates_;
  Backing points_;
  Backing assignments_;
};

double squared(const std::vector<double>& centroid, const float* point) {
  double sum = 0;
  for (std::size_t dimension = 0; dimension < centroid.size(); ++dimension) {
    sum += (point[dimension] - centroid[dimension]) * (point[dimension] - centroid[dimension]);
  }
  return sum;
}

std::vector<std::vector<double>> all_of(const Centroids& centroids) {
  std::vector<std::vector<double>> all;
  for (std::uint32_t index = 0; index < centroids.size(); ++index) {
    all.push_back(centroids.point(index));
  }
  return all;
}

bool is_same(const Centroids& one, const Centroids& other) {
  return all_of(one) == all_of(other);
}

TEST_F(KMeansParts, ClustersAreThoseOfPlainIterationsFromTheSameCentroids) {
  LloydOptions lloyd;
  lloyd.iterations = 6;
  lloyd.tolerance = 0;
  const auto [initial, clustering] = run(3, 13, lloyd);
  std::vector<std::vector<double>> centroids = all_of(initial.centroids);
  double inertia = 0;
  for (std::uint32_t iteration = 0; iteration <= lloyd.iterations; ++iteration) {
    inertia = 0;
    std::vector<std::vector<double>> sums(13, std::vector<double>(dimensions));
    std::vector<double> sizes(13);
    for (std::uint64_t index = 0; index < points; ++index) {
      const auto nearest =
          std::min_element(centroids.begin(), centroids.end(), [&](const auto& one, const auto& other) {
            return squared(one, point(index)) < squared(other, point(index));
          });
      inertia += squared(*nearest, point(index));
      const auto cluster = static_cast<std::size_t>(nearest - centroids.begin());
      ++sizes[cluster];
      for (std::uint32_t dimension = 0; dimension < dimensions; ++dimension) {
        sums[cluster][dimension] += point(index)[dimension];
      }
    }
    if (iteration < lloyd.iterations) {
      for (std::size_t cluster = 0; cluster < 13; ++cluster) {
        for (std::uint32_t dimension = 0; dimension < dimensions; ++dimension) {
          centroids[cluster][dimension] = sums[cluster][dimension] / sizes[cluster];
        }
      }
    }
  }
  EXPECT_EQ(clustering.iterations, 6U);
  EXPECT_FALSE(clustering.converged);
  EXPECT_NEAR(clustering.inertia, inertia, 1e-9 * inertia);
  for (std::uint32_t cluster = 0; cluster < 13; ++cluster) {
    for (std::uint32_t dimension = 0; dimension < dimensions; ++dimension) {
      EXPECT_NEAR(clustering.centroids.coordinate(cluster, dimension), centroids[cluster][dimension], 1e-9);
    }
  }
  EXPECT_EQ(wrong(clustering), "");
}

TEST_F(KMeansParts, TheNumberOfThreadsChangesNothing) {
  const Run expected = run(1, 9);
  for (const std::uint32_t threads : {2U, 3U, 7U, 300U}) {
    const Run other = run(threads, 9);
    EXPECT_TRUE(is_same(other.initial.centroids, expected.initial.centroids)) << threads;
    EXPECT_TRUE(is_same(other.clustering.centroids, expected.clustering.centroids)) << threads;
    EXPECT_EQ(other.clustering.inertia, expected.clustering.inertia) << threads;
    EXPECT_EQ(other.clustering.sizes, expected.clustering.sizes) << threads;
  }
}

TEST_F(KMeansParts, FirstCentroidsAreBetterThanPointsAtRandom) {
  const Run chosen = run(2, 20, {.iterations = 1, .tolerance = 0});
  EXPECT_GE(chosen.initial.candidates, 20U);
  EXPECT_EQ(chosen.initial.rounds, 5U);
  // Twice the clusters are drawn in each round, as expected; five standard deviations either way.
  EXPECT_NEAR(chosen.initial.candidates, 1 + 5 * 40, 5 * std::sqrt(200));
  double at_random = 0;
  Centroids some(dimensions);
  for (std::uint64_t index = 0; index < 20; ++index) {
    some.add<float>({point(index), dimensions});
  }
  double cost = 0;
  for (std::uint64_t index = 0; index < points; ++index) {
    at_random += some.nearest(point(index)).squared;
    cost += chosen.initial.centroids.nearest(point(index)).squared;
  }
  EXPECT_LT(cost, at_random);
}

TEST_F(KMeansParts, AsManyClustersAsPointsCostNothing) {
  layout_.points = 300;
  const Run each = run(3, 300, {.iterations = 3, .tolerance = 0});
  EXPECT_EQ(each.clustering.inertia, 0);
  EXPECT_TRUE(each.clustering.converged);
  EXPECT_EQ(each.clustering.sizes, std::vector<std::uint64_t>(300, 1));
}

TEST_F(KMeansParts, ChecksFindWhatIsWrong) {
  Clustering clustering = run(2, 4).clustering;
  ASSERT_EQ(wrong(clustering), "");
  const auto change = [&](std::uint64_t index, std::uint32_t cluster) {
    write_fully(*assignments_.store(), &cluster, sizeof(cluster), index * sizeof(cluster));
  };
  std::uint32_t right = 0;
  read_fully(*assignments_.store(), &right, sizeof(right), 4999 * sizeof(right));
  change(4999, (right + 1) % 4);
  EXPECT_NE(wrong(clustering).find("point 4999 is assigned to cluster"), std::string::npos);
  change(4999, 4);
  EXPECT_NE(wrong(clustering).find("point 4999 is assigned to cluster 4"), std::string::npos);
  change(4999, right);
  clustering.inertia *= 1.0001;
  EXPECT_NE(wrong(clustering).find("inertia"), std::string::npos);
  ++clustering.sizes[0];
  EXPECT_NE(wrong(clustering).find("sizes"), std::string::npos);
}

TEST(KMeansCentroids, TheNearestIsThatOfAPlainLoop) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const std::uint32_t dimensions : {1U, 3U, 16U}) {
    for (const std::uint32_t count : {1U, 7U, 8U, 9U, 40U}) {
      std::vector<float> point(dimensions);
      Centroids centroids(dimensions);
      for (std::uint32_t index = 0; index < count; ++index) {
        std::generate(point.begin(), point.end(), [&] { return std::round(2 * normal(random)); });
        centroids.add<float>(point);
      }
      for (int repetition = 0; repetition < 50; ++repetition) {
        std::generate(point.begin(), point.end(), [&] { return std::round(2 * normal(random)); });
        NearestCentroid expected;
        for (std::uint32_t index = 0; index < count; ++index) {
          const double distance = squared(centroids.point(index), point.data());
          EXPECT_EQ(centroids.squared_distance(index, point.data()), distance);
          if (distance < expected.squared) {
            expected = {index, distance};
          }
        }
        EXPECT_EQ(centroids.nearest(point.data()).index, expected.index);
        EXPECT_EQ(centroids.nearest(point.data()).squared, expected.squared);
        EXPECT_EQ(centroids.nearest(point.data(), 0, {99, expected.squared}).index, 99U);
      }
    }
  }
}

TEST(KMeansCentroids, TheLargestFloatsHaveADistance) {
  const float largest = std::numeric_limits<float>::max();
  Centroids centroids(2);
  centroids.add<float>(std::vector{-largest, -largest});
  centroids.add<float>(std::vector{largest, largest});
  const std::vector<float> point = {largest, -largest};
  EXPECT_TRUE(std::isfinite(centroids.nearest(point.data()).squared));
}

TEST(KMeansAgreement, TheIndexIsThatOfAllPairs) {
  std::mt19937 random(3);
  for (const std::uint32_t groups : {1U, 2U, 5U}) {
    std::vector<std::uint32_t> one(60);
    std::vector<std::uint32_t> other(60);
    Agreement agreement;
    for (std::size_t thing = 0; thing < one.size(); ++thing) {
      one[thing] = static_cast<std::uint32_t>(random() % groups);
      other[thing] = random() % 3 == 0 ? static_cast<std::uint32_t>(random() % 4) : one[thing] + 10;
      agreement.add(one[thing], other[thing]);
    }
    double both = 0;
    double in_one = 0;
    double in_other = 0;
    double pairs = 0;
    for (std::size_t first = 0; first < one.size(); ++first) {
      for (std::size_t second = first + 1; second < one.size(); ++second) {
        const bool same = one[first] == one[second];
        const bool same_there = other[first] == other[second];
        pairs += 1;
        both += same && same_there ? 1 : 0;
        in_one += same ? 1 : 0;
        in_other += same_there ? 1 : 0;
      }
    }
    const double chance = in_one * in_other / pairs;
    EXPECT_NEAR(agreement.adjusted_rand_index(), (both - chance) / ((in_one + in_other) / 2 - chance), 1e-12);
  }
  Agreement same;
  for (std::uint32_t thing = 0; thing < 30; ++thing) {
    same.add(thing % 3, 7 - thing % 3);
  }
  EXPECT_EQ(same.adjusted_rand_index(), 1);
  EXPECT_EQ(same.others(), 3U);
}

}  // namespace
}  // namespace tiermap::test
