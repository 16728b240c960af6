#include "cluster/server/memory_server.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// What is copied from DRAM at once, by the wire's own thread.
constexpr std::uint64_t quick_bytes = 256 << 10;

/// What a connection has attached. Used by the wire's handlers alone.
struct Client {
  std::uint64_t next_handle = 1;
  std::map<std::uint64_t, std::shared_ptr<Attachment>> attachments;
};

Client& client_of(WireConnection& connection) {
  if (connection.state == nullptr) {
    connection.state = std::make_shared<Client>();
  }
  return *static_cast<Client*>(connection.state.get());
}

bool names_attachment(MemoryRequest kind) noexcept {
  return kind >= MemoryRequest::detach && kind <= MemoryRequest::announce;
}

/// What a request is about, and how many bytes it takes.
struct MemoryTask {
  TaskRange range;
  std::uint64_t bytes = 0;
};

MemoryTask task_of(const WireRequest& request, const void* set) noexcept {
  const WireWords& words = request.words();
  const std::uint64_t body = request.body().size();
  switch (static_cast<MemoryRequest>(request.kind())) {
    case MemoryRequest::read:
      return {TaskRange::reading(set, words[1], words[2]), words[2]};
    case MemoryRequest::write:
    case MemoryRequest::mend:
      return {TaskRange::writing(set, words[1], body), body};
    case MemoryRequest::punch:
      return {TaskRange::writing(set, words[1], words[2]), words[2]};
    case MemoryRequest::resize:
      return {TaskRange::writing_all(set), UINT64_MAX};
    case MemoryRequest::list:
    case MemoryRequest::renew:
    case MemoryRequest::announce:
    case MemoryRequest::score:
    case MemoryRequest::keep:
      return {TaskRange(), 0};
    default:  // They take a while, and what is written meanwhile is no business of theirs.
      return {TaskRange(), UINT64_MAX};
  }
}

bool changes(MemoryRequest kind) noexcept {
  return kind == MemoryRequest::write || kind == MemoryRequest::resize || kind == MemoryRequest::punch ||
         kind == MemoryRequest::renew || kind == MemoryRequest::keep || kind == MemoryRequest::announce;
}

}  // namespace

MemoryServer::MemoryServer(ServerOptions options)
    : options_(std::move(options)),
      catalog_(options_),
      workers_(std::make_unique<TaskWorkers>(options_.workers)),
      jobs_(std::make_unique<Jobs>(catalog_, *workers_)) {
  WireOptions wire;
  wire.timeout = options_.timeout;
  wire.one_sided = options_.one_sided;
  wire.secret_required = !options_.users.empty();
  const SocketAddress address = resolve(options_.listen);
  wire.loopback = address.loopback();
  wire.family = address.family();
  WireService* const service = this;
  wire_ = std::make_unique<Wire>(wire, service);
  port_ = wire_->listen(options_.listen);
}

MemoryServer::~MemoryServer() {
  wire_.reset();
  workers_.reset();  // Which may still have something to answer for a job.
  jobs_.reset();
}

std::vector<std::string> MemoryServer::end() {
  wire_.reset();
  workers_.reset();
  jobs_.reset();
  return catalog_.settle();
}

std::optional<std::string> MemoryServer::secret_of(std::string_view user) {
  const auto found = options_.users.find(std::string(user));
  return found == options_.users.end() ? std::nullopt : std::optional(found->second.secret);
}

void MemoryServer::on_closed(const std::shared_ptr<WireConnection>& connection) {
  jobs_->on_closed(connection);
  // Stores may take long to let go of.
  workers_->give(TaskSize::large, [this, state = std::exchange(connection->state, nullptr)]() mutable {
    state.reset();
    catalog_.drop_abandoned();
  });
}

void MemoryServer::on_request(WireRequest request) {
  if (Jobs::serves(request.kind())) {
    jobs_->on_request(std::move(request));
    return;
  }
  const auto kind = static_cast<MemoryRequest>(request.kind());
  Client& client = client_of(*request.from());
  std::shared_ptr<Attachment> attachment;
  if (names_attachment(kind)) {
    const auto found = client.attachments.find(request.words()[0]);
    if (found == client.attachments.end()) {
      request.refuse(-EBADF, "this data set is not attached: open it again");
      return;
    }
    attachment = found->second;
    if (changes(kind) && !attachment->writing()) {
      request.refuse(-EACCES, "this data set is attached read-only: open it to write");
      return;
    }
  }
  const MemoryTask task = task_of(request, attachment == nullptr ? nullptr : &attachment->set());
  // What lies in DRAM is copied at once, unless something larger comes before it.
  const bool quick = attachment != nullptr && attachment->set().in_memory &&
                     (kind == MemoryRequest::read || kind == MemoryRequest::write) && task.bytes <= quick_bytes &&
                     !workers_->conflicts(task.range);
  if (kind == MemoryRequest::attach) {
    attach(request);
  } else if (kind == MemoryRequest::detach) {
    detach(std::move(request), std::move(attachment));
  } else if (quick) {
    answer(request, attachment, {});
  } else {
    const std::weak_ptr<const void> maker = request.from()->state;
    workers_->give(task.range, task_size(task.bytes),
                   [this, shared = std::make_shared<WireRequest>(std::move(request)), attachment, maker] {
                     answer(*shared, attachment, maker);
                   });
  }
}

void MemoryServer::attach(WireRequest& request) {
  try {
    Client& client = client_of(*request.from());
    const std::shared_ptr<Attachment> attachment = catalog_.attach(
        request.from()->user(), request.from()->peer(), request.text(), request.words()[0] != 0, request.from()->state);
    const std::uint64_t handle = client.next_handle++;
    client.attachments.emplace(handle, attachment);
    const std::vector<std::byte> facts = encode(catalog_.facts(attachment->set()));
    WireMessage answer = WireMessage::answer(0, {handle, 0, 0, 0}, facts.size());
    std::ranges::copy(facts, answer.body().data());
    request.reply(std::move(answer));
  } catch (const CatalogRefusal& refusal) {
    request.refuse(refusal.status, refusal.text);
  }
}

/// The reply says that others may have it, or that there is room again: what is still under way holds it until then.
void MemoryServer::detach(WireRequest request, std::shared_ptr<Attachment> attachment) {
  client_of(*request.from()).attachments.erase(request.words()[0]);
  const bool temporary = catalog_.is_temporary(attachment->set());
  attachment->at_end([shared = std::make_shared<WireRequest>(std::move(request))] { shared->reply(0); });
  if (temporary) {  // Dropped with it, which may take long.
    workers_->give(TaskSize::large, [held = std::move(attachment)]() mutable { held.reset(); });
  }
}

void MemoryServer::create(WireRequest& request, const std::weak_ptr<const void>& client) {
  const std::optional<CreateForm> form = decode_form(request.body());
  if (!form.has_value()) {
    request.refuse(-EPROTO, "this is no form to create a data set with");
    return;
  }
  if (request.words()[1] != 0) {
    catalog_.create_temporary(request.from()->user(), *form, request.words()[0], client);
    if (client.expired()) {  // He has gone meanwhile, and what he left was dropped before.
      catalog_.drop_abandoned();
    }
  } else {
    catalog_.create(request.from()->user(), *form, request.words()[0]);
  }
  request.reply(0);
}

void MemoryServer::list(WireRequest& request) {
  const std::string text = encode(catalog_.list(request.from()->user(), request.text()));
  if (text.size() > request.from()->largest_body()) {
    request.refuse(-EMSGSIZE, "there are more data sets than one message can list: ask for one by its name");
    return;
  }
  WireMessage answer = WireMessage::answer(0, {}, text.size());
  std::ranges::copy(std::as_bytes(std::span(text)), answer.body().data());
  request.reply(std::move(answer));
}

void MemoryServer::read(WireRequest& request, Attachment& attachment) {
  const std::uint64_t bytes = request.words()[2];
  if (bytes > request.from()->largest_body()) {
    request.refuse(-EMSGSIZE, "more than one message holds: ask for less at once");
    return;
  }
  WireMessage answer = WireMessage::answer(0, {}, bytes);
  const std::int64_t got = attachment.set().store->read(answer.body().data(), bytes, request.words()[1]);
  if (got == -damaged_error) {
    request.refuse(-damaged_error, attachment.set().damage());
    return;
  }
  if (got < 0) {
    request.reply(static_cast<std::int32_t>(got));
    return;
  }
  answer.cut_body(static_cast<std::size_t>(got));
  request.reply(std::move(answer));
}

void MemoryServer::write(WireRequest& request, Attachment& attachment) {
  const std::span<const std::byte> body = request.body();
  const std::uint64_t offset = request.words()[1];
  const std::uint64_t size = attachment.set().store->size_bytes();
  if (offset > size || body.size() > size - offset) {  // A store that grows would, and nobody has counted that.
    request.refuse(-ENOSPC, "more than the data set has room for: make it longer first");
    return;
  }
  std::size_t done = 0;
  while (done < body.size()) {  // What has no room is told as that, also where a part of it had some.
    const std::int64_t put = attachment.set().store->write(body.data() + done, body.size() - done, offset + done);
    if (put == -damaged_error) {
      request.refuse(-damaged_error, attachment.set().damage());
      return;
    }
    if (put <= 0) {
      request.reply(put < 0 ? static_cast<std::int32_t>(put) : -EIO);
      return;
    }
    done += static_cast<std::size_t>(put);
  }
  request.reply(0, {done, 0, 0, 0});
}

void MemoryServer::answer(WireRequest& request, const std::shared_ptr<Attachment>& attachment,
                          const std::weak_ptr<const void>& client) {
  const WireWords words = request.words();
  try {
    switch (static_cast<MemoryRequest>(request.kind())) {
      case MemoryRequest::list:
        return list(request);
      case MemoryRequest::create:
        return create(request, client);
      case MemoryRequest::drop:
        catalog_.drop(request.from()->user(), request.text());
        return request.reply(0);
      case MemoryRequest::read:
        return read(request, *attachment);
      case MemoryRequest::write:
        return write(request, *attachment);
      case MemoryRequest::flush:
        return request.reply(attachment->set().store->flush());
      case MemoryRequest::resize:
        return request.reply(catalog_.resize(attachment->set(), words[1], words[2]));
      case MemoryRequest::punch:
        return request.reply(attachment->set().store->punch(words[1], words[2]));
      case MemoryRequest::renew:
        attachment->set().announce(words[1]);
        attachment->set().version = words[1];
        return request.reply(0);
      case MemoryRequest::announce:
        attachment->set().announce(words[1]);
        return request.reply(0);
      case MemoryRequest::mend: {
        const std::shared_ptr<CheckedStore>& checked = attachment->set().checked;
        return request.reply(checked == nullptr ? -ENOTSUP : checked->mend(words[1], request.body()));
      }
      case MemoryRequest::score:
        return request.reply(attachment->set().take_scores(request.body(), request.from().get()));
      case MemoryRequest::keep:
        catalog_.keep(attachment->set());
        return request.reply(0);
      case MemoryRequest::attach:
      case MemoryRequest::detach:
        break;
    }
    request.refuse(-ENOSYS, "this server does not know what was asked for: install the same Tiermap on both");
  } catch (const CatalogRefusal& refusal) {
    request.refuse(refusal.status, refusal.text);
  } catch (const std::exception& error) {
    request.refuse(-EIO, error.what());
  }
}

}  // namespace tiermap
