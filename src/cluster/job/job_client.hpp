// A rank's end of a job: its connections to all servers of the job, and what the first of them keeps for all ranks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/job/job_protocol.hpp"
#include "cluster/job/node_cache.hpp"
#include "cluster/job/node_memory.hpp"
#include "cluster/job/relay.hpp"
#include "cluster/wire/wire.hpp"

namespace tiermap {
struct RankRemedy;

struct JobPlace {
  std::string name;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::vector<HostAndPort> servers;
  WireLogin login;
  std::chrono::milliseconds timeout{5000};         ///< Of the wire: who is silent for so long is gone.
  std::chrono::milliseconds join_patience{60000};  ///< For all ranks to come.
  std::string host;                                ///< Where other ranks reach this one; "": as it reaches the servers.
  std::uint32_t tree_degree = 2;
  std::uint64_t relay_bytes = 16 << 20;
  std::uint64_t node_cache_bytes = 0;  ///< What ranks of a node keep for each other; the same for all ranks.
  bool goes_on = false;                ///< Without ranks that it loses; the same for all ranks.
};

/// Thread-safe. Members throw StoreError in the server's words: ECONNABORTED when the job has failed, and which rank it
/// was; ECONNRESET when the server is gone. Closing without leave() fails the job for the others.
///
/// In a job that goes on without ranks that it loses, it closes all its connections when one of them has ended, so that
/// all servers lose this rank; and it tells of ranks that were lost only after it has fenced them: nothing that they
/// wrote comes home after that.
class JobClient {
 public:
  /// Returns when all ranks have come.
  explicit JobClient(const JobPlace& place);
  JobClient(const JobClient&) = delete;
  JobClient& operator=(const JobClient&) = delete;

  const JobPlace& place() const noexcept { return place_; }
  std::uint32_t servers() const noexcept { return static_cast<std::uint32_t>(connections_.size()); }
  WireConnection& server(std::uint32_t index) const noexcept { return *connections_[index]; }
  const std::shared_ptr<WireConnection>& connection(std::uint32_t index) const noexcept { return connections_[index]; }

  /// Waits until all ranks say the same `what`, such as "is at a barrier".
  void collective(std::string_view what);
  /// What each rank has, in their order.
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> own);
  std::vector<std::string> texts_of_all(const std::string& own);
  /// Also in a job that has failed. Throws StoreError only if the first server does not answer.
  bool is_first_to_tell();
  /// Throws StoreError (EDEADLK) if this thread has it already.
  /// Returns the rank that had it last, if that was lost with it.
  std::optional<std::uint32_t> lock(const std::string& name);
  void unlock(const std::string& name);
  /// One that this rank has; nothing if there is none, or the job has failed.
  std::optional<std::string> held_lock() const;
  /// Returns what it was, and adds nothing if that made it more than `most`, where that is not 0.
  std::uint64_t fetch_add(std::string_view name, std::uint64_t summand, std::uint64_t most = 0);
  /// Throws, too, where what the job leaves could not be brought to its store; this rank has left all the same.
  void leave();

  /// Those without which the job goes on, the first one first; the same for all ranks between two things that all do
  /// together.
  std::vector<std::uint32_t> lost() const;
  bool is_lost(std::uint32_t rank) const;
  /// The lowest rank that is not: of what one rank does for all.
  std::uint32_t first_rank() const;

  /// By server, whether it is near this rank: on the same host, as that was given or as its address says.
  const std::vector<bool>& near_servers() const noexcept { return near_; }
  /// By all ranks: a mark for each rank and server, those of one rank one after the other.
  const std::vector<bool>& near_servers_of_all();
  /// By all ranks: what each has to say; throws on all of them if one has a complaint instead, behind complaint_mark;
  /// or who has died, if somebody has.
  std::vector<std::string> texts_without_complaint(const std::string& own, const RankRemedy& remedy);

  /// By all ranks: from here on relay() works. Nothing if it does already. Throws StoreError on all ranks if one of
  /// them cannot be reached by who is to get pages from it.
  void plant_tree();
  Relay& relay() noexcept { return relay_; }

  /// By all ranks: from here on those that are on one node have a cache together, if the job is to have any. Nothing if
  /// they have it already. Throws StoreError on all ranks if one of them cannot share memory.
  void share_node_cache();
  /// Null where there is none: before that, without others on the node, or if the job is to have none.
  NodeCache* node_cache() noexcept { return node_cache_.has_value() ? &*node_cache_ : nullptr; }

  /// Of this rank's own doing: what is asked here from now on throws `why`, and the others are told that this rank has
  /// ended. Nothing if the job has failed already.
  void fail(const std::string& why) noexcept;

  /// A request to one server, of which the answer may take as long as the server lives.
  WireCall start(std::uint32_t server, JobRequest kind, const WireWords& words, std::span<const std::byte> body = {}) {
    return connections_[server]->start(WireMessage(static_cast<std::uint16_t>(kind), words, body), std::nullopt);
  }
  WireReply ask(std::uint32_t server, JobRequest kind, const WireWords& words, std::string_view body);
  /// Throws unless it was answered with status 0. Servers hear of a rank's end one after the other: what the first one
  /// says of the job's failure is said from then on whichever is asked.
  void require(std::uint32_t server, const WireReply& reply);

 private:
  /// Of which server, and what it answered.
  void require_joined(const std::pair<std::uint32_t, WireReply>& joined);
  /// Asked of servers that have all ranks, while others have not: whether one is lost. Throws if one was before, too.
  bool require_none_lost(const std::vector<std::uint32_t>& joined, bool one_was_lost);
  std::string absent(std::uint32_t server);
  /// Why the job has failed.
  void tell_servers(const std::string& words, std::optional<std::uint32_t> except = std::nullopt);
  std::string listen_for_ranks();
  std::string own_host() const;
  void ask_home(const Piece& piece, std::function<void(WireReply)> done);
  void fence_lost(std::uint64_t count);
  void fence_at_all_servers(std::uint64_t count);
  void note_met(std::uint64_t lost);
  std::string gone_text(std::uint32_t server) const;

  const JobPlace place_;
  const std::vector<bool> near_;
  Relay relay_;  ///< Outlives the wire, whose requests it answers, as do the connections, by which it asks homes.
  std::vector<std::shared_ptr<WireConnection>> connections_;
  Wire wire_;
  mutable std::mutex mutex_;
  std::map<std::string, std::thread::id> held_;  ///< Locks, by which thread. Guarded by mutex_, as what follows.
  std::string failure_;                          ///< Of the job; "" if it has not failed.
  std::vector<std::uint32_t> lost_;              ///< And fenced, the first one first.
  std::uint64_t met_without_ = 0;                ///< How many of them, when all did something together last.
  std::mutex fence_mutex_;                       ///< Of who fences. Locked before mutex_.
  std::atomic<bool> left_{false};                ///< A server has answered leave().
  std::string listening_;                        ///< Where ranks reach this one; "" before. Of who plants the tree.
  std::vector<bool> near_of_all_;                ///< Empty before somebody asked. Of who places.
  bool shares_node_cache_ = false;               ///< Of who shares it, as what follows.
  NodeMemory node_memory_;
  std::optional<NodeCache> node_cache_;
};

}  // namespace tiermap
