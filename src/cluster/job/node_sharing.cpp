// How the ranks of a job that are on one node come to have memory together.
#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "cluster/job/job_client.hpp"
#include "cluster/job/rank_complaint.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr RankRemedy share_nothing{
    ENOTSUP, "have ranks of one node see each other in /proc, or set no TIERMAP_NODE_CACHE for any"};

std::string text_or_complaint(const std::function<std::string()>& make) {
  try {
    return make();
  } catch (const Error& error) {
    return complaint_mark + std::string(" cannot share memory: ") + error.what();
  }
}

}  // namespace

// The first rank of each node makes it, and has it open until all others have said that they have it too. A rank that
// dies meanwhile leaves nothing: the memory has no name.
void JobClient::share_node_cache() {
  if (shares_node_cache_ || place_.node_cache_bytes == 0) {
    return;
  }
  const auto say = [this](const std::function<std::string()>& make) {
    return texts_without_complaint(text_or_complaint(make), share_nothing);
  };
  const std::vector<std::string> nodes = say([this] { return node_identity(own_host()); });
  const std::string& own = nodes[place_.rank];
  const auto maker = static_cast<std::uint32_t>(std::ranges::find(nodes, own) - nodes.begin());
  const bool shares = std::ranges::count(nodes, own) > 1;
  NodeMemory memory;
  const std::vector<std::string> addresses = say([&]() -> std::string {
    if (!shares || maker != place_.rank) {
      return "";
    }
    memory = NodeMemory::make(place_.node_cache_bytes);
    return memory.address();
  });
  say([&] {
    if (shares && maker != place_.rank) {
      memory = NodeMemory::open(addresses[maker], place_.node_cache_bytes);
    }
    return "";
  });
  memory.close_file();
  node_memory_ = std::move(memory);
  if (shares) {
    node_cache_.emplace(node_memory_.bytes());
  }
  shares_node_cache_ = true;
}

}  // namespace tiermap
