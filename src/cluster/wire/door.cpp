#include "cluster/wire/door.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "config/size.hpp"
#include "platform/clock.hpp"
#include "platform/engine_thread.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t hour_nanoseconds = 3'600'000'000'000;
/// Without descriptors accept() fails, and poll() would say again at once that somebody is there.
constexpr std::uint64_t accept_pause_nanoseconds = 100'000'000;
constexpr std::size_t most_visitors = 256;
constexpr std::size_t least_visitors = 8;
constexpr int backlog = 1024;

FileDescriptor listen_at(const SocketAddress& address, const std::string& text) {
  FileDescriptor listener(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  constexpr int on = 1;
  // A server that is started again gets its port. At [::] nobody comes by IPv4, of which its wire is not.
  const bool listening =
      listener.valid() && ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
      (address.storage.ss_family == AF_INET ||
       ::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0) &&
      ::bind(listener.get(), address.get(), address.bytes) == 0 && ::listen(listener.get(), backlog) == 0;
  if (!listening && errno == EADDRINUSE) {
    throw StoreError(EADDRINUSE, "address " + quote_value(text) + " is in use: choose another port, or end who has it");
  }
  if (!listening) {
    const int error_number = errno;
    throw StoreError(error_number, "cannot listen on " + quote_value(text) + " (" + error_text(error_number) +
                                       "): choose an address of this machine");
  }
  return listener;
}

}  // namespace

Door::Door(const SocketAddress& address, const std::string& text, const IntroductionTerms& terms, WireService* service,
           LetIn let_in)
    : terms_(terms),
      service_(service),
      let_in_(std::move(let_in)),
      patience_(std::min(terms.timeout_milliseconds * 1'000'000U, longest_introduction_nanoseconds)),
      // They are not to take the descriptors of those who were let in.
      most_visitors_(std::clamp<std::size_t>(open_files_limit() / 16, least_visitors, most_visitors)),
      listener_(listen_at(address, text)),
      stop_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  SocketAddress bound;
  bound.bytes = sizeof(bound.storage);
  ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.bytes);
  port_ = bound.port();
  if (!stop_event_.valid()) {
    throw StoreError(errno, "cannot listen on " + quote_value(text) + " (" + error_text(errno) +
                                "): raise the limit of open files (ulimit -n)");
  }
  thread_ = start_engine_thread("tiermap-door", [this] { run(); });
}

Door::~Door() {
  if (thread_.joinable()) {
    stopping_.store(true);
    ::eventfd_write(stop_event_.get(), 1);
    thread_.join();
  }
}

void Door::run() {
  std::vector<pollfd> descriptors;
  while (!stopping_.load()) {
    std::uint64_t now = now_nanoseconds();
    std::erase_if(visitors_, [&](const Visitor& visitor) { return now >= visitor.deadline; });
    const bool accepting = now >= accepts_again_;
    std::uint64_t wake_at = accepting ? now + hour_nanoseconds : accepts_again_;
    descriptors.assign({{stop_event_.get(), POLLIN, 0}, {accepting ? listener_.get() : -1, POLLIN, 0}});
    for (const Visitor& visitor : visitors_) {
      descriptors.push_back(
          {visitor.socket.descriptor(), static_cast<short>(visitor.socket.sending() ? POLLOUT : POLLIN), 0});
      wake_at = std::min(wake_at, visitor.deadline);
    }
    const std::uint64_t milliseconds = std::min<std::uint64_t>((wake_at - now) / 1'000'000U + 1, 3'600'000);
    if (::poll(descriptors.data(), descriptors.size(), static_cast<int>(milliseconds)) <= 0) {
      continue;
    }
    auto visitor = visitors_.begin();
    for (std::size_t index = 2; index < descriptors.size(); ++index) {
      const bool stays = descriptors[index].revents == 0 || attend(*visitor, !visitor->socket.sending());
      visitor = stays ? std::next(visitor) : visitors_.erase(visitor);
    }
    if (descriptors[1].revents != 0) {
      accept();
    }
  }
  visitors_.clear();
}

void Door::accept() {
  for (std::size_t count = 0; count < most_visitors_; ++count) {
    SocketAddress from;
    from.bytes = sizeof(from.storage);
    FileDescriptor socket(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.bytes,
                                    SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        accepts_again_ = now_nanoseconds() + accept_pause_nanoseconds;
        visitors_.clear();
      }
      return;
    }
    constexpr int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (visitors_.size() >= most_visitors_) {
      visitors_.pop_front();  // Whoever means it is through long before so many others have come.
    }
    visitors_.push_back(
        {MessageSocket(std::move(socket)), ServerIntroduction(terms_, service_), from, now_nanoseconds() + patience_});
  }
}

bool Door::attend(Visitor& visitor, bool readable) {
  try {
    if (readable) {
      const MessageSocket::State state = visitor.socket.receive();
      if (state != MessageSocket::State::open && !visitor.socket.front().has_value()) {
        return false;
      }
    }
    return answer(visitor);
  } catch (const std::exception&) {  // No random bytes, no memory: for this one.
    return false;
  }
}

bool Door::answer(Visitor& visitor) {
  while (!visitor.leaving) {
    const std::optional<ArrivedMessage> message = visitor.socket.front();
    if (!message.has_value()) {
      break;
    }
    const ServerIntroduction::Outcome outcome = visitor.introduction.take(visitor.socket, *message);
    visitor.socket.pop();
    if (outcome == ServerIntroduction::Outcome::proved) {
      let_in(visitor);
    }
    visitor.leaving = outcome != ServerIntroduction::Outcome::going_on;
  }
  return visitor.socket.send_waiting() && (visitor.socket.sending() || !visitor.leaving);
}

void Door::let_in(Visitor& visitor) {
  SocketAddress here;
  here.bytes = sizeof(here.storage);
  ::getsockname(visitor.socket.descriptor(), reinterpret_cast<sockaddr*>(&here.storage), &here.bytes);
  std::string why_not;
  const std::uint16_t port = let_in_(visitor.introduction.introduced(), here, visitor.peer, why_not);
  if (port != 0) {
    visitor.introduction.admit(visitor.socket, port);
  } else {
    ServerIntroduction::refuse(visitor.socket, why_not);
  }
}

}  // namespace tiermap
