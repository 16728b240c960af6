#include "command_line/ranks.hpp"

#include <fmt/format.h>

#include "tiermap/error.hpp"
#include "tiermap/shared_vector.hpp"

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

bool Ranks::read_much(std::span<const std::byte> own, std::uint64_t first, std::span<std::byte> all) {
  using Bytes = SharedVector<std::byte>;
  SharedVectorOptions options;
  options.page_size_bytes = std::uint64_t{256} << 10U;
  options.budget_bytes = 64 * options.page_size_bytes;
  std::optional<Bytes> bytes;
  try {
    bytes.emplace(Bytes::create(*job_, "much", all.size(), options));
  } catch (const Error&) {  // If the job has failed, what comes next says so.
  }
  const std::vector<char> made = gather_each<char>(bytes.has_value() ? 1 : 0);
  if (std::ranges::find(made, 0) != made.end()) {
    return false;
  }
  {
    auto writer = bytes->write({first, own.size()});
    for (std::span<std::byte> piece = writer.next(); !piece.empty(); piece = writer.next()) {
      std::ranges::copy(own.first(piece.size()), piece.begin());
      own = own.subspan(piece.size());
    }
    writer.commit();
  }
  bytes->set_phase(Phase::read_only);
  bool read = true;
  try {
    auto together = bytes->read_together(bytes->all());
    for (std::span<const std::byte> piece = together.next(); !piece.empty(); piece = together.next()) {
      std::ranges::copy(piece, all.begin());
      all = all.subspan(piece.size());
    }
  } catch (const StoreError&) {  // On all ranks: some do not reach each other.
    read = false;
  }
  bytes->destroy();
  return read;
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
