// One peer: what waits for replies, and whether the peer is still there.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/wire/introduction.hpp"
#include "cluster/wire/pending_call.hpp"
#include "cluster/wire/wire.hpp"
#include "cluster/wire/wire_worker.hpp"

namespace tiermap {

class UcxConnection final : public WireConnection, public std::enable_shared_from_this<UcxConnection> {
 public:
  using Driving = WireWorker::Driving;

  /// Of who has connected, or else of who has let somebody in. Both are open once they have met over UCX.
  enum class Side { client, server };
  UcxConnection(std::shared_ptr<WireWorker> worker, std::string peer, Side side, Introduced introduced);

  WireCall start(WireMessage request, std::optional<std::chrono::milliseconds> patience) override;
  WireCall start(WireMessage request) override;
  void start_then(WireMessage request, std::optional<std::chrono::milliseconds> patience,
                  std::function<void(WireReply)> done) override;
  int get(const RemoteMemory& memory, std::uint64_t offset, std::span<std::byte> buffer) override;
  const std::string& user() const noexcept override { return user_; }
  const std::string& peer() const noexcept override { return peer_; }
  std::uint32_t largest_body() const noexcept override { return largest_body_; }
  bool open() const noexcept override { return open_.load(std::memory_order_acquire); }
  std::string failure() const override;
  void close(const std::string& reason) override;

  /// Completed when the peer has answered over UCX: with status 0, or an error and failure().
  const std::shared_ptr<PendingCall>& opened() const noexcept { return opened_; }
  void answer(std::uint64_t id, WireMessage message);

  // What follows is the driver's.
  /// Says over UCX who it is: the client with its ticket, then the server that it has found it.
  void meet();
  void arrive(const Driving& driving, const std::shared_ptr<const std::byte[]>& frame, std::size_t bytes);
  void note_sent(std::uint64_t now) noexcept { last_sent_ = now; }
  /// Whether the peer is still there, and what has waited long enough.
  void tick(const Driving& driving, std::uint64_t now);
  /// Everything in flight fails with `error_number`. Once; later ones do nothing.
  void fail(const Driving& driving, int error_number, const std::string& reason);
  bool heard() const noexcept { return heard_; }
  /// The peer is to hear something so often, by its timeout or by this side's.
  std::uint64_t ping_every() const noexcept { return ping_every_; }

  ucp_ep_h endpoint = nullptr;  ///< Null once it is given up.

 private:
  enum class Stage { meeting, open, closed };

  std::uint64_t add_pending(const std::shared_ptr<PendingCall>& call);
  /// Whether it was ever asked; null if nobody waits for it any more.
  std::pair<bool, std::shared_ptr<PendingCall>> take_pending(std::uint64_t number);
  std::vector<std::shared_ptr<PendingCall>> take_late(std::uint64_t now);
  std::shared_ptr<PendingCall> make_call(std::optional<std::chrono::milliseconds> patience) const;
  bool wait_for_room() const;
  void send_request(const std::shared_ptr<PendingCall>& call, WireMessage request);
  void post_control(ControlKind kind, const WireWords& words, std::span<const std::byte> body);

  void take_request(const Driving& driving, const ArrivedMessage& message, WireBody body);
  void take_reply(const Driving& driving, const ArrivedMessage& message, WireBody body);
  void take_control(const Driving& driving, const ArrivedMessage& message);
  void become_open();
  bool get_rkey(const RemoteMemory& memory, ucp_rkey_h& rkey);

  const std::shared_ptr<WireWorker> worker_;
  const std::string peer_;
  const Side side_;
  const std::string user_;
  const WireProof ticket_;
  const std::shared_ptr<PendingCall> opened_;
  std::atomic<bool> open_{false};
  const std::uint32_t largest_body_;

  // The driver's.
  Stage stage_ = Stage::meeting;
  bool heard_ = false;
  std::uint64_t last_heard_;
  std::uint64_t last_sent_;
  std::uint64_t began_;
  const std::uint64_t ping_every_;
  std::map<std::vector<std::byte>, ucp_rkey_h> rkeys_;
  std::vector<std::shared_ptr<PendingCall>> gets_;
  std::atomic<std::uint32_t> requests_here_{0};  ///< Of the peer's, unanswered.

  mutable FutexLock lock_;  ///< Guards what follows.
  bool closed_ = false;
  std::string failure_;
  std::uint64_t next_number_ = 1;
  std::uint64_t oldest_answered_ = UINT64_MAX;  ///< Of those that were answered since the last tick.
  std::unordered_map<std::uint64_t, std::shared_ptr<PendingCall>> pending_;  ///< By number.
};

}  // namespace tiermap
