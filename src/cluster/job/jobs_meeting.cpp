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
    append_number(*all, one.has_value() ? one->words()[0] : 0);
    append_number(*all, one.has_value() ? one->body().size() : 0);
    if (one.has_value()) {
      all->insert(all->end(), one->body().begin(), one->body().end());
    }
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
  conclude_if_complete(job, answers);
}

// Nobody has left, as meet() says: who has no connection any more was lost.
void Jobs::conclude_if_complete(Job& job, Answers& answers) {
  bool somebody = false;
  for (std::size_t rank = 0; rank < job.gathered.size(); ++rank) {
    somebody = somebody || job.gathered[rank].has_value();
    if (!job.gathered[rank].has_value() && job.connections[rank] != nullptr) {
      return;
    }
  }
  if (somebody) {
    conclude(job, answers);
  }
}

void Jobs::conclude(Job& job, Answers& answers) {
  const auto rank_at = [&](auto place) { return rank_text(static_cast<std::uint32_t>(place - job.gathered.begin())); };
  const auto first = std::ranges::find_if(job.gathered, [](const auto& one) { return one.has_value(); });
  const auto other = std::ranges::find_if(
      job.gathered, [&](const auto& one) { return one.has_value() && doing(*one) != doing(**first); });
  const std::string disagreement = other == job.gathered.end()
                                       ? ""
                                       : "job " + quote_value(job.name) + ": " + rank_at(first) + " " + doing(**first) +
                                             ", but " + rank_at(other) + " " + doing(**other) +
                                             ": have all ranks do the same";
  const auto bodies = disagreement.empty() && gathers(**first) ? bodies_of_all(job.gathered) : nullptr;
  const WireWords words{job.lost.size(), 0, 0, 0};
  for (std::optional<WireRequest>& one : job.gathered) {
    if (!one.has_value()) {
      continue;
    }
    if (!disagreement.empty()) {
      answers.refuse(std::move(*one), -EINVAL, disagreement);
    } else if (bodies != nullptr) {
      answers.reply(std::move(*one), words, bodies);
    } else {
      answers.reply(std::move(*one), 0, words);
    }
    one.reset();
  }
}

}  // namespace tiermap
