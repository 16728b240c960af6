#include "cluster/job/node_fetch.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "cluster/job/job_protocol.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

/// For what others are fetching. Longer than a home takes, and short enough for what a rank that died or stands still
/// has left behind: who has waited so long asks the home, which may say so.
constexpr auto node_patience = 500ms;
constexpr std::chrono::microseconds shortest_pause = 20us;
constexpr std::chrono::microseconds longest_pause = 1ms;

}  // namespace

NodeFetch::NodeFetch(HomeClient& home, NodeCache& cache, std::span<std::byte> buffer, std::uint64_t offset)
    : home_(home),
      cache_(cache),
      buffer_(buffer),
      offset_(offset),
      claims_((buffer.size() + home_block_bytes - 1) / home_block_bytes) {
  static_assert(home_block_bytes == NodeCache::block_bytes, "what homes number changes by is what is kept");
}

std::span<std::byte> NodeFetch::bytes_of(std::size_t block) const noexcept {
  const std::uint64_t at = block * home_block_bytes;
  return buffer_.subspan(at, std::min<std::uint64_t>(home_block_bytes, buffer_.size() - at));
}

void NodeFetch::want(std::size_t block) {
  const std::span<std::byte> bytes = bytes_of(block);
  const std::uint64_t at = offset_ + block * home_block_bytes;
  if (!wanted_.empty() && wanted_.back().offset + wanted_.back().bytes.size() == at) {
    wanted_.back().bytes = {wanted_.back().bytes.data(), wanted_.back().bytes.size() + bytes.size()};
  } else {
    wanted_.push_back({bytes, at});
  }
}

void NodeFetch::look_for(std::size_t block, bool alone) {
  const std::uint64_t at = offset_ + block * home_block_bytes;
  const std::span<std::byte> bytes = bytes_of(block);
  NodeCache::Found found = cache_.find({home_.incarnation(), at / home_block_bytes}, home_.seen(at), bytes);
  switch (found.outcome) {
    case NodeCache::Outcome::whole:
      home_.see(at, found.sequence);
      home_.counters().node_bytes.fetch_add(bytes.size(), std::memory_order_relaxed);
      return;
    case NodeCache::Outcome::awaited:
      if (!alone) {
        awaited_.push_back(block);
        return;
      }
      break;
    case NodeCache::Outcome::claimed:
      claims_[block] = std::move(found.claim);
      break;
    case NodeCache::Outcome::none:
      break;
  }
  want(block);
}

int NodeFetch::fetch_wanted() {
  const int result = home_.fetch(wanted_, [this](const HomeClient::Wanted& piece, std::uint64_t sequence) {
    const std::uint64_t first = (piece.offset - offset_) / home_block_bytes;
    const std::uint64_t count = (piece.bytes.size() + home_block_bytes - 1) / home_block_bytes;
    for (std::uint64_t block = first; block < first + count; ++block) {
      if (claims_[block]) {
        claims_[block].fill(bytes_of(block), sequence);
      }
    }
  });
  wanted_.clear();
  return result;
}

// What was claimed has been filled before anything is waited for.
int NodeFetch::run() {
  std::vector<std::size_t> left(claims_.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  const auto end = std::chrono::steady_clock::now() + node_patience;
  std::chrono::microseconds pause = shortest_pause;
  for (;;) {
    const bool alone = std::chrono::steady_clock::now() >= end;
    for (const std::size_t block : left) {
      look_for(block, alone);
    }
    if (const int result = fetch_wanted(); result != 0) {
      return result;
    }
    const bool came_on = awaited_.size() < left.size();
    left = std::exchange(awaited_, {});
    if (left.empty()) {
      return 0;
    }
    pause = came_on ? shortest_pause : std::min(2 * pause, longest_pause);
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace tiermap
