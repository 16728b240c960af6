#include "command_line/ranks.hpp"

#include <fmt/format.h>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::string text_in(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Ranks::Ranks(const JobRank& place) : place_(place) {
  JobOptions options;
  options.rank = place.rank;
  options.ranks = place.ranks;
  job_ = std::make_unique<Job>(options);
}

void Ranks::barrier() {
  if (!alone()) {
    job_->barrier();
  }
}

std::string Ranks::text_of_first(const std::string& text) {
  if (alone()) {
    return text;
  }
  const std::span<const char> own(text.data(), is_first() ? text.size() : 0);
  return text_in(job_->gather(std::as_bytes(own)).front());
}

std::vector<std::string> Ranks::texts_of_all(const std::string& own) {
  if (alone()) {
    return {own};
  }
  std::vector<std::string> all;
  for (const std::vector<std::byte>& bytes : job_->gather(std::as_bytes(std::span<const char>(own)))) {
    all.push_back(text_in(bytes));
  }
  return all;
}

std::string Ranks::first_complaint(const std::string& own) {
  if (alone()) {
    return own;
  }
  const std::vector<std::string> all = texts_of_all(own);
  const auto complaint = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  return complaint == all.end() ? "" : fmt::format("rank {}: {}", complaint - all.begin(), *complaint);
}

void Ranks::require_health() {
  job_->fetch_add("health", 0);
}

bool Ranks::is_first_to_tell() noexcept {
  try {
    return alone() || job_->is_first_to_tell();
  } catch (...) {  // Nobody can be asked: every rank has trouble of its own, and one of them tells.
    return is_first();
  }
}

void Ranks::wait_for_failure() noexcept {
  try {
    job_->gather({});
  } catch (...) {  // What was waited for.
  }
}

void Ranks::end() {
  if (!alone()) {
    job_->end();
  }
}

}  // namespace tiermap
