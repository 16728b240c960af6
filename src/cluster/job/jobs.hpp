// The jobs that a server is a home of: who has joined, who waits for whom, and the data sets that they share.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/job/failed_starts.hpp"
#include "cluster/job/home.hpp"
#include "cluster/job/job_protocol.hpp"
#include "cluster/server/catalog.hpp"
#include "cluster/server/task_workers.hpp"
#include "cluster/wire/wire.hpp"

namespace tiermap {

/// A rank whose connection ends before it has left fails its job: all who wait in it, and all who ask anything later,
/// are told so. A job is forgotten when its last connection has ended; what it made is dropped then. Only that it
/// failed before all had come is kept, for those who come late. One that all who are left leave has ended before they
/// are told so: what they opened is where it is to last, what they made is gone, and its name is another job's to take.
///
/// A job that goes on without ranks that it loses fails so only until it has begun. From then on a rank whose
/// connection ends is no longer waited for, what it waits for is forgotten, and its locks are the next one's.
class Jobs {
 public:
  Jobs(Catalog& catalog, TaskWorkers& workers) noexcept : catalog_(catalog), workers_(workers) {}

  static bool serves(std::uint16_t kind) noexcept { return kind >= first_job_request && kind <= last_job_request; }
  /// By the wire's handlers. Quick: what takes disks is given to the workers.
  void on_request(WireRequest request);
  void on_closed(const std::shared_ptr<WireConnection>& connection);

 private:
  struct Lock {
    std::optional<std::uint32_t> holder;
    std::optional<std::uint32_t> lost_holder;  ///< Who had it last, if that rank was lost and nobody was told.
    std::deque<std::pair<std::uint32_t, WireRequest>> waiting;
  };
  struct Job {
    std::string name;
    std::string user;
    std::uint64_t number = 0;                                  ///< No other job of this server has it.
    JobSize size;                                              ///< As the first rank said that came.
    std::vector<std::shared_ptr<WireConnection>> connections;  ///< By rank; null: not come yet, or gone.
    JobStart start;
    bool began = false;  ///< All ranks have come.
    std::uint32_t connected = 0;
    std::string departed;                              ///< Which rank has left, if one has.
    std::vector<std::uint32_t> lost;                   ///< Without which it goes on, the first one first.
    std::string failure;                               ///< Why it failed; "" if it did not.
    std::vector<std::optional<WireRequest>> joining;   ///< By rank.
    std::vector<std::uint64_t> node_cache_bytes;       ///< As each rank says, who are to agree.
    std::vector<std::optional<WireRequest>> gathered;  ///< The collective that is under way, by rank.
    std::vector<std::optional<WireRequest>> leaving;   ///< By rank: who waits until all leave.
    std::map<std::string, Lock> locks;
    std::map<std::string, std::uint64_t> counters;
    std::uint64_t told = 0;  ///< How many ranks have asked whether they are the first to tell.
    /// Of data sets, by name and 0 or, of those that the job made, 1 + how often they were placed.
    std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> handles;
    std::vector<std::shared_ptr<Home>> homes;  ///< By handle; null: destroyed.
    /// Who waits for what is being made or attached.
    std::map<std::pair<std::string, std::uint64_t>, std::vector<WireRequest>> opening;
    std::set<std::string> made;      ///< Names of data sets that it has made.
    std::uint64_t numbers_made = 0;  ///< Of data sets that have a number in their names.
  };
  struct Member {
    std::shared_ptr<Job> job;
    std::uint32_t rank = 0;
    bool left = false;
  };
  /// Requests that are answered when the lock is no longer held.
  class Answers;

  std::shared_ptr<Job> make_job(const FailedStarts::Key& key, const JobSize& size);
  void join(WireRequest request, Answers& answers);
  static void begin(Job& job, Answers& answers);
  void absent(WireRequest request, Answers& answers);
  void member_request(Member& member, WireRequest request, Answers& answers);
  void leave(Member& member, WireRequest request, Answers& answers);
  /// If all leave that are still there.
  void end_if_all_leave(const std::shared_ptr<Job>& job, Answers& answers);
  void forget(const Job& job);
  void meet(Job& job, std::uint32_t rank, WireRequest request, Answers& answers);
  /// If all are there that can still come.
  static void conclude_if_complete(Job& job, Answers& answers);
  static void conclude(Job& job, Answers& answers);
  void lock(Job& job, std::uint32_t rank, WireRequest request, Answers& answers);
  void unlock(Job& job, std::uint32_t rank, WireRequest request, Answers& answers);
  static void grant(const Job& job, Lock& lock, std::uint32_t rank, WireRequest request, Answers& answers);
  static bool goes_on(const Job& job) noexcept { return job.size.goes_on && job.began && job.failure.empty(); }
  static void lose(Job& job, std::uint32_t rank, Answers& answers);
  static void tell_lost(const Job& job, WireRequest request, Answers& answers);
  void fence(Job& job, std::uint32_t rank, WireRequest request, Answers& answers);
  static std::string name_here(Job& job, const std::string& name, std::uint64_t made);
  /// What is to be opened, and the first who asked.
  struct Opening {
    std::string user;
    std::string name;
    std::string here;
    std::uint64_t bytes = 0;
    std::uint64_t made = 0;
  };
  std::shared_ptr<Home> make_home(const Job& job, const Opening& what);
  void open(const std::shared_ptr<Job>& job, WireRequest request, Answers& answers);
  void open_by_worker(const std::shared_ptr<Job>& job, const Opening& what);
  static void answer_opened(Job& job, std::uint64_t handle, WireRequest request, Answers& answers);
  void destroy(Job& job, WireRequest request, Answers& answers);
  static void fail(Job& job, const std::string& why, Answers& answers);
  static void fail_in_words(Job& job, const std::string& words, Answers& answers);
  void serve_home(const std::shared_ptr<Home>& home, std::uint32_t rank, WireRequest request);
  static void answer_home(Home& home, std::uint32_t rank, WireRequest& request);

  Catalog& catalog_;
  TaskWorkers& workers_;
  std::mutex mutex_;  ///< Guards what follows, and is not held while anything is answered.
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Job>> jobs_;  ///< By user and name.
  std::map<const WireConnection*, Member> members_;
  FailedStarts failed_starts_;
  std::uint64_t next_number_ = 1;
};

}  // namespace tiermap
