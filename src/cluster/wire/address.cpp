#include "cluster/wire/address.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <vector>

#include "config/size.hpp"
#include "store/file_descriptor.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::string_view text_of(AddressFamily family) noexcept {
  return family == AddressFamily::ipv4 ? "IPv4" : "IPv6";
}

bool is_link_local(const SocketAddress& address) noexcept {
  return address.family() == AddressFamily::ipv6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
}

/// IPv4 that is written as IPv6 goes over the network as IPv4, and is taken as that.
SocketAddress without_mapping(const SocketAddress& address) noexcept {
  const auto* const ipv6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  if (address.storage.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr)) {
    return address;
  }
  SocketAddress plain;
  auto* const ipv4 = reinterpret_cast<sockaddr_in*>(&plain.storage);
  ipv4->sin_family = AF_INET;
  ipv4->sin_port = ipv6->sin6_port;
  std::memcpy(&ipv4->sin_addr, &ipv6->sin6_addr.s6_addr[12], sizeof(ipv4->sin_addr));
  plain.bytes = sizeof(sockaddr_in);
  return plain;
}

/// All that the resolver knows, at least one. Throws StoreError (EHOSTUNREACH).
std::vector<SocketAddress> addresses_of(const HostAndPort& address) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  const int result = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &found);
  if (result != 0 || found == nullptr) {
    throw StoreError(EHOSTUNREACH, "host " + quote_value(address.host) + " does not resolve (" +
                                       ::gai_strerror(result) + "): check the name, or write its address");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress resolved;
    resolved.bytes = one->ai_addrlen;
    std::memcpy(&resolved.storage, one->ai_addr, one->ai_addrlen);
    addresses.push_back(without_mapping(resolved));
  }
  return addresses;
}

}  // namespace

std::string HostAndPort::text() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

HostAndPort parse_host_and_port(std::string_view text, std::string_view what, bool any_port) {
  const auto refuse = [&](const std::string& why) {
    throw OptionError(std::string(what) + " " + quote_value(text) + " " + why +
                      ": write HOST:PORT, such as node7:7070");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    refuse(colon == 0 ? "names no host" : "names no port");
  }
  std::string_view host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    refuse("has more than one colon (an IPv6 address stands in brackets)");
  }
  const std::string_view digits = text.substr(colon + 1);
  HostAndPort address{std::string(host), 0};
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  const bool number = result.ec == std::errc() && result.ptr == digits.data() + digits.size();
  if (!number || (address.port == 0 && !any_port)) {
    refuse("has no port from 1 to 65535");
  }
  if (address.host.empty()) {
    refuse("names no host");
  }
  return address;
}

bool SocketAddress::loopback() const noexcept {
  if (storage.ss_family == AF_INET) {
    const auto* const ipv4 = reinterpret_cast<const sockaddr_in*>(&storage);
    return (ntohl(ipv4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* const ipv6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  return storage.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr);
}

std::uint16_t SocketAddress::port() const noexcept {
  return ntohs(storage.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(&storage)->sin_port
                                            : reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
}

SocketAddress SocketAddress::by_ucx(std::uint16_t port) const noexcept {
  if (storage.ss_family == AF_INET || !loopback()) {
    return with_port(port);
  }
  SocketAddress local;
  auto* const ipv4 = reinterpret_cast<sockaddr_in*>(&local.storage);
  ipv4->sin_family = AF_INET;
  ipv4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  local.bytes = sizeof(sockaddr_in);
  return local.with_port(port);
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const noexcept {
  SocketAddress other = *this;
  (storage.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&other.storage)->sin_port
                                : reinterpret_cast<sockaddr_in6*>(&other.storage)->sin6_port) = htons(port);
  return other;
}

std::string SocketAddress::text() const {
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(get(), bytes, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "an unknown address";
  }
  return HostAndPort{host.data(), port()}.text();
}

SocketAddress resolve(const HostAndPort& address, std::optional<AddressFamily> family) {
  const std::vector<SocketAddress> found = addresses_of(address);
  const SocketAddress* chosen = nullptr;
  for (const SocketAddress& one : found) {
    const bool fits = !family.has_value() || one.family() == *family;
    const bool better = chosen == nullptr || one.storage.ss_family < chosen->storage.ss_family;  // AF_INET is.
    chosen = fits && better ? &one : chosen;
  }
  if (chosen == nullptr) {
    throw StoreError(EHOSTUNREACH, "host " + quote_value(address.host) + " has no " + std::string(text_of(*family)) +
                                       " address, as the others have: name all by addresses of one kind");
  }
  if (is_link_local(*chosen)) {
    throw OptionError("address " + quote_value(address.text()) +
                      " is link-local, of which UCX does not know on which cable: give another one of that machine, "
                      "global (2...), unique local (fd...) or IPv4");
  }
  return *chosen;
}

AddressFamily common_family(std::span<const HostAndPort> addresses) {
  std::array<const HostAndPort*, 2> without{};  // By family: who has none.
  for (const HostAndPort& address : addresses) {
    std::vector<SocketAddress> found;
    try {
      found = addresses_of(address);
    } catch (const StoreError&) {
      continue;
    }
    for (const AddressFamily family : {AddressFamily::ipv4, AddressFamily::ipv6}) {
      const bool has = std::ranges::any_of(found, [&](const auto& one) { return one.family() == family; });
      const HostAndPort*& who = without.at(static_cast<std::size_t>(family));
      who = has || who != nullptr ? who : &address;
    }
  }
  if (without[0] != nullptr && without[1] != nullptr) {
    throw OptionError("servers " + quote_value(without[1]->text()) + " and " + quote_value(without[0]->text()) +
                      " have addresses of two families, IPv4 and IPv6: name all of them by addresses of one");
  }
  return without[0] == nullptr ? AddressFamily::ipv4 : AddressFamily::ipv6;
}

bool all_loopback(std::span<const HostAndPort> addresses) {
  return std::ranges::all_of(addresses, [](const HostAndPort& address) {
    try {
      return resolve(address).loopback();
    } catch (const Error&) {  // Who connects there says so.
      return false;
    }
  });
}

std::string own_host_towards(const HostAndPort& address) {
  const SocketAddress there = resolve(address);
  const FileDescriptor probe(::socket(there.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress here;
  here.bytes = sizeof(here.storage);
  std::array<char, NI_MAXHOST> host{};
  if (!probe.valid() || ::connect(probe.get(), there.get(), there.bytes) != 0 ||
      ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&here.storage), &here.bytes) != 0) {
    throw StoreError(errno, "no address of this machine is known from which " + quote_value(address.text()) +
                                " is reached: " + error_text(errno));
  }
  if (::getnameinfo(here.get(), here.bytes, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    throw StoreError(EHOSTUNREACH, "this machine's address towards " + quote_value(address.text()) + " has no text");
  }
  return host.data();
}

bool is_own_address(const HostAndPort& address) {
  try {
    const SocketAddress there = resolve(address).with_port(0);
    const FileDescriptor probe(::socket(there.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return probe.valid() && ::bind(probe.get(), there.get(), there.bytes) == 0;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace tiermap
