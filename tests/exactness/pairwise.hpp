// Combinations of several dimensions such that every pair of values of every two dimensions occurs in at least one: a
// few dozen cases where the full product would be tens of thousands.
#pragma once

#include <cstddef>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace tiermap {

/// `sizes[d]` is the number of values of dimension d. Each combination holds one value index a dimension. Always the
/// same answer for the same sizes.
inline std::vector<std::vector<std::size_t>> pairwise(const std::vector<std::size_t>& sizes) {
  using Pair = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;
  std::set<Pair> missing;
  for (std::size_t one = 0; one < sizes.size(); ++one) {
    for (std::size_t other = one + 1; other < sizes.size(); ++other) {
      for (std::size_t value = 0; value < sizes[one]; ++value) {
        for (std::size_t other_value = 0; other_value < sizes[other]; ++other_value) {
          missing.insert({one, value, other, other_value});
        }
      }
    }
  }
  // Every process of the tests works this out as it starts: what is looked up here is few.
  const auto for_each_pair = [](const std::vector<std::size_t>& row, const auto& visit) {
    for (std::size_t one = 0; one < row.size(); ++one) {
      for (std::size_t other = one + 1; other < row.size(); ++other) {
        visit(Pair{one, row[one], other, row[other]});
      }
    }
  };
  std::vector<std::vector<std::size_t>> rows;
  std::mt19937 random(1);
  while (!missing.empty()) {
    std::vector<std::size_t> best;
    std::size_t most_covered = 0;
    for (int attempt = 0; attempt < 60; ++attempt) {
      const auto& [one, value, other, other_value] = *missing.begin();
      std::vector<std::size_t> row;
      for (const std::size_t size : sizes) {
        row.push_back(random() % size);
      }
      row[one] = value;
      row[other] = other_value;
      std::size_t covered = 0;
      for_each_pair(row, [&](const Pair& pair) { covered += missing.count(pair); });
      if (covered > most_covered) {
        most_covered = covered;
        best = row;
      }
    }
    for_each_pair(best, [&](const Pair& pair) { missing.erase(pair); });
    rows.push_back(best);
  }
  return rows;
}

}  // namespace tiermap
