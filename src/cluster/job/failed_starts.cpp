#include "cluster/job/failed_starts.hpp"

#include <algorithm>

namespace tiermap {

void FailedStarts::remember(const Key& job, JobStart start, const std::string& failure) {
  failed_.insert_or_assign(job, Failed{std::move(start), failure});
  if (failed_.size() > most_) {
    failed_.erase(std::ranges::min_element(failed_, {}, [](const auto& one) { return one.second.start.failed_at; }));
  }
}

std::optional<std::string> FailedStarts::why(const Key& job, std::uint32_t rank, std::uint64_t reach,
                                             std::uint64_t now) {
  const auto found = failed_.find(job);
  if (found == failed_.end()) {
    return std::nullopt;
  }
  if (!found->second.start.claims(rank, reach, now)) {
    failed_.erase(found);
    return std::nullopt;
  }
  return found->second.failure;
}

}  // namespace tiermap
