// Jobs that go on without the ranks that they lose.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "cluster/job/job_answers.hpp"
#include "cluster/job/jobs.hpp"
#include "config/size.hpp"

namespace tiermap {
namespace {

/// A request that is answered when the last who has this is done.
class AnswerAtEnd {
 public:
  explicit AnswerAtEnd(WireRequest request) noexcept : request_(std::move(request)) {}
  ~AnswerAtEnd() { request_.reply(0); }
  AnswerAtEnd(const AnswerAtEnd&) = delete;
  AnswerAtEnd& operator=(const AnswerAtEnd&) = delete;

 private:
  WireRequest request_;
};

}  // namespace

/// Its connection is no longer one of the job's.
void Jobs::lose(Job& job, std::uint32_t rank, Answers& answers) {
  const auto forget = [&](WireRequest request) {
    answers.refuse(std::move(request), -ENOTCONN, rank_text(rank) + " is no longer in the job");
  };
  job.lost.push_back(rank);
  if (job.gathered[rank].has_value()) {
    forget(std::move(*job.gathered[rank]));
    job.gathered[rank].reset();
  }
  for (auto& [name, lock] : job.locks) {
    std::deque<std::pair<std::uint32_t, WireRequest>> waiting;
    for (auto& [who, request] : std::exchange(lock.waiting, {})) {
      if (who == rank) {
        forget(std::move(request));
      } else {
        waiting.emplace_back(who, std::move(request));
      }
    }
    lock.waiting = std::move(waiting);
    if (lock.holder != rank) {
      continue;
    }
    lock.holder.reset();
    lock.lost_holder = rank;
    if (!lock.waiting.empty()) {
      auto [next, request] = std::move(lock.waiting.front());
      lock.waiting.pop_front();
      grant(job, lock, next, std::move(request), answers);
    }
  }
  conclude_if_complete(job, answers);
}

void Jobs::tell_lost(const Job& job, WireRequest request, Answers& answers) {
  const auto bytes = std::as_bytes(std::span(job.lost));
  answers.reply(std::move(request), {}, std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end()));
}

// What a lost rank asked of homes in memory was done when it came, by the thread that is here now; what it asked of
// others lies with the workers, in front of the tasks that are given here. It has no other way to a home than its
// connection, of which nothing is taken any more.
void Jobs::fence(Job& job, std::uint32_t rank, WireRequest request, Answers& answers) {
  std::vector<std::uint32_t> ranks(request.body().size() / sizeof(std::uint32_t));
  std::memcpy(ranks.data(), request.body().data(), ranks.size() * sizeof(std::uint32_t));
  const bool known = std::ranges::all_of(ranks, [&](auto one) { return one < job.size.ranks && one != rank; });
  if (!goes_on(job) || !known) {
    answers.refuse(std::move(request), -EINVAL,
                   "job " + quote_value(job.name) + " cannot go on without the ranks that " + rank_text(rank) +
                       " names: install the same Tiermap on all");
    return;
  }
  for (const std::uint32_t one : ranks) {
    if (const auto connection = std::exchange(job.connections[one], nullptr); connection != nullptr) {
      members_.erase(connection.get());
      --job.connected;
      lose(job, one, answers);
      answers.then([connection] { connection->close("the job goes on without it"); });
    }
  }
  const auto answer = std::make_shared<AnswerAtEnd>(std::move(request));
  for (const std::shared_ptr<Home>& home : job.homes) {
    if (home != nullptr && !home->in_memory()) {
      answers.then([this, home, answer] {
        workers_.give(TaskRange::writing_all(home.get()), TaskSize::small,
                      [home, waiting = answer]() mutable { waiting.reset(); });
      });
    }
  }
  answers.then([answer] {});
}

}  // namespace tiermap
