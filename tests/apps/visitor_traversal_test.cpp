// The search by visitors where threads meet as they seldom do.
#include "bfs/visitor_traversal.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "apps/graph_in_memory.hpp"
#include "bfs/visitor_mailbox.hpp"
#include "exactness/watchdog.hpp"

namespace tiermap::test {
namespace {

/// What one thread does once, and another waits for.
class Event {
 public:
  void happen() {
    {
      const std::lock_guard lock(mutex_);
      happened_ = true;
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return happened_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool happened_ = false;
};

/// Vertices of a thousand belong to one of two threads, those of the next thousand to the other.
constexpr Vertex together = 1024;

void add(std::vector<Vertex>& list, Vertex first, Vertex count) {
  for (Vertex vertex = first; vertex < first + count; ++vertex) {
    list.push_back(vertex);
  }
}

TEST(VisitorTraversal, ThreadThatGetsVisitorsWhileItWaitsForAFullMailboxVisitsThem) {
  const Watchdog watchdog("a search by visitors", std::chrono::seconds(120));
  constexpr Vertex theirs = together;     // The second thread's, of which two lead back
  constexpr Vertex found = 2 * together;  // to these, which are the first's.
  constexpr Vertex many = 3 * together;   // The second's: they lead nowhere.
  constexpr Vertex batch = VisitorMailbox::batch;
  constexpr Vertex fill = VisitorMailbox::most_waiting / together;
  Neighbours neighbours(4 * together);
  add(neighbours[0], 1, fill + 4);
  add(neighbours[1], theirs, batch);
  for (Vertex vertex = 3; vertex < 3 + fill; ++vertex) {
    add(neighbours[vertex], many, together);
  }
  neighbours[fill + 3] = {many};
  add(neighbours[theirs], found, batch);
  add(neighbours[theirs + 1], found + batch, batch);
  GraphInMemory memory(neighbours);
  const CsrGraph graph = memory.graph();
  // For the first to come to wait, and to take them. Whether it did decides only whether this tests anything.
  const auto give_time = [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };

  // Two vertices at a time. The second thread is about to visit its first two when the first fills its mailbox; the
  // first has one visitor left over then, and gets what these two lead to while it waits for room.
  TraversalOptions options;
  options.lookahead_bytes = std::uint64_t{2} * 2 * options.page_size_bytes;
  Event second_begins;
  Event mailbox_full;
  const std::uint64_t first_of_second = graph.range_of_arcs(graph.arcs_of(theirs).first, graph.arcs()).offset;
  memory.told = [&](std::span<const ByteRange> ranges) {
    if (!ranges.empty() && ranges.front().offset == first_of_second) {
      second_begins.happen();
      mailbox_full.wait();
      give_time();
    }
  };
  options.progress = [&](std::uint64_t arcs) {
    if (arcs == batch) {
      second_begins.wait();
    } else if (arcs == 1) {
      mailbox_full.happen();
    } else if (arcs == std::uint64_t{2} * batch) {
      give_time();
    }
  };
  ThreadTeam team(2);
  SearchState state(graph.vertices(), true);
  const Traversal traversal = traverse_by_visitors(graph, 0, team, options, state);
  EXPECT_EQ(traversal.level_counts, (std::vector<std::uint64_t>{1, fill + 4, batch + together, 2 * batch}));
}

}  // namespace
}  // namespace tiermap::test
