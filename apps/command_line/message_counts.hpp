// What ranks asked of the homes of their shared vectors, for the report.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "command_line/ranks.hpp"
#include "tiermap/shared_statistics.hpp"

namespace tiermap {

/// Bodies of messages, without the 64 bytes that each has in front.
struct MessageCounts {
  std::uint64_t messages = 0;            ///< Requests, each of which has one reply.
  std::uint64_t coherence_messages = 0;  ///< Of these, those that ask what others have changed.
  std::uint64_t sent_bytes = 0;          ///< To the homes.
  std::uint64_t fetched_bytes = 0;       ///< From them.
  std::uint64_t news_bytes = 0;          ///< From them: what others have changed.

  void add(const SharedStatistics& statistics);
  MessageCounts operator-(const MessageCounts& before) const;
  /// By all ranks: what all of them asked becomes fields of these names.
  void describe(Ranks& ranks, nlohmann::ordered_json& fields) const;
};

}  // namespace tiermap
