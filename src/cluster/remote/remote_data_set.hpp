// One server's part of a data set, attached.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "cluster/remote/memory_client.hpp"
#include "cluster/remote/score_sender.hpp"

namespace tiermap {

/// Thread-safe. Given up once it failed: what it has may be behind from then on, and its server slow.
class RemoteDataSet {
 public:
  /// Throws StoreError.
  RemoteDataSet(std::shared_ptr<MemoryClient> client, const std::string& name, bool writing)
      : client_(std::move(client)), handle_(client_->attach(name, writing, facts_)) {}
  ~RemoteDataSet() {
    if (usable()) {
      client_->connection().start(request(MemoryRequest::detach, 0, 0)).wait();
    }
  }
  RemoteDataSet(const RemoteDataSet&) = delete;
  RemoteDataSet& operator=(const RemoteDataSet&) = delete;

  const DataSetFacts& facts() const noexcept { return facts_; }
  const std::string& server() const noexcept { return client_->server(); }
  /// Of one start_read() or start_write().
  std::uint64_t most_bytes() const noexcept {
    return std::min<std::uint64_t>(client_->connection().largest_body(), 256 << 10);
  }

  WireCall start_read(std::uint64_t offset, std::uint64_t bytes) {
    return client_->connection().start(request(MemoryRequest::read, offset, bytes));
  }
  WireCall start_write(std::uint64_t offset, std::span<const std::byte> bytes) {
    return client_->connection().start(
        WireMessage(static_cast<std::uint16_t>(MemoryRequest::write), {handle_, offset, 0, 0}, bytes));
  }
  WireCall start_mend(std::uint64_t offset, std::span<const std::byte> bytes) {
    return client_->connection().start(
        WireMessage(static_cast<std::uint16_t>(MemoryRequest::mend), {handle_, offset, 0, 0}, bytes));
  }
  /// flush, resize, punch, announce, renew: as long as the server lives it may take its time.
  WireCall start_change(MemoryRequest kind, std::uint64_t first = 0, std::uint64_t second = 0) {
    return client_->connection().start(request(kind, first, second), std::nullopt);
  }

  /// Null where the server wants none.
  std::shared_ptr<ScoreSender> score_sender() const {
    return facts_.read_nanoseconds == 0
               ? nullptr
               : std::make_shared<ScoreSender>(client_->shared_connection(),
                                               static_cast<std::uint16_t>(MemoryRequest::score), handle_);
  }

  /// Why it is not usable.
  std::string failure() const { return client_->connection().failure(); }
  bool usable() const noexcept { return !given_up_.load(std::memory_order_acquire); }
  /// True for whoever does it first.
  bool give_up(const std::string& reason) {
    if (given_up_.exchange(true)) {
      return false;
    }
    client_->connection().close(reason);
    return true;
  }

 private:
  WireMessage request(MemoryRequest kind, std::uint64_t first, std::uint64_t second) const {
    return WireMessage(static_cast<std::uint16_t>(kind), {handle_, first, second, 0});
  }

  const std::shared_ptr<MemoryClient> client_;
  DataSetFacts facts_;
  const std::uint64_t handle_;
  std::atomic<bool> given_up_{false};
};

}  // namespace tiermap
