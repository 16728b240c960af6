// Where a server is: HOST:PORT, resolved.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <span>
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

/// By which UCX reaches an address. A wire has one of them: UCX gives a peer's address the room that its own takes, and
/// damages the heap where the peer's is longer. It takes [::1] for no address of a device, so that is reached by IPv4.
enum class AddressFamily : std::uint8_t { ipv4, ipv6 };

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  bool loopback() const noexcept;
  AddressFamily family() const noexcept {
    return storage.ss_family == AF_INET || loopback() ? AddressFamily::ipv4 : AddressFamily::ipv6;
  }
  /// Where UCX listens or connects in its place: the same host, which for [::1] is 127.0.0.1.
  SocketAddress by_ucx(std::uint16_t port) const noexcept;
  /// "10.0.0.7:40112".
  std::string text() const;
  std::uint16_t port() const noexcept;
  SocketAddress with_port(std::uint16_t port) const noexcept;
};

/// Asks the resolver. Of a host that has addresses of both families it is an IPv4 one, unless `family` says which; what
/// is IPv4 written as IPv6 (::ffff:10.0.0.7) is IPv4. Throws StoreError (EHOSTUNREACH) for a host that it does not
/// know, or that has none of that family; OptionError for a link-local address, which means something on one cable
/// only, of which UCX does not say to the peer which.
SocketAddress resolve(const HostAndPort& address, std::optional<AddressFamily> family = std::nullopt);

/// The family in which all of them have an address; IPv4 if both are such. A host that does not resolve counts as any:
/// who connects there hears of it. Throws OptionError that names two which have none together.
AddressFamily common_family(std::span<const HostAndPort> addresses);

/// Whether all of them are loopback addresses. A host that does not resolve is none.
bool all_loopback(std::span<const HostAndPort> addresses);

/// The address of this machine from which packets go there, as a number. Sends none. Throws StoreError.
std::string own_host_towards(const HostAndPort& address);

/// Whether it is one of this machine's addresses, as far as this process sees them. False where nobody knows it.
bool is_own_address(const HostAndPort& address);

}  // namespace tiermap
