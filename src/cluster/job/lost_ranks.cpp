// A rank's side of jobs that go on without the ranks that they lose: it hears of them, and fences them.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cluster/job/job_client.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

// One that cannot fence them may not acquire anything, and would keep what it waited for: the others lose it, too.
void JobClient::fence_lost(std::uint64_t count) {
  if (count == 0) {
    return;
  }
  try {
    fence_at_all_servers(count);
  } catch (const std::exception& error) {
    fail("job " + quote_value(place_.name) + ": rank " + std::to_string(place_.rank) +
         " could not go on without ranks that were lost, and ended: " + error.what());
    throw;
  }
}

// The first server has lost them, but another one may not have heard of their end, or have something of theirs that is
// not done. Each rank does this for itself, before it goes on: it may be the first one, or the only one that lives.
void JobClient::fence_at_all_servers(std::uint64_t count) {
  const std::lock_guard fencing(fence_mutex_);
  if (count <= lost_.size()) {
    return;
  }
  const WireReply reply = ask(0, JobRequest::lost, {}, "");
  const std::span<const std::byte> told = reply.body.bytes();
  if (told.size() < count * sizeof(std::uint32_t)) {
    throw StoreError(EBADMSG, "job " + quote_value(place_.name) + ": server " + place_.servers[0].text() +
                                  " does not say which ranks it has lost: install the same Tiermap on all");
  }
  const std::span<const std::byte> ranks = told.first(count * sizeof(std::uint32_t));
  std::vector<WireCall> calls;
  calls.reserve(servers());
  for (std::uint32_t server = 0; server < servers(); ++server) {
    calls.push_back(start(server, JobRequest::fence, {}, ranks));
  }
  for (std::uint32_t server = 0; server < servers(); ++server) {
    require(server, calls[server].wait());
  }
  const std::lock_guard lock(mutex_);
  lost_.resize(count);
  std::memcpy(lost_.data(), ranks.data(), ranks.size());
}

void JobClient::note_met(std::uint64_t lost) {
  fence_lost(lost);
  const std::lock_guard lock(mutex_);
  met_without_ = lost;
}

std::vector<std::uint32_t> JobClient::lost() const {
  const std::lock_guard lock(mutex_);
  return {lost_.begin(), lost_.begin() + static_cast<std::ptrdiff_t>(met_without_)};
}

bool JobClient::is_lost(std::uint32_t rank) const {
  const std::vector<std::uint32_t> ranks = lost();
  return std::ranges::find(ranks, rank) != ranks.end();
}

std::uint32_t JobClient::first_rank() const {
  const std::vector<std::uint32_t> ranks = lost();
  std::uint32_t first = 0;
  while (std::ranges::find(ranks, first) != ranks.end()) {
    ++first;
  }
  return first;
}

}  // namespace tiermap
