// UCX's worker and who drives it: one thread of its own, and whoever waits for a reply.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/wire/arrival_frames.hpp"
#include "cluster/wire/door.hpp"
#include "cluster/wire/introduction.hpp"
#include "cluster/wire/libraries.hpp"
#include "cluster/wire/ucx_use.hpp"
#include "cluster/wire/wire.hpp"
#include "platform/futex.hpp"

namespace tiermap {

class UcxConnection;

/// UCX is called by one thread at a time: the one that holds `mutex_`, the driver. All members that take a Driving are
/// for it alone, and so are UCX's callbacks, which come out of drive().
class WireWorker : public std::enable_shared_from_this<WireWorker> {
 public:
  /// Proof that the mutex is held.
  class Driving {
   public:
    Driving(const Driving&) = delete;
    Driving& operator=(const Driving&) = delete;

   private:
    friend class WireWorker;
    Driving() = default;
  };

  WireWorker(const WireOptions& options, WireService* service);
  ~WireWorker();
  WireWorker(const WireWorker&) = delete;
  WireWorker& operator=(const WireWorker&) = delete;

  /// Once the object has an owner.
  void start();
  /// Closes everything; nothing of UCX is called afterwards.
  void shut_down();

  std::uint16_t listen(const SocketAddress& address, const std::string& text);
  /// A connection to who has let us in; its `opened` is completed when we have met over UCX, too. Throws StoreError.
  std::shared_ptr<UcxConnection> connect(const SocketAddress& address, const std::string& text, const WireLogin& login);
  std::unique_ptr<WireMemory> register_memory(std::span<std::byte> memory);
  void unregister_memory(void* handle) noexcept;

  /// Queues a message; whoever drives sends it, this thread if nobody does.
  void post(const std::shared_ptr<UcxConnection>& connection, SealedMessage message);
  /// Drives until `call` is done, or sleeps while somebody else drives.
  void wait_for(PendingCall& call);
  /// Runs `body` as the driver: at once if this thread is it. False, and nothing is run, after shut_down().
  bool as_driver(const std::function<void(const Driving&)>& body);
  /// Not in the child of a fork(), which has none of the threads, and shares the sockets: there everything fails at
  /// once.
  bool is_here() const noexcept { return ::getpid() == process_; }
  bool is_driver() const noexcept { return driver_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

  const WireLibraries& libraries() const noexcept { return libraries_; }
  const WireOptions& options() const noexcept { return options_; }
  WireService* service() const noexcept { return service_; }
  std::uint64_t timeout_nanoseconds() const noexcept {
    return static_cast<std::uint64_t>(options_.timeout.count()) * 1'000'000U;
  }

  /// For a connection that is new: it may have to hear more often from this side than all others.
  void tick_soon() noexcept;
  /// For a connection that failed: its endpoint goes, and so does it.
  void drop(const Driving& driving, UcxConnection& connection);

 private:
  /// Who polls UCX; others sleep.
  enum class Poller : std::uint32_t { nobody, thread, waiter };
  /// Who was let in, until he shows his ticket over UCX.
  struct Expected {
    Introduced introduced;
    std::string peer;
    WireWorker* worker = nullptr;
    ucp_listener_h listener = nullptr;  ///< For him alone.
    bool reached = false;               ///< By somebody, whose ticket is still to be seen: nobody else is let in here.
    std::uint32_t late = 0;             ///< How often he has been found to be late.
  };
  /// Who shows one.
  struct Arrival {
    ucp_ep_h endpoint;
    WireProof ticket;
  };
  struct Outgoing {
    std::shared_ptr<UcxConnection> connection;
    SealedMessage message;
  };

  void open_context();
  void open_worker();
  void run();
  void poll_until_quiet();
  void sleep_until_something_comes();
  bool try_drive(const PendingCall* awaited);
  /// Until nothing comes, or `awaited` is done and there is much to make use of; where it `yields`, until somebody else
  /// would rather drive.
  unsigned drive(const Driving& driving, const PendingCall* awaited = nullptr, bool yields = false);
  void send_outbox(const Driving& driving);
  void send_frame(const Driving& driving, UcxConnection& connection, SealedMessage frame);
  void send_what_is_left();
  void tick();
  bool become(Poller poller) noexcept;
  bool take_over(const PendingCall& call) noexcept;
  void wake_thread() noexcept;
  /// What the door asks of us.
  std::uint16_t let_in(const Introduced& introduced, const SocketAddress& here, const SocketAddress& peer,
                       std::string& why_not);
  /// Of who shows a ticket over UCX.
  void take_arrival(ucp_ep_h endpoint, std::span<const std::byte> frame);
  void welcome_arrivals(const Driving& driving);
  void accept(Expected& expected, ucp_conn_request_h request);
  void forget_who_does_not_come(std::uint64_t now);
  ucs_status_t arrive(ucp_ep_h endpoint, const void* data, std::size_t bytes, bool whole);
  ucs_status_t make_endpoint(ucp_ep_params_t& parameters, ucp_ep_h& endpoint);

  static void on_connection_request(ucp_conn_request_h request, void* expected);
  static void on_endpoint_error(void* worker, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t on_frame(void* worker, const void* header, std::size_t header_bytes, void* data,
                               std::size_t bytes, const ucp_am_recv_param_t* parameters);

  std::optional<UcxUse> use_{std::in_place};  ///< Until shut_down().
  const WireLibraries& libraries_;
  const WireOptions options_;
  WireService* const service_;
  const pid_t process_ = ::getpid();
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_descriptor_ = -1;
  IntroductionTerms terms_;
  std::unique_ptr<Door> door_;

  std::mutex mutex_;
  std::atomic<std::thread::id> driver_{};
  std::map<ucp_ep_h, std::shared_ptr<UcxConnection>> connections_;  ///< The driver's.
  std::vector<ucp_ep_h> given_up_;                                  ///< The driver's: to be closed.
  std::map<WireProof, Expected> expected_;                          ///< The driver's: let in, not met yet.
  std::vector<Arrival> arrivals_;                                   ///< The driver's.
  /// The driver's: of peers who have not shown a ticket, and since when.
  std::map<ucp_ep_h, std::uint64_t> unmet_;
  std::uint64_t closing_ = 0;        ///< The driver's: endpoints not quite gone.
  bool shut_down_ = false;           ///< The driver's.
  std::uint64_t arrived_bytes_ = 0;  ///< The driver's.

  const std::shared_ptr<ArrivalFrames> frames_ = std::make_shared<ArrivalFrames>();

  FutexLock outbox_lock_;
  std::vector<Outgoing> outbox_;  ///< Guarded by outbox_lock_.
  std::atomic<bool> outbox_filled_{false};

  std::atomic<Poller> poller_{Poller::nobody};
  std::atomic<std::uint32_t> waiter_polls_{0};  ///< Times a waiter polled.
  std::atomic<std::uint32_t> sleepers_{0};      ///< Waiters that leave the polling to others.
  std::atomic<bool> wanted_{false};             ///< A waiter would rather poll itself.
  std::atomic<std::uint32_t> wakes_{0};         ///< Changes when the thread is to look again.
  std::atomic<bool> asleep_{false};             ///< The thread waits for UCX's descriptor.
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> next_tick_{0};  ///< Changed by the driver.
  std::thread thread_;
};

}  // namespace tiermap
