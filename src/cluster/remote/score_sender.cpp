#include "cluster/remote/score_sender.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace tiermap {
namespace {

/// In steps of 1/64, upwards: so that pages side by side, of which each is needed a little later than the one before,
/// are few ranges. What is needed at all stays above 0.
std::uint16_t short_score(double score) noexcept {
  constexpr std::uint32_t steps = 64;
  constexpr std::uint32_t step = (UINT16_MAX + 1U) / steps;
  const double of_steps = std::clamp(score, 0.0, 1.0) * steps;
  const auto whole = static_cast<std::uint32_t>(of_steps);
  const std::uint32_t up = whole + (of_steps > static_cast<double>(whole) ? 1U : 0U);
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(up * step, UINT16_MAX));
}

/// Sixteen bits that few others have at the same time.
std::uint16_t short_number(std::uint64_t sharer) noexcept {
  constexpr std::uint64_t odd = 0x9E37'79B9'7F4A'7C15U;
  return static_cast<std::uint16_t>(sharer * odd >> 48U);
}

}  // namespace

bool ScoreSender::collect(const ScoredRange& range) {
  if (next_bytes_ + range.bytes > most_scored_bytes) {
    return false;
  }
  if (!next_.empty()) {
    ScoredRange& last = next_.back();
    if (last.offset + last.bytes == range.offset && last.score == range.score && last.sharer == range.sharer) {
      last.bytes += range.bytes;
      next_bytes_ += range.bytes;
      return true;
    }
  }
  if (next_.size() == most_scored_ranges) {
    return false;
  }
  next_.push_back(range);
  next_bytes_ += range.bytes;
  return true;
}

void ScoreSender::add(const ScoredRange& range) noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || !collect(range)) {
        return;
      }
    }
    send_if_idle();
  } catch (const std::exception&) {  // No memory: it was a hint.
    stop();
  }
}

void ScoreSender::send_if_idle() {
  std::vector<ScoredRange> ranges;
  {
    const std::lock_guard lock(mutex_);
    if (under_way_ || stopped_ || next_.empty()) {
      return;
    }
    ranges.swap(next_);
    next_bytes_ = 0;
    under_way_ = true;
  }
  const auto body = std::as_bytes(std::span(ranges));
  messages_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(body.size(), std::memory_order_relaxed);
  // With its own life in hand: the answer may come when the data set has been closed.
  connection_->start_then(WireMessage(kind_, {handle_, 0, 0, 0}, body), std::nullopt,
                          [self = shared_from_this()](const WireReply& reply) {
                            if (reply.status != 0) {
                              self->stop();
                              return;
                            }
                            {
                              const std::lock_guard lock(self->mutex_);
                              self->under_way_ = false;
                            }
                            try {
                              self->send_if_idle();
                            } catch (const std::exception&) {
                              self->stop();
                            }
                          });
}

void ScoreSender::stop() noexcept {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  next_.clear();
}

void DataSetScores::add_server(std::shared_ptr<ScoreSender> sender, std::uint64_t read_nanoseconds) {
  senders_.push_back(std::move(sender));
  read_nanoseconds_ = std::max(read_nanoseconds_, read_nanoseconds);
}

void DataSetScores::score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept {
  if (read_nanoseconds_ == 0) {
    return;
  }
  ScoredRange range{0, 0, short_score(score), short_number(sharer)};
  while (bytes > 0) {
    const std::uint64_t run = placement_.run(offset, std::min(bytes, most_scored_bytes));
    for (std::uint32_t copy = 0; copy < placement_.copies(); ++copy) {
      if (ScoreSender* const sender = senders_[placement_.server(offset, copy)].get(); sender != nullptr) {
        range.offset = placement_.local_offset(offset, copy);
        range.bytes = static_cast<std::uint32_t>(run);
        sender->add(range);
      }
    }
    offset += run;
    bytes -= run;
  }
}

double DataSetScores::read_microseconds(std::uint64_t bytes) const noexcept {
  return static_cast<double>(read_nanoseconds_) / 1000 * static_cast<double>(bytes) / read_estimate_bytes;
}

std::uint64_t DataSetScores::messages() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& sender : senders_) {
    sum += sender == nullptr ? 0 : sender->messages();
  }
  return sum;
}

std::uint64_t DataSetScores::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& sender : senders_) {
    sum += sender == nullptr ? 0 : sender->bytes();
  }
  return sum;
}

}  // namespace tiermap
