// Processes that talk to each other: requests and replies, many in flight, over UCX, whose business it is whether the
// bytes go through RDMA, shared memory or TCP (UCX_TLS chooses, as for every program that uses UCX).
//
// A Wire is a process's end of all its connections. It may listen, connect, or both; once a connection is open its two
// ends are alike, and either may send requests. This is the whole of it:
//
//     class Echo : public WireService {                          // What answers requests.
//       void on_request(WireRequest request) override {
//         WireMessage answer = WireMessage::answer(0, request.words(), request.body().size());
//         std::ranges::copy(request.body(), answer.body().data());
//         request.reply(std::move(answer));
//       }
//     };
//
//     Echo echo;                                                 // One process:
//     Wire server(WireOptions{}, &echo);
//     const std::uint16_t port = server.listen({"127.0.0.1", 0});
//
//     Wire wire(WireOptions{});                                  // Another:
//     const auto connection = wire.connect({"127.0.0.1", port}, WireLogin{});
//     WireCall first = connection->start(WireMessage(kind, {1, 2, 3, 4}, body));
//     WireCall second = connection->start(WireMessage(kind));    // Both are on their way.
//     const WireReply& reply = first.wait();                     // reply.status, reply.words, reply.body
//
// What is promised:
// - Every request gets exactly one reply: the peer's; or a status: -ECONNRESET when the connection ends first,
//   -ETIMEDOUT when its patience does, -EBADMSG when the reply is not what was sent. A request that the peer drops
//   without a reply is answered -EIO. Nothing waits for ever: a message that is damaged so that nobody knows whose it
//   is ends the connection.
// - A peer that died, hangs or is cut off is noticed within WireOptions::timeout: each side says something a few times
//   in that time, and one that was silent for so long is gone. on_closed() says so, once a connection.
// - Requests of one connection arrive in the order in which start() was called, by one thread, if their starts were
//   ordered. Replies come as the peer makes them. After a failure it is not known whether a request was carried out.
// - Every message carries a checksum (xxh3) of header and body, which the receiver verifies: a request that is not
//   intact is answered -EBADMSG and not handed on, a reply becomes that.
// - Before UCX hears of a peer both sides have proved that they know the user's secret, without sending it, over a
//   plain socket (introduction.hpp); different versions refuse each other by number. What follows is neither encrypted
//   nor signed: docs/cluster.md.
// - Bodies have at most WireOptions::largest_body bytes, both ways; a peer that sends more, sends what is no
// message, or
//   has more than most_requests_in_flight unanswered is cut off.
// - Small messages to one peer that wait for the same moment go out as one frame.
//
// Threads: everything here may be called from any thread, but for what says otherwise. A thread of the wire's own
// drives it; a thread that waits for a reply drives it meanwhile, so that a single request costs no change of threads.
// Handlers (WireService, and what start_then() takes) are called by the driving thread, which may be any that waits:
// they must be quick, must not throw, must not wait for a reply (wait() in one returns -EDEADLK at once), and may start
// requests, reply, and hand a WireRequest to another thread. No page of a region may be touched in them. In the child
// of a fork() every call fails with -ECONNRESET at once, nothing that is destroyed there is felt by anybody, and no
// wire is opened (ucx_use.hpp).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/wire/address.hpp"
#include "cluster/wire/message.hpp"

namespace tiermap {

class WireConnection;
class WireWorker;
struct PendingCall;

/// Of requests on one connection that wait for a reply, either way.
inline constexpr std::uint32_t most_requests_in_flight = 4096;

struct WireOptions {
  /// A peer that says nothing for so long is gone, and a request that has no patience of its own waits no longer. From
  /// 10 ms to an hour.
  std::chrono::milliseconds timeout{5000};
  /// Of one message's body. A connection takes the smaller of both ends'.
  std::uint32_t largest_body = 4 << 20;
  /// Who listens lets nobody in who does not prove a secret. Only a listener on a loopback address may say false.
  bool secret_required = false;
  /// Makes register_memory() and get() work. UCX then serves reads and writes of ANY of this process's memory to
  /// whoever can connect, before any proof, over transports where it does so in software (TCP): for networks where
  /// everybody may read everything.
  bool one_sided = false;
  /// Who listens does so on a loopback address, and so do all to whom it connects. UCX then has no other address of
  /// this machine either, unless UCX_NET_DEVICES says which: it listens, also where nobody is to connect.
  bool loopback = false;
  /// Of all addresses at which this wire listens or connects; others are refused.
  AddressFamily family = AddressFamily::ipv4;
};

/// As whom to connect. No secret: only where none is asked for.
struct WireLogin {
  std::string user;
  std::string secret;
};

/// Bytes of a message that came in, kept for as long as a copy of this lives.
class WireBody {
 public:
  WireBody() = default;
  WireBody(std::shared_ptr<const std::byte[]> frame, std::span<const std::byte> bytes)
      : frame_(std::move(frame)), bytes_(bytes) {}
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  std::string text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::shared_ptr<const std::byte[]> frame_;
  std::span<const std::byte> bytes_;
};

struct WireReply {
  std::int32_t status = 0;  ///< 0, or a negative errno value: the peer's, or what became of the request.
  WireWords words{};
  WireBody body;
};

/// A request on its way. Movable; who drops it does not want the reply.
class WireCall {
 public:
  explicit WireCall(std::shared_ptr<PendingCall> pending) noexcept : pending_(std::move(pending)) {}
  /// The reply, once it is there. May be called again.
  const WireReply& wait();

 private:
  std::shared_ptr<PendingCall> pending_;
};

/// A request that came in, until it is answered. Movable. One that is dropped answers -EIO.
class WireRequest {
 public:
  WireRequest(std::shared_ptr<WireConnection> from, const MessageHeader& header, WireBody body) noexcept;
  WireRequest(WireRequest&& other) noexcept = default;
  WireRequest& operator=(WireRequest&& other) noexcept;
  ~WireRequest();

  std::uint16_t kind() const noexcept { return header_.kind; }
  const WireWords& words() const noexcept { return header_.words; }
  std::span<const std::byte> body() const noexcept { return body_.bytes(); }
  std::string text() const { return body_.text(); }
  const std::shared_ptr<WireConnection>& from() const noexcept { return from_; }

  /// Once. From any thread, at any time; what a peer that is gone would have been told is dropped.
  void reply(WireMessage answer);
  void reply(std::int32_t status, const WireWords& words = {}) { reply(WireMessage::answer(status, words)); }
  /// With one line of text as body.
  void refuse(std::int32_t status, std::string_view text);

 private:
  std::shared_ptr<WireConnection> from_;
  MessageHeader header_;
  WireBody body_;
};

/// What answers a wire's peers. See above for what its members must not do.
class WireService {
 public:
  virtual ~WireService() = default;
  /// The secret of a user who wants in; nothing if there is no such user. With WireOptions::secret_required only.
  /// Called by a thread that does not drive, at the same time as the others.
  virtual std::optional<std::string> secret_of(std::string_view user) {
    (void)user;
    return std::nullopt;
  }
  virtual void on_request(WireRequest request) = 0;
  /// Nothing more comes from there; `connection->failure()` says why.
  virtual void on_closed(const std::shared_ptr<WireConnection>& connection) { (void)connection; }
};

/// Memory of a peer that get() reads: what its WireMemory::key() said, as the peer sent it.
struct RemoteMemory {
  std::uint64_t address = 0;
  std::vector<std::byte> key;
};

/// One peer. Lives on, closed, for as long as somebody has it.
class WireConnection {
 public:
  virtual ~WireConnection() = default;
  WireConnection(const WireConnection&) = delete;
  WireConnection& operator=(const WireConnection&) = delete;

  /// Sends a request. Never fails: what goes wrong is in the reply. `patience` is how long to wait for the reply, from
  /// when it was asked or something that was asked before was answered last; nothing: as long as the peer is alive.
  /// Where most_requests_in_flight wait for replies already, it returns once that is one fewer; in a handler the reply
  /// is -EAGAIN then, as it is of start_then().
  virtual WireCall start(WireMessage request, std::optional<std::chrono::milliseconds> patience) = 0;
  /// With the wire's timeout as patience.
  virtual WireCall start(WireMessage request) = 0;
  /// The same, with `done` called once instead of anybody waiting.
  virtual void start_then(WireMessage request, std::optional<std::chrono::milliseconds> patience,
                          std::function<void(WireReply)> done) = 0;
  /// start() and wait().
  WireReply call(WireMessage request) { return start(std::move(request)).wait(); }

  /// Reads a peer's registered memory without asking it, where the transport can (RDMA, shared memory); over others UCX
  /// has the peer's wire answer. No checksum. Returns 0 or a negative errno value (-ENOTSUP without
  /// WireOptions::one_sided); a peer that does not answer in time ends the connection. `buffer` must be plain memory.
  virtual int get(const RemoteMemory& memory, std::uint64_t offset, std::span<std::byte> buffer) = 0;

  /// Proved, or "" where no secret was asked for.
  virtual const std::string& user() const noexcept = 0;
  /// "10.0.0.7:40112".
  virtual const std::string& peer() const noexcept = 0;
  /// Of one body, both ways.
  virtual std::uint32_t largest_body() const noexcept = 0;
  virtual bool open() const noexcept = 0;
  /// Why it is closed, in one line; "" while it is open.
  virtual std::string failure() const = 0;
  /// Ends it: calls in flight fail, on_closed() follows. What was sent before is not waited for.
  virtual void close(const std::string& reason) = 0;

  /// For who serves: what belongs to this peer. Set and read in on_request() and on_closed() alone, or with a lock of
  /// the service's own.
  std::shared_ptr<void> state;

 protected:
  WireConnection() = default;
};

/// Memory that peers may read one-sidedly, for as long as this lives. The wire must live longer.
class WireMemory {
 public:
  WireMemory(std::shared_ptr<WireWorker> worker, void* handle, RemoteMemory key) noexcept;
  ~WireMemory();
  WireMemory(const WireMemory&) = delete;
  WireMemory& operator=(const WireMemory&) = delete;
  /// What a peer needs for get(): to be sent to it.
  const RemoteMemory& key() const noexcept { return key_; }

 private:
  std::shared_ptr<WireWorker> worker_;
  void* handle_;
  RemoteMemory key_;
};

class Wire {
 public:
  /// Throws StoreError where UCX cannot be loaded or finds no transport. `service` outlives the wire; without one,
  /// requests are answered -ENOSYS.
  explicit Wire(const WireOptions& options, WireService* service = nullptr);
  /// Closes everything; calls in flight fail. Handlers are not called any more once it returns.
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// Lets others connect to `address`; port 0 chooses a free one. Returns the port. Once. Throws StoreError for a port
  /// in use or an address that is not this machine's, OptionError for an address that is not loopback without
  /// secret_required.
  std::uint16_t listen(const HostAndPort& address);

  /// Returns once the peer has let us in. Throws StoreError within the timeout: the host does not resolve, nobody
  /// listens, no answer; another version; wrong user or secret; a server that does not know the secret.
  std::shared_ptr<WireConnection> connect(const HostAndPort& address, const WireLogin& login);

  /// Throws StoreError: without one_sided, or where memory cannot be registered.
  std::unique_ptr<WireMemory> register_memory(std::span<std::byte> memory);

 private:
  std::shared_ptr<WireWorker> worker_;
};

}  // namespace tiermap
