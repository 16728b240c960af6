// The public port: a plain TCP socket, where nothing but introductions happens. UCX, which ends a process for a message
// that it does not know, is behind it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/wire/introduction.hpp"

namespace tiermap {

/// Listens, with one thread for all who come. Who says nothing is shown out in time, and sooner where others wait.
class Door {
 public:
  /// Called by the door's thread for who has proved who he is, and where both ends of his connection are: makes UCX
  /// listen for him, and says at which port; or it is 0, and `why_not` one line for him.
  using LetIn = std::function<std::uint16_t(const Introduced&, const SocketAddress& here, const SocketAddress& peer,
                                            std::string& why_not)>;

  /// `terms` outlive it, and so does `service`. Throws StoreError for a port in use or an address that is not this
  /// machine's.
  Door(const SocketAddress& address, const std::string& text, const IntroductionTerms& terms, WireService* service,
       LetIn let_in);
  /// Ends the thread. In the child of a fork(), which has none, `abandon()` comes first.
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  void abandon() { thread_.detach(); }
  std::uint16_t port() const noexcept { return port_; }

 private:
  struct Visitor {
    MessageSocket socket;
    ServerIntroduction introduction;
    SocketAddress peer;
    std::uint64_t deadline;
    bool leaving = false;  ///< Once what waits is sent.
  };
  using Visitors = std::list<Visitor>;

  void run();
  void accept();
  /// False when he is gone.
  bool attend(Visitor& visitor, bool readable);
  bool answer(Visitor& visitor);
  void let_in(Visitor& visitor);

  const IntroductionTerms& terms_;
  WireService* const service_;
  const LetIn let_in_;
  const std::uint64_t patience_;  ///< With a visitor, in nanoseconds.
  const std::size_t most_visitors_;
  FileDescriptor listener_;
  FileDescriptor stop_event_;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  Visitors visitors_;  ///< The thread's, in the order in which they came.
  std::uint64_t accepts_again_ = 0;
  std::thread thread_;
};

}  // namespace tiermap
