#include "bfs/visitor_traversal.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "bfs/tree_check.hpp"
#include "bfs/visitor_mailbox.hpp"

namespace tiermap {
namespace {

/// Vertices that follow each other have one owner, so that a page of their state has one writer.
constexpr std::uint64_t vertices_together = 1024;
/// The most vertices that a thread takes from its queue at once, to visit them in the order of the file.
constexpr std::uint64_t most_at_once = 1U << 16U;
/// The most that it visits before it looks for visitors, and for an earlier level, once more.
constexpr std::uint64_t most_between_looks = 512;

/// What all threads share.
class VisitorSearch {
 public:
  VisitorSearch(const CsrGraph& graph, std::uint32_t threads, const TraversalOptions& options, SearchState& state)
      : graph_(graph), options_(options), state_(state), mailboxes_(threads) {}

  void work(std::uint32_t member, Vertex root);
  std::uint64_t arcs_looked_at() const noexcept { return arcs_looked_at_.load(std::memory_order_relaxed); }

 private:
  class Worker;

  std::uint32_t owner_of(Vertex vertex) const noexcept {
    return static_cast<std::uint32_t>(vertex / vertices_together % mailboxes_.size());
  }
  bool is_over() const noexcept { return over_.load(std::memory_order_acquire); }
  void end() {
    over_.store(true, std::memory_order_release);
    for (VisitorMailbox& mailbox : mailboxes_) {
      mailbox.wake();
    }
  }
  /// `count` visitors or waiting vertices more, or fewer. Every visitor is counted before it is sent and every vertex
  /// before its visitor is uncounted, so that nought means that nothing is left anywhere.
  void count(std::int64_t change) {
    if (change != 0 && outstanding_.fetch_add(change, std::memory_order_acq_rel) + change == 0) {
      end();
    }
  }

  const CsrGraph& graph_;
  const TraversalOptions& options_;
  SearchState& state_;
  std::vector<VisitorMailbox> mailboxes_;
  std::atomic<std::int64_t> outstanding_{1};  ///< The root's visitor, to begin with.
  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> arcs_looked_at_{0};
};

/// One thread's part.
class VisitorSearch::Worker {
 public:
  Worker(VisitorSearch& search, std::uint32_t member)
      : search_(search),
        mailbox_(search.mailboxes_[member]),
        levels_(search.state_.levels()),
        parents_(search.state_.parents()),
        queue_(search.state_.blocks()),
        outgoing_(search.mailboxes_.size()) {
    const TraversalOptions& options = search.options_;
    const std::uint64_t pages = options.lookahead_bytes / search.mailboxes_.size() / options.page_size_bytes;
    between_looks_ =
        options.lookahead_bytes == 0 ? most_between_looks : std::clamp<std::uint64_t>(pages, 1, most_between_looks);
  }

  void begin(Vertex root) { receive({root, root, 0}, nothing_counted_); }

  void run() {
    while (!search_.is_over()) {
      empty_mailbox();
      if (visited_ != vertices_.size() || !queue_.empty()) {
        take_vertices();
        visit_some();
        continue;
      }
      for (std::uint32_t owner = 0; owner < outgoing_.size(); ++owner) {
        send(owner);
      }
      // What this thread took from its mailbox while another's was full is not to wait for more to come.
      if (queue_.empty()) {
        mailbox_.wait([this] { return search_.is_over(); });
      }
    }
  }

 private:
  void empty_mailbox() {
    mailbox_.collect(incoming_);
    if (search_.state_.is_mapped()) {
      // Each page of the state once, and not in the order in which edges lead there.
      std::ranges::sort(incoming_, {}, &Visitor::vertex);
    }
    std::int64_t change = 0;
    for (const Visitor& visitor : incoming_) {
      receive(visitor, change);
    }
    search_.count(change);
  }

  /// Only the owner reads and writes the state of a vertex. `change` is told what became of the visitor.
  void receive(const Visitor& visitor, std::int64_t& change) {
    if (visitor.level < levels_[visitor.vertex]) {
      levels_[visitor.vertex] = visitor.level;
      parents_[visitor.vertex] = visitor.parent;
      queue_.push(visitor.vertex, visitor.level);
    } else {
      --change;
    }
  }

  /// Has `vertices_` hold what is to be visited next: what was taken before, unless an earlier level has come.
  void take_vertices() {
    if (visited_ != vertices_.size() && (queue_.empty() || queue_.lowest_level() >= level_)) {
      return;
    }
    for (; visited_ != vertices_.size(); ++visited_) {
      queue_.push(vertices_[visited_], level_);
    }
    level_ = queue_.pop(vertices_, most_at_once);
    visited_ = 0;
    std::ranges::sort(vertices_);
  }

  void visit_some() {
    const std::size_t end = std::min<std::size_t>(vertices_.size(), visited_ + between_looks_);
    const std::span<const Vertex> some(vertices_.data() + visited_, end - visited_);
    visited_ = end;
    announce(some);
    std::uint64_t arcs = 0;
    for (const Vertex vertex : some) {
      if (is_due(vertex)) {
        arcs += expand(vertex);
      }
    }
    search_.arcs_looked_at_.fetch_add(arcs, std::memory_order_relaxed);
    if (search_.options_.progress) {
      search_.options_.progress(arcs);
    }
    search_.count(-static_cast<std::int64_t>(some.size()));
  }

  /// What a shorter way has led to since is in the queue once more, at its level.
  bool is_due(Vertex vertex) const { return levels_[vertex] == level_; }

  void announce(std::span<const Vertex> vertices) {
    if (search_.options_.lookahead_bytes == 0 || vertices.size() < 2) {
      return;
    }
    ranges_.clear();
    for (const Vertex vertex : vertices) {
      if (const auto [begin, end] = search_.graph_.arcs_of(vertex); begin != end && is_due(vertex)) {
        ranges_.push_back(search_.graph_.range_of_arcs(begin, end));
      }
    }
    search_.graph_.mapped().prefetch(ranges_);
  }

  std::uint64_t expand(Vertex vertex) {
    const std::span<const Vertex> neighbours = search_.graph_.neighbours(vertex);
    search_.count(static_cast<std::int64_t>(neighbours.size()));
    for (const Vertex neighbour : neighbours) {
      if (neighbour >= search_.graph_.vertices()) {
        search_.graph_.refuse(vertex);
      }
      const std::uint32_t owner = search_.owner_of(neighbour);
      outgoing_[owner].push_back({neighbour, vertex, level_ + 1});
      if (outgoing_[owner].size() >= VisitorMailbox::batch) {
        send(owner);
      }
    }
    return neighbours.size();
  }

  /// While the owner has no room this thread empties its own mailbox, which needs nobody: so all cannot wait for all.
  void send(std::uint32_t owner) {
    while (!outgoing_[owner].empty() && !search_.mailboxes_[owner].deliver(outgoing_[owner])) {
      if (search_.is_over()) {
        return;
      }
      empty_mailbox();
      std::this_thread::yield();
    }
  }

  VisitorSearch& search_;
  VisitorMailbox& mailbox_;
  const std::span<std::uint32_t> levels_;
  const std::span<Vertex> parents_;
  VertexQueue queue_;
  std::uint64_t between_looks_;
  std::int64_t nothing_counted_ = 0;
  std::vector<Visitor> incoming_;
  std::vector<Vertex> vertices_;  ///< Taken from the queue, in order,
  std::size_t visited_ = 0;       ///< and how many of them were visited,
  std::uint32_t level_ = 0;       ///< all of this level.
  std::vector<ByteRange> ranges_;
  std::vector<std::vector<Visitor>> outgoing_;  ///< For each thread, not sent yet.
};

void VisitorSearch::work(std::uint32_t member, Vertex root) {
  try {
    Worker worker(*this, member);
    if (member == owner_of(root)) {
      worker.begin(root);
    }
    worker.run();
  } catch (...) {
    end();
    throw;
  }
}

std::vector<std::uint64_t> count_levels(std::span<const std::uint32_t> levels) {
  std::vector<std::uint64_t> counts;
  for (const std::uint32_t level : levels) {
    if (level != unreached) {
      counts.resize(std::max<std::size_t>(counts.size(), level + 1));
      ++counts[level];
    }
  }
  return counts;
}

}  // namespace

Traversal traverse_by_visitors(const CsrGraph& graph, Vertex root, ThreadTeam& team, const TraversalOptions& options,
                               SearchState& state) {
  state.clear(team);
  VisitorSearch search(graph, team.size(), options, state);
  team.run([&](std::uint32_t member) { search.work(member, root); });
  Traversal result;
  result.parents = state.parents();
  result.level_counts = count_levels(state.levels());
  result.arcs_looked_at = search.arcs_looked_at();
  return result;
}

std::uint64_t visitor_bytes(std::uint32_t threads) noexcept {
  const std::uint64_t batches = std::uint64_t{threads} * threads * VisitorMailbox::batch;
  // A mailbox, and what its owner took from it.
  return (batches + 2 * std::uint64_t{threads} * VisitorMailbox::most_waiting) * sizeof(Visitor);
}

}  // namespace tiermap
