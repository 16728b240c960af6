// Where a server is: HOST:PORT, resolved.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tiermap {

/// As people write it: `node7:7070`, `10.0.0.7:7070`, `[::1]:7070`.
struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;
  std::string text() const;
};

/// Throws OptionError that quotes `text` as `what`. Port 0 only with `any_port`.
HostAndPort parse_host_and_port(std::string_view text, std::string_view what, bool any_port = false);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  bool loopback() const noexcept;
  /// "10.0.0.7:40112".
  std::string text() const;
  std::uint16_t port() const noexcept;
  SocketAddress with_port(std::uint16_t port) const noexcept;
};

/// Asks the resolver. Throws StoreError (EHOSTUNREACH) for a host that it does not know.
SocketAddress resolve(const HostAndPort& address);

/// The address of this machine from which packets go there, as a number. Sends none. Throws StoreError.
std::string own_host_towards(const HostAndPort& address);

}  // namespace tiermap
