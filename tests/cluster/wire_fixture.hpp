// What tests of the wire share: UCX over TCP, which is what works between nodes of any kind, and a service that echoes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/wire/wire.hpp"

namespace tiermap {

/// Kinds of requests that the services of these tests know.
enum TestKind : std::uint16_t { echo_kind = 1, drop_kind, keep_kind, ask_back_kind };

/// Answers with what it was asked, unless the kind says otherwise.
class EchoService : public WireService {
 public:
  std::optional<std::string> secret_of(std::string_view user) override {
    const auto found = secrets.find(std::string(user));
    return found == secrets.end() ? std::nullopt : std::optional(found->second);
  }
  void on_request(WireRequest request) override {
    ++requests;
    switch (request.kind()) {
      case drop_kind:
        return;
      case keep_kind: {
        const std::lock_guard lock(mutex);
        kept.push_back(std::move(request));
        return;
      }
      case ask_back_kind: {
        const auto shared = std::make_shared<WireRequest>(std::move(request));
        shared->from()->start_then(WireMessage(echo_kind, shared->words()), std::nullopt,
                                   [shared](const WireReply& reply) { shared->reply(reply.status, reply.words); });
        return;
      }
      default: {
        WireMessage answer = WireMessage::answer(0, request.words(), request.body().size());
        std::ranges::copy(request.body(), answer.body().data());
        request.reply(std::move(answer));
      }
    }
  }
  void on_closed(const std::shared_ptr<WireConnection>& connection) override {
    const std::lock_guard lock(mutex);
    closed.push_back(connection->failure());
  }
  std::size_t closed_count() {
    const std::lock_guard lock(mutex);
    return closed.size();
  }

  std::map<std::string, std::string> secrets;
  std::atomic<std::uint64_t> requests{0};
  std::mutex mutex;
  std::vector<WireRequest> kept;
  std::vector<std::string> closed;
};

inline std::vector<std::byte> test_body(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> body(bytes);
  for (std::size_t index = 0; index < bytes; ++index) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    body[index] = static_cast<std::byte>(seed >> 56);
  }
  return body;
}

inline bool same_bytes(std::span<const std::byte> left, std::span<const std::byte> right) {
  return std::ranges::equal(left, right);
}

/// Waits for what another thread brings about.
inline bool comes_true(const std::function<bool()>& condition,
                       std::chrono::seconds patience = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace tiermap
