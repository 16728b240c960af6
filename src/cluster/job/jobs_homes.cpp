// What a job makes, opens and destroys on this server, and what its ranks ask of it.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "cluster/job/job_answers.hpp"
#include "cluster/job/jobs.hpp"
#include "config/size.hpp"

namespace tiermap {

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
