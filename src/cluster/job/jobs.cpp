#include "cluster/job/jobs.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "cluster/job/job_answers.hpp"
#include "config/size.hpp"
#include "platform/clock.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t most_ranks = 4096;

/// Between a rank and those that came before it; "" if they agree.
std::string disagreement(std::uint32_t rank, const JobSize& said, const JobSize& before) {
  if (said.ranks != before.ranks) {
    return rank_text(rank) + " says that there are " + std::to_string(said.ranks) + " ranks, others that there are " +
           std::to_string(before.ranks) + ": start all alike";
  }
  if (said.servers != before.servers || said.place != before.place) {
    const auto naming = [](const JobSize& size) {
      return std::to_string(size.servers) + ", of which this is number " + std::to_string(size.place + 1);
    };
    return rank_text(rank) + " names other servers than others do: " + naming(said) + ", and not " + naming(before) +
           ": give all ranks the same list";
  }
  if (said.goes_on != before.goes_on) {
    const auto saying = [](bool goes_on) {
      return goes_on ? "goes on without ranks that it loses" : "ends with the first rank that it loses";
    };
    return rank_text(rank) + " says that the job " + saying(said.goes_on) + ", others that it " +
           saying(before.goes_on) + ": start all alike";
  }
  return "";
}

}  // namespace

void Jobs::fail(Job& job, const std::string& why, Answers& answers) {
  fail_in_words(job, "job " + quote_value(job.name) + ": " + why, answers);
}

void Jobs::fail_in_words(Job& job, const std::string& words, Answers& answers) {
  if (!job.failure.empty()) {
    return;
  }
  job.failure = words;
  job.start.failed_at = now_nanoseconds();
  const auto refuse_all = [&](std::vector<std::optional<WireRequest>>& requests) {
    for (std::optional<WireRequest>& request : requests) {
      if (request.has_value()) {
        answers.refuse(std::move(*request), -ECONNABORTED, job.failure);
        request.reset();
      }
    }
  };
  refuse_all(job.joining);
  refuse_all(job.gathered);
  for (std::optional<WireRequest>& request : job.leaving) {  // Whose part has ended.
    if (request.has_value()) {
      answers.reply(std::move(*request));
      request.reset();
    }
  }
  for (auto& [name, lock] : job.locks) {
    for (auto& [rank, request] : lock.waiting) {
      answers.refuse(std::move(request), -ECONNABORTED, job.failure);
    }
    lock.waiting.clear();
  }
}

void Jobs::on_request(WireRequest request) {
  Answers answers;
  const std::lock_guard lock(mutex_);
  const auto kind = static_cast<JobRequest>(request.kind());
  const auto member = members_.find(request.from().get());
  if (kind == JobRequest::absent) {
    absent(std::move(request), answers);
  } else if (kind == JobRequest::join) {
    if (member != members_.end()) {
      answers.refuse(std::move(request), -EALREADY, "this connection has joined a job already");
      return;
    }
    join(std::move(request), answers);
  } else if (member == members_.end() || member->second.left) {
    answers.refuse(std::move(request), -ENOTCONN, "this connection is in no job: join one first");
  } else if (!member->second.job->failure.empty() && kind != JobRequest::leave && kind != JobRequest::tell) {
    answers.refuse(std::move(request), -ECONNABORTED, member->second.job->failure);
  } else {
    member_request(member->second, std::move(request), answers);
  }
}

void Jobs::on_closed(const std::shared_ptr<WireConnection>& connection) {
  Answers answers;
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(connection.get());
  if (found == members_.end()) {
    return;
  }
  const Member member = found->second;
  members_.erase(found);
  Job& job = *member.job;
  job.connections[member.rank] = nullptr;
  if (!member.left && goes_on(job)) {
    lose(job, member.rank, answers);
  } else if (!member.left) {
    fail(job, rank_text(member.rank) + " at " + connection->peer() + " ended without leaving it", answers);
  }
  job.leaving[member.rank].reset();
  if (--job.connected != 0) {
    end_if_all_leave(member.job, answers);
  } else {
    if (!job.failure.empty() && !job.began) {
      failed_starts_.remember({job.user, job.name}, job.start, job.failure);
    }
    forget(job);
    // Stores may take long to let go of.
    answers.then([this, ended = member.job]() mutable {
      workers_.give(TaskSize::large, [ended = std::move(ended)]() mutable { ended.reset(); });
    });
  }
}

std::shared_ptr<Jobs::Job> Jobs::make_job(const FailedStarts::Key& key, const JobSize& size) {
  auto job = std::make_shared<Job>();
  job->user = key.first;
  job->name = key.second;
  job->number = next_number_++;
  job->size = size;
  job->node_cache_bytes.resize(size.ranks);
  job->connections.resize(size.ranks);
  job->joining.resize(size.ranks);
  job->gathered.resize(size.ranks);
  job->leaving.resize(size.ranks);
  return job;
}

void Jobs::join(WireRequest request, Answers& answers) {
  const auto [rank_wanted, size_word, node_cache_bytes, milliseconds_on_its_way] = request.words();
  const JobSize size = JobSize::of(size_word);
  const std::string name = request.text();
  const std::string who = "job " + quote_value(name);
  if (!is_plain_name(name) || size.ranks == 0 || size.ranks > most_ranks || rank_wanted >= size.ranks) {
    answers.refuse(std::move(request), -EINVAL,
                   who + " cannot have rank " + std::to_string(rank_wanted) + " of " + std::to_string(size.ranks) +
                       ": count ranks from 0, up to 4096 of them, and name it in letters, digits, '_', '-' and '.'");
    return;
  }
  const auto rank = static_cast<std::uint32_t>(rank_wanted);
  const FailedStarts::Key key{request.from()->user(), name};
  const std::uint64_t reach = std::min<std::uint64_t>(milliseconds_on_its_way, 3'600'000) * 1'000'000U;
  const std::uint64_t now = now_nanoseconds();
  std::shared_ptr<Job> job = jobs_.contains(key) ? jobs_.at(key) : nullptr;
  if (job == nullptr) {
    if (const std::optional<std::string> why = failed_starts_.why(key, rank, reach, now); why.has_value()) {
      answers.refuse(std::move(request), -ECONNABORTED, *why);
      return;
    }
    job = make_job(key, size);
    jobs_.emplace(key, job);
  }
  if (!job->failure.empty() && !job->began && job->start.claims(rank, reach, now)) {
    answers.refuse(std::move(request), -ECONNABORTED, job->failure);
    return;
  }
  if (!job->failure.empty() || job->began) {
    answers.refuse(
        std::move(request), -EBUSY,
        (job->failure.empty() ? who + " has all its ranks already" : job->failure + ", and others are left") +
            ": choose another name, or wait until it has ended");
    return;
  }
  if (job->size.ranks == size.ranks && job->joining[rank].has_value()) {
    answers.refuse(std::move(request), -EEXIST,
                   who + " has a rank " + std::to_string(rank) + " already: give each process a rank of its own");
    return;
  }
  if (const std::string why = disagreement(rank, size, job->size); !why.empty()) {
    fail(*job, why, answers);
    job->start.come.insert(rank);
    answers.refuse(std::move(request), -EINVAL, job->failure);
    return;
  }
  members_[request.from().get()] = {job, rank, false};
  job->connections[rank] = request.from();
  job->joining[rank] = std::move(request);
  job->node_cache_bytes[rank] = node_cache_bytes;
  ++job->connected;
  job->start.come.insert(rank);
  if (job->start.come.size() == job->size.ranks) {
    job->began = true;
    begin(*job, answers);
  }
}

/// All ranks are there.
void Jobs::begin(Job& job, Answers& answers) {
  const std::vector<std::uint64_t>& said = job.node_cache_bytes;
  const auto other = std::ranges::find_if(said, [&](std::uint64_t bytes) { return bytes != said.front(); });
  if (other != said.end()) {
    fail(job,
         "rank 0 says that the cache of a node has " + format_size(said.front()) + ", but " +
             rank_text(static_cast<std::uint32_t>(other - said.begin())) + " that it has " + format_size(*other) +
             ": start all alike",
         answers);
    return;
  }
  for (std::optional<WireRequest>& one : job.joining) {
    answers.reply(std::move(*one));
    one.reset();
  }
}

void Jobs::absent(WireRequest request, Answers& answers) {
  std::string missing;
  const auto found = jobs_.find({request.from()->user(), request.text()});
  if (found != jobs_.end()) {
    for (std::uint32_t rank = 0; rank < found->second->size.ranks; ++rank) {
      if (found->second->connections[rank] == nullptr) {
        missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
      }
    }
  }
  answers.refuse(std::move(request), 0, missing);
}

void Jobs::member_request(Member& member, WireRequest request, Answers& answers) {
  Job& job = *member.job;
  const std::uint32_t rank = member.rank;
  switch (static_cast<JobRequest>(request.kind())) {
    case JobRequest::leave:
      return leave(member, std::move(request), answers);
    case JobRequest::collective:
    case JobRequest::gather:
      return meet(job, rank, std::move(request), answers);
    case JobRequest::tell:
      return answers.reply(std::move(request), 0, {job.told++, 0, 0, 0});
    case JobRequest::failed:
      fail_in_words(job, request.text(), answers);
      return answers.reply(std::move(request));
    case JobRequest::lock:
      return lock(job, rank, std::move(request), answers);
    case JobRequest::unlock:
      return unlock(job, rank, std::move(request), answers);
    case JobRequest::lost:
      return tell_lost(job, std::move(request), answers);
    case JobRequest::fence:
      return fence(job, rank, std::move(request), answers);
    case JobRequest::fetch_add: {
      std::uint64_t& counter = job.counters[request.text()];
      const std::uint64_t before = counter;
      const std::uint64_t summand = request.words()[0];
      const std::uint64_t most = request.words()[1];
      if (most == 0 || (counter <= most && summand <= most - counter)) {
        counter += summand;
      }
      return answers.reply(std::move(request), 0, {before, 0, 0, 0});
    }
    case JobRequest::open:
      return open(member.job, std::move(request), answers);
    case JobRequest::destroy:
      return destroy(job, std::move(request), answers);
    default:
      break;
  }
  const std::uint64_t handle = request.words()[0];
  if (handle >= job.homes.size() || job.homes[handle] == nullptr) {
    answers.refuse(std::move(request), -EBADF, "this data set is not open: it has been destroyed");
    return;
  }
  answers.then([this, home = job.homes[handle], rank, shared = std::make_shared<WireRequest>(std::move(request))] {
    serve_home(home, rank, std::move(*shared));
  });
}

void Jobs::leave(Member& member, WireRequest request, Answers& answers) {
  Job& job = *member.job;
  member.left = true;
  job.departed = rank_text(member.rank);
  const bool awaited = std::ranges::any_of(job.gathered, [](const auto& one) { return one.has_value(); });
  if (job.failure.empty() && awaited) {
    fail(job, job.departed + " has left while others wait for it", answers);
  }
  if (!job.failure.empty()) {
    answers.reply(std::move(request));
    return;
  }
  job.leaving[member.rank] = std::move(request);
  end_if_all_leave(member.job, answers);
}

// Who has ended a job begins another one of that name, or looks at what it wrote, and finds all of it as it is to last.
void Jobs::end_if_all_leave(const std::shared_ptr<Job>& job, Answers& answers) {
  for (std::size_t rank = 0; rank < job->leaving.size(); ++rank) {
    if (job->connections[rank] != nullptr && !job->leaving[rank].has_value()) {
      return;
    }
  }
  auto leaving = std::make_shared<std::vector<WireRequest>>();
  for (std::optional<WireRequest>& request : job->leaving) {
    if (request.has_value()) {
      leaving->push_back(std::move(*request));
      request.reset();
    }
  }
  forget(*job);
  // Stores may take long to let go of.
  answers.then([this, leaving, homes = std::exchange(job->homes, {})]() mutable {
    workers_.give(TaskSize::large, [leaving, homes = std::move(homes)]() mutable {
      int result = 0;
      std::string failure;
      for (const std::shared_ptr<Home>& home : homes) {
        result = home == nullptr || result != 0 ? result : home->bring_down(failure);
      }
      homes.clear();
      for (WireRequest& request : *leaving) {
        WireMessage answer = WireMessage::answer(0, {static_cast<std::uint64_t>(-result), 0, 0, 0}, failure.size());
        std::ranges::copy(std::as_bytes(std::span(failure)), answer.body().begin());
        request.reply(std::move(answer));
      }
    });
  });
}

/// Another one of its name may have begun.
void Jobs::forget(const Job& job) {
  const auto found = jobs_.find({job.user, job.name});
  if (found != jobs_.end() && found->second.get() == &job) {
    jobs_.erase(found);
  }
}

void Jobs::lock(Job& job, std::uint32_t rank, WireRequest request, Answers& answers) {
  Lock& lock = job.locks[request.text()];
  if (lock.holder.has_value()) {
    lock.waiting.emplace_back(rank, std::move(request));
    return;
  }
  grant(job, lock, rank, std::move(request), answers);
}

void Jobs::grant(const Job& job, Lock& lock, std::uint32_t rank, WireRequest request, Answers& answers) {
  lock.holder = rank;
  const std::optional<std::uint32_t> lost = std::exchange(lock.lost_holder, std::nullopt);
  answers.reply(std::move(request), 0, {job.lost.size(), lost.has_value() ? *lost + std::uint64_t{1} : 0, 0, 0});
}

void Jobs::unlock(Job& job, std::uint32_t rank, WireRequest request, Answers& answers) {
  const auto found = job.locks.find(request.text());
  if (found == job.locks.end() || found->second.holder != rank) {
    const std::string name = quote_value(request.text());
    answers.refuse(std::move(request), -EPERM, rank_text(rank) + " does not hold the lock " + name);
    return;
  }
  Lock& lock = found->second;
  if (lock.waiting.empty()) {
    job.locks.erase(found);
  } else {
    auto [next, waiting] = std::move(lock.waiting.front());
    lock.waiting.pop_front();
    grant(job, lock, next, std::move(waiting), answers);
  }
  answers.reply(std::move(request));
}

}  // namespace tiermap
