// What a shared vector asked its homes, of one rank.
#pragma once

#include <cstdint>

namespace tiermap {

/// Messages are requests; each has one reply. Bytes are those of bodies, without the 64 that each message has in front.
struct SharedStatistics {
  std::uint64_t fetches = 0;         ///< Messages that asked a home for content.
  std::uint64_t fetched_bytes = 0;   ///< Of their replies.
  std::uint64_t sends = 0;           ///< Messages that brought changes home.
  std::uint64_t changed_bytes = 0;   ///< Elements that had changed.
  std::uint64_t sent_bytes = 0;      ///< The same, with where each run of them goes.
  std::uint64_t questions = 0;       ///< Coherence messages: what have others changed?
  std::uint64_t news_bytes = 0;      ///< Of their replies.
  std::uint64_t dropped_blocks = 0;  ///< Blocks of 4 KiB that others had changed.
  std::uint64_t exchanges = 0;       ///< Messages of update().
  std::uint64_t retries = 0;         ///< Of these, those that came too late and were tried again.
  std::uint64_t pulls = 0;           ///< Messages that asked another rank for content, by read_together().
  std::uint64_t pulled_bytes = 0;    ///< Of their replies.
  std::uint64_t handed_bytes = 0;    ///< Content that this rank sent to others who asked it so.
  std::uint64_t node_bytes = 0;      ///< Content that came from what the ranks of this node keep for each other.
  std::uint64_t twin_bytes = 0;      ///< Copies kept now, to tell changes by, in memory.
  std::uint64_t spilled_bytes = 0;   ///< Of such copies written to the scratch file, as there was no memory for them.
  std::uint64_t scores = 0;        ///< Messages that told a home over tiers which pages are needed soon; no coherence.
  std::uint64_t score_bytes = 0;   ///< The same, in bytes.
  std::uint64_t near_bytes = 0;    ///< Of fetched_bytes and sent_bytes: with servers near this rank.
  std::uint64_t placed_bytes = 0;  ///< Content that this rank has carried to new places, by place_by_score(), besides.
};

}  // namespace tiermap
