// Adjacency lists as containers: a vertex belongs to one of many banks, and a bank is a hash map from its vertices to
// the vectors of their neighbours. Whether these live in a persistent heap or in plain memory is the map's affair.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "edges/edge_groups.hpp"
#include "edges/edge_source.hpp"
#include "parallel/random.hpp"

namespace tiermap {

/// More than threads, so that these seldom meet; few enough that an empty bank costs nothing to speak of.
inline constexpr std::size_t bank_count = 1024;

/// Bytes that containers have asked their allocator for, as far as they tell.
struct AskedBytes {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

/// The maps are somebody else's, and the locks are not beside them: who waits for one touches no page.
template <typename Map>
class AdjacencyBanks {
 public:
  explicit AdjacencyBanks(std::span<Map, bank_count> banks) : banks_(banks) {}

  /// Appends each target to its source's list, bank after bank: what one bank allocates lies together, and the next
  /// piece finds it together. Give it many edges at a time. Thread-safe.
  void insert(std::span<const Edge> edges) {
    const EdgeGroups groups(edges, bank_count, [](const Edge& edge) { return bank_of(edge.source); });
    for (std::size_t bank = 0; bank < bank_count; ++bank) {
      if (groups.of(bank).empty()) {
        continue;
      }
      const std::lock_guard held(locks_[bank].mutex);
      for (const Edge& edge : groups.of(bank)) {
        banks_[bank][edge.source].push_back(edge.target);
      }
    }
  }

  /// One list where it lies; one that nothing was put into is empty. Not while others insert.
  std::span<const Vertex> neighbours(Vertex vertex) const {
    const Map& bank = banks_[bank_of(vertex)];
    const auto found = bank.find(vertex);
    return found == bank.end() ? std::span<const Vertex>()
                               : std::span<const Vertex>(found->second.data(), found->second.size());
  }

  /// What the lists need: for each vertex a node of the map and the vector's array, and the maps' tables. Not while
  /// others insert.
  AskedBytes asked() const {
    AskedBytes asked;
    for (const Map& bank : banks_) {
      asked.bytes += bank.bucket_count() * sizeof(std::uint64_t);
      asked.blocks += 2 * bank.size() + 1;
      for (const auto& [vertex, neighbours] : bank) {
        asked.bytes += sizeof(typename Map::value_type) + node_overhead + neighbours.capacity() * sizeof(Vertex);
      }
    }
    return asked;
  }

 private:
  /// What Boost.Unordered keeps beside each value: the next node, and whose bucket it is in.
  static constexpr std::uint64_t node_overhead = 16;
  struct alignas(64) Lock {
    std::mutex mutex;
  };

  /// Neighbouring numbers in different banks.
  static std::size_t bank_of(Vertex vertex) noexcept { return mix_word(vertex) % bank_count; }

  std::span<Map, bank_count> banks_;
  std::array<Lock, bank_count> locks_;
};

}  // namespace tiermap
