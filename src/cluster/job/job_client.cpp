#include "cluster/job/job_client.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <utility>

#include "cluster/job/near_servers.hpp"
#include "cluster/job/process_age.hpp"
#include "config/size.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

WireOptions wire_options(const JobPlace& place) {
  WireOptions options;
  options.timeout = place.timeout;
  options.secret_required = !place.login.secret.empty();  // Of ranks that connect to this one.
  options.family = common_family(place.servers);
  const std::array<HostAndPort, 1> own{{{place.host, 0}}};
  options.loopback = all_loopback(place.servers) && (place.host.empty() || all_loopback(own));
  return options;
}

/// Takes the next bytes of each rank out of a reply to JobRequest::gather. Whether these were the last ones. Throws
/// StoreError for what is no such reply. A rank that was lost meanwhile has nothing, if that may be.
bool take_gathered(std::span<const std::byte> body, bool may_be_lost, std::vector<std::vector<std::byte>>& all) {
  bool complete = true;
  for (std::vector<std::byte>& one : all) {
    std::array<std::uint64_t, 2> counts{};  // In all, and here.
    if (body.size() >= sizeof(counts)) {
      std::memcpy(counts.data(), body.data(), sizeof(counts));
      body = body.subspan(sizeof(counts));
    }
    if (may_be_lost && counts[0] == 0) {
      one.clear();
    }
    if (counts[1] > body.size() || one.size() + counts[1] > counts[0] || (counts[1] == 0 && one.size() < counts[0])) {
      throw StoreError(EBADMSG,
                       "what ranks had to say to each other has come in pieces: install the same Tiermap on all");
    }
    one.insert(one.end(), body.begin(), body.begin() + static_cast<std::ptrdiff_t>(counts[1]));
    body = body.subspan(counts[1]);
    complete = complete && one.size() == counts[0];
  }
  return complete;
}

/// What servers answered, the first one first: a job that has failed at one of them never begins at the others.
class JoinReplies {
 public:
  void add(std::uint32_t server, WireReply reply) {
    const std::lock_guard guard(mutex_);
    replies_.emplace_back(server, std::move(reply));
    added_.notify_one();
  }
  /// Nothing if none comes for so long.
  std::optional<std::pair<std::uint32_t, WireReply>> next(std::chrono::milliseconds patience) {
    std::unique_lock guard(mutex_);
    if (!added_.wait_for(guard, patience, [&] { return !replies_.empty(); })) {
      return std::nullopt;
    }
    std::pair<std::uint32_t, WireReply> first = std::move(replies_.front());
    replies_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;  ///< With mutex_, which guards what follows.
  std::deque<std::pair<std::uint32_t, WireReply>> replies_;
};

}  // namespace

JobClient::JobClient(const JobPlace& place)
    : place_(place),
      near_(servers_near(place)),
      relay_(place.rank, place.login, place.timeout, place.relay_bytes),
      wire_(wire_options(place), &relay_) {
  const std::span<const std::byte> name = std::as_bytes(std::span(place.name));
  for (const HostAndPort& server : place.servers) {
    connections_.push_back(wire_.connect(server, place.login));
  }
  // Who waited longer for this rank than it would wait itself has not waited for it.
  const auto on_its_way = static_cast<std::uint64_t>(std::min(process_age(), place.join_patience).count());
  const auto replies = std::make_shared<JoinReplies>();
  for (std::uint32_t server = 0; server < servers(); ++server) {
    const JobSize size{place.ranks, servers(), server, place.goes_on};
    connections_[server]->start_then(WireMessage(static_cast<std::uint16_t>(JobRequest::join),
                                                 {place.rank, size.word(), place.node_cache_bytes, on_its_way}, name),
                                     place.join_patience,
                                     [replies, server](WireReply reply) { replies->add(server, std::move(reply)); });
  }
  // A rank that ends when it has joined at some servers is known to these, and others wait for it.
  constexpr std::chrono::milliseconds between_questions{1000};
  std::vector<std::uint32_t> joined;
  bool one_was_lost = false;
  while (joined.size() < servers()) {
    if (const auto reply = replies->next(between_questions); reply.has_value()) {
      require_joined(*reply);
      joined.push_back(reply->first);
    } else {
      one_was_lost = require_none_lost(joined, one_was_lost);
    }
  }
}

// A server where all ranks have come goes on without one that has ended, for which others wait for ever. What they say
// may be on its way when that is heard first.
bool JobClient::require_none_lost(const std::vector<std::uint32_t>& joined, bool one_was_lost) {
  bool one_is_lost = false;
  for (const std::uint32_t server : joined) {
    const WireReply reply = start(server, JobRequest::lost, {}).wait();
    require(server, reply);
    std::uint32_t rank = 0;
    if (reply.body.bytes().size() < sizeof(rank)) {
      continue;
    }
    one_is_lost = true;
    if (one_was_lost) {
      std::memcpy(&rank, reply.body.bytes().data(), sizeof(rank));
      const std::string words = "job " + quote_value(place_.name) + ": rank " + std::to_string(rank) +
                                " ended before all ranks had come to all servers: start the job again";
      tell_servers(words, server);
      throw StoreError(ECONNABORTED, words);
    }
  }
  return one_is_lost;
}

void JobClient::require_joined(const std::pair<std::uint32_t, WireReply>& joined) {
  const auto& [server, reply] = joined;
  if (reply.status == -ETIMEDOUT) {
    const std::string missing = absent(server);
    const std::string words = "job " + quote_value(place_.name) + " at server " + place_.servers[server].text() +
                              ": of " + std::to_string(place_.ranks) + " ranks these have not come within " +
                              std::to_string(place_.join_patience.count()) + " ms: " + missing +
                              ": see why, or wait longer";
    if (!missing.empty()) {  // The others are to hear of these, and not that this rank has ended.
      tell_servers(words);
    }
    throw StoreError(ETIMEDOUT, words);
  }
  require(server, reply);
}

std::string JobClient::absent(std::uint32_t server) {
  return connections_[server]
      ->call(WireMessage(static_cast<std::uint16_t>(JobRequest::absent), {}, std::as_bytes(std::span(place_.name))))
      .body.text();
}

void JobClient::require(std::uint32_t server, const WireReply& reply) {
  const std::string words = reply.status != 0 ? reply.body.text() : "";
  bool news = false;
  std::string failure;
  {
    const std::lock_guard guard(mutex_);
    news = reply.status == -ECONNABORTED && failure_.empty();
    failure_ = news ? words : failure_;
    failure = failure_;
  }
  if (news) {
    tell_servers(words, server);
  }
  if (!failure.empty()) {
    throw StoreError(ECONNABORTED, failure);
  }
  if (reply.status == 0) {
    return;
  }
  if (reply.status == -EUCLEAN) {
    throw StoreError(EUCLEAN, "server " + place_.servers[server].text() + ": " + words);
  }
  if (reply.status == -ENOTCONN && left_.load()) {
    throw StoreError(ENOTCONN, "job " + quote_value(place_.name) + " is over for rank " + std::to_string(place_.rank) +
                                   ", which has ended it: do this before end(), or make another job");
  }
  const bool cut_off = reply.status == -ENOTCONN || (words.empty() && !connections_[server]->open());
  if (place_.goes_on && cut_off) {
    const std::string why = gone_text(server);
    fail(why);  // The other servers are to lose this rank, too.
    throw StoreError(-reply.status, why);
  }
  if (!words.empty()) {
    throw StoreError(-reply.status, words);
  }
  throw StoreError(-reply.status, cut_off
                                      ? gone_text(server)
                                      : "job " + quote_value(place_.name) + ": server " +
                                            place_.servers[server].text() + " answers: " + error_text(-reply.status));
}

std::string JobClient::gone_text(std::uint32_t server) const {
  const std::string begin = "job " + quote_value(place_.name) + ": server " + place_.servers[server].text();
  const std::string why = connections_[server]->failure();
  return place_.goes_on ? begin + " is gone, or has given up rank " + std::to_string(place_.rank) + ", without which " +
                              "the others go on" + (why.empty() ? "" : ": " + why) +
                              ": see whether the server runs, and let the others do what is left"
                        : begin + " is gone: " + why + ": see whether it runs, and start the job again";
}

// A server may hear that this rank ended, as it does when it is told so, before it hears of the end that was the
// reason.
void JobClient::tell_servers(const std::string& words, std::optional<std::uint32_t> except) {
  constexpr std::chrono::milliseconds most_patience{1000};  // With one that does not answer.
  std::vector<WireCall> telling;
  for (std::uint32_t other = 0; other < servers(); ++other) {
    if (other != except && connections_[other]->open()) {
      telling.push_back(connections_[other]->start(
          WireMessage(static_cast<std::uint16_t>(JobRequest::failed), {}, std::as_bytes(std::span(words))),
          std::min(place_.timeout, most_patience)));
    }
  }
  for (WireCall& call : telling) {
    call.wait();
  }
}

WireReply JobClient::ask(std::uint32_t server, JobRequest kind, const WireWords& words, std::string_view body) {
  // A job has no use for the rest of its servers: who asks one hears of the other's end.
  for (std::uint32_t other = 0; other < servers(); ++other) {
    if (!connections_[other]->open()) {
      require(other, WireReply{-ECONNRESET, {}, {}});
    }
  }
  WireReply reply = start(server, kind, words, std::as_bytes(std::span(body))).wait();
  require(server, reply);
  return reply;
}

void JobClient::collective(std::string_view what) {
  note_met(ask(0, JobRequest::collective, {}, what).words[0]);
}

std::vector<std::vector<std::byte>> JobClient::gather(std::span<const std::byte> own) {
  const std::uint64_t at_once = most_gathered_of(place_.ranks);
  std::vector<std::vector<std::byte>> all(place_.ranks);
  for (bool complete = false; !complete;) {
    const std::vector<std::byte>& mine = all[place_.rank];
    const std::span<const std::byte> left = own.subspan(mine.size());
    const WireReply reply =
        start(0, JobRequest::gather, {own.size(), 0, 0, 0}, left.first(std::min<std::uint64_t>(left.size(), at_once)))
            .wait();
    require(0, reply);
    complete = take_gathered(reply.body.bytes(), place_.goes_on, all);
    note_met(reply.words[0]);
  }
  return all;
}

bool JobClient::is_first_to_tell() {
  const WireReply reply = start(0, JobRequest::tell, {}).wait();
  if (reply.status != 0) {
    require(0, reply);
  }
  return reply.words[0] == 0;
}

std::optional<std::uint32_t> JobClient::lock(const std::string& name) {
  {
    const std::lock_guard guard(mutex_);
    const auto held = held_.find(name);
    if (held != held_.end() && held->second == std::this_thread::get_id()) {
      throw StoreError(EDEADLK, "job " + quote_value(place_.name) + ": this thread has the lock " + quote_value(name) +
                                    " already: unlock it first");
    }
  }
  const WireReply reply = ask(0, JobRequest::lock, {}, name);
  {
    const std::lock_guard guard(mutex_);
    held_[name] = std::this_thread::get_id();
  }
  fence_lost(reply.words[0]);
  return reply.words[1] == 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(reply.words[1] - 1));
}

void JobClient::unlock(const std::string& name) {
  {
    const std::lock_guard guard(mutex_);
    held_.erase(name);
  }
  ask(0, JobRequest::unlock, {}, name);
}

std::optional<std::string> JobClient::held_lock() const {
  const std::lock_guard guard(mutex_);
  return held_.empty() || !failure_.empty() ? std::nullopt : std::optional(held_.begin()->first);
}

std::uint64_t JobClient::fetch_add(std::string_view name, std::uint64_t summand, std::uint64_t most) {
  return ask(0, JobRequest::fetch_add, {summand, most, 0, 0}, name).words[0];
}

// Each answers when it has brought down what the job leaves there: all of them at once.
void JobClient::leave() {
  std::vector<WireCall> calls;
  calls.reserve(servers());
  for (std::uint32_t server = 0; server < servers(); ++server) {
    calls.push_back(start(server, JobRequest::leave, {}));
  }
  std::pair<std::uint64_t, std::string> failure;  // Of what is left there.
  for (std::uint32_t server = 0; server < servers(); ++server) {
    const WireReply& reply = calls[server].wait();
    require(server, reply);
    left_.store(true);
    if (reply.words[0] != 0) {
      failure = {reply.words[0], "server " + place_.servers[server].text() + ": " + reply.body.text()};
    }
  }
  if (failure.first != 0) {
    throw StoreError(static_cast<int>(failure.first), "job " + quote_value(place_.name) + ": " + failure.second);
  }
}

void JobClient::fail(const std::string& why) noexcept {
  try {
    {
      const std::lock_guard guard(mutex_);
      if (!failure_.empty()) {
        return;
      }
      failure_ = why;
    }
    for (const auto& connection : connections_) {
      connection->close(why);
    }
  } catch (...) {  // No memory: there is nothing that it could be told with.
  }
}

}  // namespace tiermap
