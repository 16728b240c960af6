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
  auto leaving = std::make_shared<std::vector<WireRequest>>();
  for (std::size_t rank = 0; rank < job->leaving.size(); ++rank) {
    if (job->connections[rank] != nullptr && !job->leaving[rank].has_value()) {
      return;
    }
  }
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
      homes.clear();
      for (WireRequest& request : *leaving) {
        request.reply(0);
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

/// Of what the job makes. What an earlier job of this name made may still be on its way out, and what it was before it
/// was placed is there. What is placed, what would have too long a name, and what follows another one of its name, of
/// which something may be under way yet, is told apart by a number: there the ends of the job's name and its own may
/// be missing.
std::string Jobs::name_here(Job& job, const std::string& name, std::uint64_t made) {
  constexpr std::size_t most_of_job = 16;
  const std::string number = "." + std::to_string(job.number);
  std::string whole = job.name + number + "." + name;
  if (made == 1 && whole.size() <= longest_plain_name && job.made.insert(name).second) {
    return whole;
  }
  const std::string handle = number + "-" + std::to_string(job.numbers_made++) + ".";
  const std::string of_job =
      job.name.size() + handle.size() < longest_plain_name ? job.name : job.name.substr(0, most_of_job);
  return (of_job + handle + name).substr(0, longest_plain_name);
}

std::shared_ptr<Home> Jobs::make_home(const Job& job, const Opening& what) {
  if (what.made > 0 && !is_plain_name("_" + what.name)) {
    throw CatalogRefusal{-EINVAL, "a vector cannot be called " + quote_value(what.name) + ": write up to " +
                                      std::to_string(longest_plain_name - 1) + " letters, digits, '_', '-' and '.'"};
  }
  if (what.made > 0) {
    CreateForm form;
    form.name = what.here;
    form.whole_bytes = what.bytes;
    catalog_.create(what.user, form, what.bytes);
  }
  std::shared_ptr<Attachment> attachment = catalog_.attach(what.user, "job " + job.name, what.here, true);
  if (attachment->set().layout.kind != DataSetLayout::Kind::single) {
    throw CatalogRefusal{-EINVAL, "data set " + quote_value(what.name) + " is " + attachment->set().layout.text() +
                                      ": a job opens what is on one server; make a vector, and load it from its URL"};
  }
  return std::make_shared<Home>(catalog_, std::move(attachment), what.user, what.made > 0);
}

void Jobs::answer_opened(Job& job, std::uint64_t handle, WireRequest request, Answers& answers) {
  const Home& home = *job.homes[handle];
  answers.reply(std::move(request), 0, {handle, home.sequence(), home.bytes(), home.read_nanoseconds()});
}

/// The first rank that asks makes it, or attaches it for the whole job. That may take a while, as where a tier is
/// another server's, and the thread that is here answers everybody.
void Jobs::open(const std::shared_ptr<Job>& job, WireRequest request, Answers& answers) {
  const std::pair<std::string, std::uint64_t> key{request.text(), request.words()[1]};
  if (const auto found = job->handles.find(key); found != job->handles.end()) {
    answer_opened(*job, found->second, std::move(request), answers);
    return;
  }
  const auto [waiting, is_first] = job->opening.try_emplace(key);
  if (is_first) {
    const std::string here = key.second > 0 ? name_here(*job, key.first, key.second) : key.first;
    const Opening what{request.from()->user(), key.first, here, request.words()[0], key.second};
    answers.then(
        [this, job, what] { workers_.give(TaskSize::large, [this, job, what] { open_by_worker(job, what); }); });
  }
  waiting->second.push_back(std::move(request));
}

void Jobs::open_by_worker(const std::shared_ptr<Job>& job, const Opening& what) {
  std::shared_ptr<Home> home;
  CatalogRefusal refusal{};
  try {
    home = make_home(*job, what);
  } catch (const CatalogRefusal& refused) {
    refusal = refused;
  } catch (const std::exception& error) {
    refusal = {-EIO, error.what()};
  }
  Answers answers;
  const std::lock_guard lock(mutex_);
  const std::pair<std::string, std::uint64_t> key{what.name, what.made};
  std::vector<WireRequest> waiting = std::move(job->opening[key]);
  job->opening.erase(key);
  const bool keeps = home != nullptr && job->failure.empty() && job->connected > 0;
  if (home != nullptr && !keeps) {
    refusal = {-ECONNABORTED, job->failure};
  }
  if (keeps) {
    job->homes.push_back(std::move(home));
    job->handles.emplace(key, job->homes.size() - 1);
  }
  for (WireRequest& request : waiting) {
    if (keeps) {
      answer_opened(*job, job->homes.size() - 1, std::move(request), answers);
    } else {
      answers.refuse(std::move(request), refusal.status, refusal.text);
    }
  }
}

void Jobs::destroy(Job& job, WireRequest request, Answers& answers) {
  const std::uint64_t handle = request.words()[0];
  if (handle >= job.homes.size() || job.homes[handle] == nullptr) {
    answers.reply(std::move(request));
    return;
  }
  std::erase_if(job.handles, [&](const auto& one) { return one.second == handle; });
  job.homes[handle]->drop_at_end();
  // Before anybody is answered there is room again, and nothing of that name. Stores may take long to let go of, and
  // the thread that is here answers everybody.
  answers.then([this, home = std::exchange(job.homes[handle], nullptr),
                shared = std::make_shared<WireRequest>(std::move(request))]() mutable {
    std::shared_ptr<Store> store = home->store();
    home.reset();
    workers_.give(TaskSize::large, [store = std::move(store), shared = std::move(shared)]() mutable {
      store.reset();
      shared->reply(0);
    });
  });
}

/// A home lets one rank change something at a time: no worker is to wait for that.
void Jobs::serve_home(const std::shared_ptr<Home>& home, std::uint32_t rank, WireRequest request) {
  if (home->in_memory()) {  // Copied by the wire's own thread, in the order in which it was asked for.
    answer_home(*home, rank, request);
    return;
  }
  const auto kind = static_cast<JobRequest>(request.kind());
  const WireWords words = request.words();
  const std::uint64_t bytes = kind == JobRequest::change ? request.body().size() : words[2];
  auto work = [home, rank, shared = std::make_shared<WireRequest>(std::move(request))] {
    answer_home(*home, rank, *shared);
  };
  if (kind == JobRequest::changes || kind == JobRequest::score) {
    workers_.give(TaskSize::small, std::move(work));
  } else if (kind == JobRequest::fetch) {
    workers_.give(TaskRange::reading(home.get(), words[1], bytes), task_size(bytes), std::move(work));
  } else {
    workers_.give(TaskRange::writing_all(home.get()), task_size(bytes), std::move(work));
  }
}

void Jobs::answer_home(Home& home, std::uint32_t rank, WireRequest& request) {
  const WireWords words = request.words();
  const std::uint64_t bytes = words[2];
  std::uint64_t sequence = 0;
  switch (static_cast<JobRequest>(request.kind())) {
    case JobRequest::fetch:
    case JobRequest::exchange: {
      if (bytes > request.from()->largest_body()) {
        request.refuse(-EMSGSIZE, "more than one message holds: ask for less at once");
        return;
      }
      std::vector<std::byte> buffer(bytes);
      const bool fetches = static_cast<JobRequest>(request.kind()) == JobRequest::fetch;
      sequence = words[3];
      const int status = fetches ? home.fetch(words[1], buffer, sequence)
                                 : home.exchange(rank, words[1], buffer, request.body(), sequence);
      if (status == -damaged_error) {
        request.refuse(status, home.damage());
        return;
      }
      const bool told = fetches ? status == 0 : status == -EAGAIN;
      WireMessage answer = WireMessage::answer(status, {sequence, 0, 0, 0}, told ? bytes : 0);
      std::copy_n(buffer.begin(), answer.body().size(), answer.body().begin());
      request.reply(std::move(answer));
      return;
    }
    case JobRequest::change: {
      const int status = home.change(rank, request.body(), sequence);
      if (status == -damaged_error) {
        request.refuse(status, home.damage());
        return;
      }
      request.reply(status, {sequence, 0, 0, 0});
      return;
    }
    case JobRequest::changes: {
      const std::vector<BlockRun> runs = home.news(rank, words[1], sequence);
      const auto bytes_of_runs = std::as_bytes(std::span(runs));
      WireMessage answer = WireMessage::answer(0, {sequence, 0, 0, 0}, bytes_of_runs.size());
      std::ranges::copy(bytes_of_runs, answer.body().begin());
      request.reply(std::move(answer));
      return;
    }
    case JobRequest::score:
      request.reply(home.take_scores(request.body(), request.from().get()));
      return;
    default:
      request.refuse(-ENOSYS, "this server does not know what was asked for: install the same Tiermap on both");
  }
}

}  // namespace tiermap
