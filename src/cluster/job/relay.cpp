#include "cluster/job/relay.hpp"

#include <algorithm>
#include <cerrno>

namespace tiermap {
namespace {

void do_all(const std::vector<std::function<void()>>& later) {
  for (const std::function<void()>& one : later) {
    one();
  }
}

std::uint64_t sequence_of(const WireReply& reply) noexcept {
  return reply.words[0];
}

WireReply failure(int error_number) {
  WireReply reply;
  reply.status = -error_number;
  return reply;
}

}  // namespace

const WireReply& Pull::wait() {
  std::unique_lock lock(mutex_);
  completed_.wait(lock, [this] { return complete_; });
  return reply_;
}

void Pull::complete(const WireReply& reply) {
  const std::lock_guard lock(mutex_);
  reply_ = reply;
  complete_ = true;
  completed_.notify_all();
}

void Relay::begin(std::shared_ptr<WireConnection> parent, AskHome home, std::vector<std::uint32_t> children) {
  const std::lock_guard lock(mutex_);
  parent_ = std::move(parent);
  home_ = std::move(home);
  children_ = std::move(children);
  begun_ = true;
}

bool Relay::begun() const {
  const std::lock_guard lock(mutex_);
  return begun_;
}

void Relay::end() {
  std::shared_ptr<WireConnection> parent;
  const std::lock_guard lock(mutex_);
  begun_ = false;
  parent.swap(parent_);
}

std::shared_ptr<Pull> Relay::start(const Piece& piece, std::uint64_t least_sequence) {
  auto pull = std::make_shared<Pull>();
  want(piece, {0, least_sequence, [pull](const WireReply& reply) { pull->complete(reply); }});
  return pull;
}

void Relay::count(std::uint32_t server, std::uint32_t handle, std::shared_ptr<HomeCounters> counters) {
  const std::lock_guard lock(mutex_);
  counters_[{server, handle}] = std::move(counters);
}

void Relay::forget(std::uint32_t server, std::uint32_t handle) {
  const std::lock_guard lock(mutex_);
  counters_.erase({server, handle});
  for (auto place = pieces_.lower_bound({server, handle, 0, 0}); place != pieces_.end();) {
    if (place->first.server != server || place->first.handle != handle) {
      break;
    }
    drop_reply(place->first, place->second);
    place = place->second.asked ? std::next(place) : pieces_.erase(place);
  }
}

std::shared_ptr<HomeCounters> Relay::counters_of(const Piece& piece) const {
  const auto found = counters_.find({piece.server, piece.handle});
  return found == counters_.end() ? nullptr : found->second;
}

std::optional<std::string> Relay::secret_of(std::string_view user) {
  return user == login_.user ? std::optional(login_.secret) : std::nullopt;
}

void Relay::on_request(WireRequest request) {
  const WireWords words = request.words();
  const auto who = static_cast<std::uint32_t>(words[2] >> 32U);
  const Piece piece{static_cast<std::uint32_t>(words[0] >> 32U), static_cast<std::uint32_t>(words[0]), words[1],
                    static_cast<std::uint32_t>(words[2])};
  std::size_t taker = 0;
  std::shared_ptr<HomeCounters> counters;
  {
    const std::lock_guard lock(mutex_);
    const auto child = std::ranges::find(children_, who);
    taker = !begun_ || child == children_.end() ? 0 : static_cast<std::size_t>(child - children_.begin()) + 1;
    counters = counters_of(piece);
  }
  if (request.kind() != pull_request || taker == 0 || piece.bytes > request.from()->largest_body()) {
    request.refuse(-EPROTO, "a rank that is not asked this: have all ranks use the same Tiermap");
    return;
  }
  // A std::function is copied.
  const auto shared = std::make_shared<WireRequest>(std::move(request));
  want(piece, {taker, words[3], [shared, counters](const WireReply& reply) {
                 const std::span<const std::byte> bytes = reply.body.bytes();
                 WireMessage answer = WireMessage::answer(reply.status, reply.words, bytes.size());
                 std::ranges::copy(bytes, answer.body().begin());
                 if (counters != nullptr && reply.status == 0) {
                   counters->handed_bytes.fetch_add(bytes.size(), std::memory_order_relaxed);
                 }
                 shared->reply(std::move(answer));
               }});
}

void Relay::want(const Piece& piece, Waiting waiting) {
  Later later;
  {
    const std::lock_guard lock(mutex_);
    if (!begun_) {
      later.push_back([give = std::move(waiting.give)] { give(failure(ENOTCONN)); });
    } else {
      const auto place = pieces_.try_emplace(piece).first;
      place->second.waiting.push_back(std::move(waiting));
      hand_out(place->second, later);
      ask(piece, place->second, later);
      settle(place);
    }
  }
  do_all(later);
}

/// To all for whom what there is is new enough.
void Relay::hand_out(Kept& kept, Later& later) {
  if (!kept.reply.has_value()) {
    return;
  }
  std::vector<Waiting> left;
  for (Waiting& one : kept.waiting) {
    if (sequence_of(*kept.reply) < one.least) {
      left.push_back(std::move(one));
      continue;
    }
    kept.taken |= std::uint64_t{1} << one.taker;
    later.push_back([give = std::move(one.give), reply = *kept.reply] { give(reply); });
  }
  kept.waiting = std::move(left);
}

/// To those who wanted no more than was asked for: to ask again is no use.
void Relay::refuse(Kept& kept, const WireReply& failed, Later& later) {
  std::vector<Waiting> left;
  for (Waiting& one : kept.waiting) {
    if (one.least > kept.asked_least) {
      left.push_back(std::move(one));
    } else {
      later.push_back([give = std::move(one.give), failed] { give(failed); });
    }
  }
  kept.waiting = std::move(left);
}

/// For those who still wait, if it is not on its way.
void Relay::ask(const Piece& piece, Kept& kept, Later& later) {
  if (kept.asked || kept.waiting.empty()) {
    return;
  }
  kept.asked = true;
  kept.asked_least = std::ranges::max_element(kept.waiting, {}, &Waiting::least)->least;
  later.push_back([this, piece, least = kept.asked_least] { send(piece, least); });
}

void Relay::send(const Piece& piece, std::uint64_t least) {
  std::shared_ptr<WireConnection> parent;
  AskHome home;
  std::shared_ptr<HomeCounters> counters;
  {
    const std::lock_guard lock(mutex_);
    parent = parent_;
    home = home_;
    counters = counters_of(piece);
  }
  const auto arrived = [this, piece](const WireReply& reply) { arrive(piece, reply); };
  if (counters != nullptr) {
    (parent != nullptr ? counters->pulls : counters->fetches).fetch_add(1, std::memory_order_relaxed);
    if (parent != nullptr) {
      counters->pulled_bytes.fetch_add(piece.bytes, std::memory_order_relaxed);
    } else {
      counters->note_fetched(piece.server, piece.bytes);
    }
  }
  if (parent == nullptr) {
    home(piece, arrived);
    return;
  }
  const std::uint64_t who = std::uint64_t{rank_} << 32U | piece.bytes;
  const std::uint64_t what = std::uint64_t{piece.server} << 32U | piece.handle;
  parent->start_then(WireMessage(pull_request, {what, piece.offset, who, least}), patience_, arrived);
}

void Relay::arrive(const Piece& piece, const WireReply& reply) {
  Later later;
  {
    const std::lock_guard lock(mutex_);
    const auto place = pieces_.find(piece);
    if (place == pieces_.end()) {
      return;
    }
    Kept& kept = place->second;
    kept.asked = false;
    const bool whole = reply.status == 0 && reply.body.bytes().size() == piece.bytes;
    if (whole && (!kept.reply.has_value() || sequence_of(*kept.reply) <= sequence_of(reply))) {
      drop_reply(piece, kept);
      kept.reply = reply;
      kept.age = next_age_++;
      by_age_.emplace_back(piece, kept.age);
      kept_bytes_ += piece.bytes;
      hand_out(kept, later);
    }
    refuse(kept, whole ? failure(ESTALE) : reply.status != 0 ? reply : failure(EBADMSG), later);
    ask(piece, kept, later);
    settle(place);
    make_room();
    keep_alone(piece);
  }
  do_all(later);
}

/// What came may lie in a frame with others, or in one with room for more: what is kept is counted without these.
void Relay::keep_alone(const Piece& piece) {
  const auto place = pieces_.find(piece);
  if (place == pieces_.end() || !place->second.reply.has_value()) {
    return;
  }
  WireBody& body = place->second.reply->body;
  const auto bytes = std::make_shared_for_overwrite<std::byte[]>(piece.bytes);
  std::ranges::copy(body.bytes(), bytes.get());
  body = WireBody(bytes, {bytes.get(), piece.bytes});
}

/// What everybody has is not kept.
void Relay::settle(Pieces::iterator place) {
  Kept& kept = place->second;
  const std::uint64_t everybody = (std::uint64_t{2} << children_.size()) - 1;
  if (kept.taken == everybody) {
    drop_reply(place->first, kept);
  }
  if (!kept.reply.has_value() && !kept.asked && kept.waiting.empty()) {
    pieces_.erase(place);
  }
}

void Relay::make_room() {
  while (!by_age_.empty()) {
    const auto place = pieces_.find(by_age_.front().first);
    const bool there =
        place != pieces_.end() && place->second.reply.has_value() && place->second.age == by_age_.front().second;
    if (there && kept_bytes_ <= most_bytes_) {
      break;
    }
    by_age_.pop_front();
    if (there) {
      drop_reply(place->first, place->second);
      settle(place);
    }
  }
  if (by_age_.size() > 2 * pieces_.size() + 64) {
    std::erase_if(by_age_, [this](const auto& one) {
      const auto place = pieces_.find(one.first);
      return place == pieces_.end() || !place->second.reply.has_value() || place->second.age != one.second;
    });
  }
}

void Relay::drop_reply(const Piece& piece, Kept& kept) {
  if (kept.reply.has_value()) {
    kept.reply.reset();
    kept.taken = 0;
    kept_bytes_ -= piece.bytes;
  }
}

}  // namespace tiermap
