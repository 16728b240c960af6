// A fetch by way of what the ranks of a node keep for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cluster/job/home_client.hpp"
#include "cluster/job/node_cache.hpp"

namespace tiermap {

/// Of one thread, once. Takes what the node's cache has as of what this rank has seen of the home, or later; fetches
/// what it has not, for the others too; and waits for what others are fetching, but never while they wait for something
/// of its own, and not for long.
class NodeFetch {
 public:
  static constexpr std::uint64_t most_bytes = 1 << 20;

  /// `offset` is where a block begins; at most `most_bytes`.
  NodeFetch(HomeClient& home, NodeCache& cache, std::span<std::byte> buffer, std::uint64_t offset);
  /// Returns 0 or a negative errno value.
  int run();

 private:
  std::span<std::byte> bytes_of(std::size_t block) const noexcept;
  void look_for(std::size_t block, bool alone);
  void want(std::size_t block);
  int fetch_wanted();

  HomeClient& home_;
  NodeCache& cache_;
  const std::span<std::byte> buffer_;
  const std::uint64_t offset_;
  std::vector<NodeClaim> claims_;  ///< By block.
  std::vector<HomeClient::Wanted> wanted_;
  std::vector<std::size_t> awaited_;
};

}  // namespace tiermap
