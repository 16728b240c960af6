#include "cluster/job/home_client.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cluster/job/node_fetch.hpp"
#include "config/size.hpp"
#include "platform/write_unless_closed.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Of one fetch: small enough that several are in flight, which the other side answers in the order it gets to them.
constexpr std::uint64_t most_fetched_at_once = 256 << 10;
constexpr std::size_t most_fetches_in_flight = 16;

DataSetLayout layout_over(std::uint32_t servers, const HomeClient::Form& form) {
  DataSetLayout layout;
  if (servers > 1 && form.bytes != 0) {
    layout.kind = DataSetLayout::Kind::striped;
    layout.servers = servers;
    layout.stripe_bytes = form.stripe_bytes;
  }
  return layout;
}

}  // namespace

HomeClient::HomeClient(JobClient& job, const Form& form)
    : job_(job),
      name_(form.name),
      bytes_(form.bytes),
      piece_bytes_(std::min(form.page_bytes, most_fetched_at_once)),
      homes_(std::make_unique<Homes>(DataSetPlacement(layout_over(job.servers(), form), form.table), form.placings)),
      counters_(std::make_shared<HomeCounters>(job.near_servers())) {
  if (homes_->placement.striped() && form.bytes <= StripeTable::most_stripes * form.stripe_bytes) {
    wanted_ = std::make_unique<WantedStripes>(form.bytes, form.stripe_bytes);
  }
  try {
    open_parts(form);
  } catch (const StoreError& error) {
    // What it was before it was placed is still there, and nobody is to have this one; nor what has no room elsewhere.
    if (form.placings > 0 || (form.make && error.code().value() == ENOSPC)) {
      destroy();
    }
    throw;
  }
  if (bytes_ == 0) {
    bytes_ = homes_->parts[0].bytes;
  }
}

void HomeClient::open_parts(const Form& form) {
  const std::uint64_t how = form.make ? 1 + form.placings : 0;
  const std::uint32_t servers = homes_->placement.striped() ? job_.servers() : 1;
  for (std::uint32_t server = 0; server < servers; ++server) {
    const std::uint64_t here = homes_->placement.local_bytes_of(server, form.bytes);
    const WireReply reply = job_.ask(server, JobRequest::open, {here, how, 0, 0}, form.name);
    const auto& [handle, sequence, bytes, read_nanoseconds] = reply.words;
    homes_->parts.emplace_back(handle, bytes, sequence);
    if (form.make && bytes != here) {
      throw StoreError(EEXIST, "job " + quote_value(job_.place().name) + ": vector " + quote_value(form.name) +
                                   " was to be made before with other sizes, which failed: choose another name, or the "
                                   "same number of elements");
    }
    homes_->scores.add_server(read_nanoseconds == 0
                                  ? nullptr
                                  : std::make_shared<ScoreSender>(
                                        job_.connection(server), static_cast<std::uint16_t>(JobRequest::score), handle),
                              read_nanoseconds);
  }
}

std::string HomeClient::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void HomeClient::see_of_server(std::uint32_t server, std::uint64_t sequence) noexcept {
  std::atomic<std::uint64_t>& seen = homes_->parts[server].seen;
  std::uint64_t before = seen.load(std::memory_order_acquire);
  while (before < sequence && !seen.compare_exchange_weak(before, sequence, std::memory_order_acq_rel)) {
  }
}

int HomeClient::failed(std::uint32_t server, const WireReply& reply) {
  try {
    job_.require(server, reply);
  } catch (const StoreError& error) {
    const std::lock_guard lock(mutex_);
    failure_ = error.what();
  }
  return reply.status < 0 ? reply.status : -EIO;
}

void HomeClient::fail_here(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = "job " + quote_value(job_.place().name) + ": vector " + quote_value(name_) + ": " + why;
  }
  tell_once();
}

/// Who touches a page hears of it as a signal, and has no other way to learn why.
void HomeClient::tell_once() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(told_, true)) {
    tell_unless_closed("tiermap: shared data '" + name_ + "': " + failure_ + "\n");
  }
}

std::uint64_t HomeClient::seen(std::uint64_t offset) const noexcept {
  return homes_->parts[homes_->placement.server(offset, 0)].seen.load(std::memory_order_acquire);
}

void HomeClient::note_fetched(std::uint32_t server, std::uint64_t offset, std::uint64_t bytes) noexcept {
  counters_->fetches.fetch_add(1, std::memory_order_relaxed);
  counters_->note_fetched(server, bytes);
  if (wanted_ != nullptr) {
    wanted_->add(offset, bytes);
  }
}

int HomeClient::fetch(std::span<const Wanted> ranges, const Arrived& arrived) {
  return fetch(ranges, arrived, *this);
}

int HomeClient::fetch(std::span<const Wanted> ranges, const Arrived& arrived, HomeClient& accountant) {
  struct Asked {
    Wanted piece;
    std::uint32_t server;
    WireCall call;
  };
  std::deque<Asked> asked;
  int result = 0;
  const auto finish_first = [&] {
    Asked& first = asked.front();
    const WireReply& reply = first.call.wait();
    if (reply.status != 0 || reply.body.bytes().size() != first.piece.bytes.size()) {
      result = result == 0 ? failed(first.server, reply) : result;
      tell_once();
    } else {
      see_of_server(first.server, reply.words[0]);
      std::memcpy(first.piece.bytes.data(), reply.body.bytes().data(), first.piece.bytes.size());
      if (arrived) {
        arrived(first.piece, reply.words[0]);
      }
    }
    asked.pop_front();
  };
  for (auto [bytes, offset] : ranges) {
    while (!bytes.empty() && result == 0) {
      const std::uint64_t run =
          homes_->placement.run(offset, std::min<std::uint64_t>(bytes.size(), most_fetched_at_once));
      const std::uint32_t server = homes_->placement.server(offset, 0);
      asked.push_back({{bytes.first(run), offset},
                       server,
                       job_.start(server, JobRequest::fetch,
                                  {homes_->parts[server].handle, homes_->placement.local_offset(offset, 0), run, 0})});
      accountant.note_fetched(server, offset, run);
      bytes = bytes.subspan(run);
      offset += run;
      if (asked.size() >= most_fetches_in_flight) {
        finish_first();
      }
    }
  }
  while (!asked.empty()) {
    finish_first();
  }
  return result;
}

void HomeClient::join_tree() {
  for (std::uint32_t server = 0; server < homes_->parts.size(); ++server) {
    job_.relay().count(server, static_cast<std::uint32_t>(homes_->parts[server].handle), counters_);
  }
}

int HomeClient::fetch_by_tree(std::span<std::byte> buffer, std::uint64_t offset) {
  if (offset % piece_bytes_ != 0) {
    return fetch(buffer, offset);
  }
  struct Pulled {
    std::span<std::byte> bytes;
    std::uint64_t offset;
    std::uint32_t server;
    std::shared_ptr<Pull> pull;
  };
  std::deque<Pulled> pulled;
  int result = 0;
  const auto finish_first = [&] {
    Pulled& first = pulled.front();
    const WireReply& reply = first.pull->wait();
    if (reply.status == 0) {
      see_of_server(first.server, reply.words[0]);
      std::memcpy(first.bytes.data(), reply.body.bytes().data(), first.bytes.size());
    } else if (result == 0) {
      result = fetch(first.bytes, first.offset);
    }
    pulled.pop_front();
  };
  while (!buffer.empty() && result == 0) {
    const auto run = static_cast<std::uint32_t>(std::min<std::uint64_t>(buffer.size(), piece_bytes_));
    const std::uint32_t server = homes_->placement.server(offset, 0);
    const Piece piece{server, static_cast<std::uint32_t>(homes_->parts[server].handle),
                      homes_->placement.local_offset(offset, 0), run};
    pulled.push_back({buffer.first(run), offset, server,
                      job_.relay().start(piece, homes_->parts[server].seen.load(std::memory_order_acquire))});
    buffer = buffer.subspan(run);
    offset += run;
    if (pulled.size() >= most_fetches_in_flight) {
      finish_first();
    }
  }
  while (!pulled.empty()) {
    finish_first();
  }
  return result;
}

int HomeClient::fetch_by_node(std::span<std::byte> buffer, std::uint64_t offset) {
  NodeCache* const cache = job_.node_cache();
  if (cache == nullptr || offset % home_block_bytes != 0) {
    return fetch(buffer, offset);
  }
  for (; !buffer.empty(); offset += NodeFetch::most_bytes) {
    const auto part = buffer.first(std::min<std::uint64_t>(buffer.size(), NodeFetch::most_bytes));
    if (const int result = NodeFetch(*this, *cache, part, offset).run(); result != 0) {
      return result;
    }
    buffer = buffer.subspan(part.size());
  }
  return 0;
}

std::vector<ByteRange> HomeClient::news() {
  std::vector<WireCall> calls;
  calls.reserve(homes_->parts.size());
  for (std::uint32_t server = 0; server < homes_->parts.size(); ++server) {
    calls.push_back(
        job_.start(server, JobRequest::changes, {homes_->parts[server].handle, homes_->parts[server].sequence, 0, 0}));
    counters_->questions.fetch_add(1, std::memory_order_relaxed);
  }
  std::vector<ByteRange> ranges;
  for (std::uint32_t server = 0; server < homes_->parts.size(); ++server) {
    const WireReply& reply = calls[server].wait();
    job_.require(server, reply);
    add_news(server, reply.body.bytes(), ranges);
    counters_->news_bytes.fetch_add(reply.body.bytes().size(), std::memory_order_relaxed);
  }
  // Only now: who asks again after a failure is told the same again.
  for (std::uint32_t server = 0; server < homes_->parts.size(); ++server) {
    homes_->parts[server].sequence = calls[server].wait().words[0];
    see_of_server(server, homes_->parts[server].sequence);
  }
  return ranges;
}

/// From where blocks are on their server to where they are in the whole.
void HomeClient::add_news(std::uint32_t server, std::span<const std::byte> body, std::vector<ByteRange>& ranges) const {
  for (; body.size() >= sizeof(BlockRun); body = body.subspan(sizeof(BlockRun))) {
    BlockRun run;
    std::memcpy(&run, body.data(), sizeof(run));
    std::uint64_t local = run.first * home_block_bytes;
    std::uint64_t left = run.count * home_block_bytes;
    while (left > 0) {
      const std::uint64_t here = homes_->placement.run(local, left);
      const std::uint64_t whole = homes_->placement.whole_offset(server, local);
      if (whole < bytes_) {
        ranges.push_back({whole, std::min(here, bytes_ - whole)});
      }
      local += here;
      left -= here;
    }
  }
}

HomeClient::Version HomeClient::fetch_to_exchange(std::span<std::byte> buffer, std::uint64_t offset) {
  const std::uint32_t server = homes_->placement.server(offset, 0);
  WireCall call =
      job_.start(server, JobRequest::fetch,
                 {homes_->parts[server].handle, homes_->placement.local_offset(offset, 0), buffer.size(), 0});
  note_fetched(server, offset, buffer.size());
  const WireReply& reply = call.wait();
  job_.require(server, reply);
  std::memcpy(buffer.data(), reply.body.bytes().data(), std::min(buffer.size(), reply.body.bytes().size()));
  see_of_server(server, reply.words[0]);
  return {reply.words[0], homes_->placings};
}

bool HomeClient::exchange(std::span<std::byte> buffer, std::uint64_t offset, const std::vector<ByteRange>& changed,
                          std::span<const std::byte> content, Version& version) {
  if (version.placings != homes_->placings) {
    counters_->exchanges.fetch_add(1, std::memory_order_relaxed);
    counters_->retries.fetch_add(1, std::memory_order_relaxed);
    version = fetch_to_exchange(buffer, offset);
    return false;
  }
  const std::uint32_t server = homes_->placement.server(offset, 0);
  const std::uint64_t local = homes_->placement.local_offset(offset, 0);
  ChangeList list;
  for (const ByteRange& range : changed) {
    list.add(local + range.offset, content.subspan(range.offset, range.bytes));
  }
  // Of many small changes: as nobody else has changed anything beside them, all of it is as good.
  if (list.encoded().size() > most_exchanged_bytes + ChangeList::run_overhead) {
    list = ChangeList();
    list.add(local, content);
  }
  WireCall call = job_.start(server, JobRequest::exchange,
                             {homes_->parts[server].handle, local, buffer.size(), version.sequence}, list.encoded());
  counters_->exchanges.fetch_add(1, std::memory_order_relaxed);
  counters_->note_sent(server, list.encoded().size());
  if (wanted_ != nullptr) {
    wanted_->add(offset, list.changed_bytes());
  }
  const WireReply& reply = call.wait();
  if (reply.status == -EAGAIN && reply.body.bytes().size() == buffer.size()) {
    counters_->retries.fetch_add(1, std::memory_order_relaxed);
    counters_->note_fetched(server, buffer.size());
    std::memcpy(buffer.data(), reply.body.bytes().data(), buffer.size());
    version.sequence = reply.words[0];
    see_of_server(server, version.sequence);
    return false;
  }
  job_.require(server, reply);
  see_of_server(server, reply.words[0]);
  counters_->changed_bytes.fetch_add(list.changed_bytes(), std::memory_order_relaxed);
  return true;
}

void HomeClient::destroy() {
  for (std::uint32_t server = 0; server < homes_->parts.size(); ++server) {
    job_.ask(server, JobRequest::destroy, {homes_->parts[server].handle, 0, 0, 0}, "");
  }
}

void HomeClient::leave_tree() {
  for (std::uint32_t server = 0; server < homes_->parts.size(); ++server) {
    job_.relay().forget(server, static_cast<std::uint32_t>(homes_->parts[server].handle));
  }
}

// Nothing of it comes home later, whatever has thrown: who drops frames next, or moves the homes, relies on it.
ChangeSender::~ChangeSender() {
  for (auto& [server, call] : calls_) {
    call.wait();
  }
  note_sending(false);
}

void ChangeSender::add(std::uint64_t offset, std::span<const std::byte> bytes) {
  note_sending(true);
  if (home_.wanted_ != nullptr) {
    home_.wanted_->add(offset, bytes.size());
  }
  while (!bytes.empty()) {
    const std::uint64_t run =
        home_.homes_->placement.run(offset, std::min<std::uint64_t>(bytes.size(), most_list_bytes));
    const std::uint32_t server = home_.homes_->placement.server(offset, 0);
    if (lists_[server].encoded().size() + run + ChangeList::run_overhead > 2 * most_list_bytes) {
      send(server);
    }
    lists_[server].add(home_.homes_->placement.local_offset(offset, 0), bytes.first(run));
    bytes = bytes.subspan(run);
    offset += run;
  }
}

void ChangeSender::send(std::uint32_t server) {
  ChangeList list = std::exchange(lists_[server], ChangeList());
  calls_.emplace_back(server, home_.job_.start(server, JobRequest::change,
                                               {home_.homes_->parts[server].handle, 0, 0, 0}, list.encoded()));
  home_.counters_->sends.fetch_add(1, std::memory_order_relaxed);
  home_.counters_->changed_bytes.fetch_add(list.changed_bytes(), std::memory_order_relaxed);
  home_.counters_->note_sent(server, list.encoded().size());
  if (calls_.size() >= most_in_flight) {
    wait_for_first();
  }
}

void ChangeSender::wait_for_first() {
  const WireReply& reply = calls_.front().second.wait();
  if (reply.status != 0) {
    result_ = home_.failed(calls_.front().first, reply);
  } else {
    home_.see_of_server(calls_.front().first, reply.words[0]);
  }
  calls_.pop_front();
}

int ChangeSender::finish() {
  for (std::uint32_t server = 0; server < lists_.size(); ++server) {
    if (!lists_[server].empty()) {
      send(server);
    }
  }
  while (!calls_.empty()) {
    wait_for_first();
  }
  note_sending(false);
  return std::exchange(result_, 0);
}

}  // namespace tiermap
