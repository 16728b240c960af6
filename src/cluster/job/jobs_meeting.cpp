// What all ranks of a job do together: they meet, and go on when all are there and do the same.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "cluster/job/job_answers.hpp"
#include "cluster/job/jobs.hpp"
#include "config/size.hpp"

namespace tiermap {
namespace {

bool gathers(const WireRequest& request) noexcept {
  return static_cast<JobRequest>(request.kind()) == JobRequest::gather;
}

/// What a rank is at, in words.
std::string doing(const WireRequest& request) {
  return gathers(request) ? "gathers what each rank has" : request.text();
}

void append_number(std::vector<std::byte>& body, std::uint64_t number) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&number);
  body.insert(body.end(), bytes, bytes + sizeof(number));
}

std::shared_ptr<const std::vector<std::byte>> bodies_of_all(const std::vector<std::optional<WireRequest>>& requests) {
  auto all = std::make_shared<std::vector<std::byte>>();
  for (const std::optional<WireRequest>& one : requests) {
    append_number(*all, one->words()[0]);
    append_number(*all, one->body().size());
    all->insert(all->end(), one->body().begin(), one->body().end());
  }
  return all;
}

}  // namespace

void Jobs::meet(Job& job, std::uint32_t rank, WireRequest request, Answers& answers) {
  if (!job.departed.empty()) {
    fail(job, job.departed + " has left while others wait for it", answers);
    answers.refuse(std::move(request), -ECONNABORTED, job.failure);
    return;
  }
  if (job.gathered[rank].has_value()) {
    answers.refuse(std::move(request), -EBUSY,
                   rank_text(rank) + " waits for the others already: one thread of it at a time");
    return;
  }
  if (gathers(request) && request.body().size() > most_gathered_of(static_cast<std::uint32_t>(job.size.ranks))) {
    answers.refuse(std::move(request), -EMSGSIZE, "more than one message holds: gather less at once");
    return;
  }
  job.gathered[rank] = std::move(request);
  if (std::ranges::all_of(job.gathered, [](const auto& one) { return one.has_value(); })) {
    conclude(job, answers);
  }
}

void Jobs::conclude(Job& job, Answers& answers) {
  const std::string first = doing(*job.gathered[0]);
  const auto other = std::ranges::find_if(job.gathered, [&](const auto& one) { return doing(*one) != first; });
  const std::string disagreement = other == job.gathered.end()
                                       ? ""
                                       : "job " + quote_value(job.name) + ": rank 0 " + first + ", but " +
                                             rank_text(static_cast<std::uint32_t>(other - job.gathered.begin())) + " " +
                                             doing(**other) + ": have all ranks do the same";
  const auto bodies = disagreement.empty() && gathers(*job.gathered[0]) ? bodies_of_all(job.gathered) : nullptr;
  for (std::optional<WireRequest>& one : job.gathered) {
    if (!disagreement.empty()) {
      answers.refuse(std::move(*one), -EINVAL, disagreement);
    } else if (bodies != nullptr) {
      answers.reply(std::move(*one), bodies);
    } else {
      answers.reply(std::move(*one));
    }
    one.reset();
  }
}

}  // namespace tiermap
