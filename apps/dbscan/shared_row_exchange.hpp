// Rows sent by way of shared vectors.
#pragma once

#include "command_line/message_counts.hpp"
#include "command_line/ranks.hpp"
#include "dbscan/row_exchange.hpp"

namespace tiermap {

/// Each exchange is a vector of its own, in which each rank has a place for what comes to it, on one server: the rank's
/// number modulo that of servers. With a server on each node, in the order of ranks, rows leave the node of who sends
/// them, and are fetched from the node itself.
class SharedRowExchange final : public RowExchange {
 public:
  explicit SharedRowExchange(Ranks& ranks) : ranks_(ranks) {}

  std::uint32_t rank() const override { return ranks_.rank(); }
  std::uint32_t ranks() const override { return ranks_.count(); }
  void exchange(const Rows& rows) override;
  std::vector<std::uint64_t> gather(std::vector<std::uint64_t> own) override { return ranks_.gather(std::move(own)); }

  /// So far.
  const MessageCounts& messages() const noexcept { return messages_; }

 private:
  Ranks& ranks_;
  MessageCounts messages_;
};

}  // namespace tiermap
