#include "ingest/regular_checkpoints.hpp"

#include "command_line/report.hpp"

namespace tiermap {

void RegularCheckpoints::insert(std::span<const Edge> edges) {
  if (every_ == 0) {
    graph_.insert(edges);
    return;
  }
  {
    std::unique_lock passing(gate_);
    const std::shared_lock held(inserting_);
    passing.unlock();
    graph_.insert(edges);
  }
  const std::uint64_t before = inserted_.fetch_add(edges.size());
  if (before / every_ == (before + edges.size()) / every_) {
    return;
  }
  const std::lock_guard closed(gate_);
  const std::lock_guard alone(inserting_);
  const StopWatch saving;
  graph_.checkpoint();
  seconds_ += saving.seconds();
  ++count_;
}

}  // namespace tiermap
