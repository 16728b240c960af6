// Pages on their way down a tree of ranks: what the home sends to one rank, that rank hands to others.
#pragma once

#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/job/home_counters.hpp"
#include "cluster/wire/wire.hpp"

namespace tiermap {

/// What ranks ask each other. Words: server and handle (server << 32 | handle), offset there, who asks and how many
/// bytes (rank << 32 | bytes), the least sequence number. Reply's words: the sequence number of what it has; body: the
/// bytes. -ESTALE where the home itself is not as far.
inline constexpr std::uint16_t pull_request = 128;

/// A part of a data set as it lies on one server, the same for all ranks.
struct Piece {
  std::uint32_t server = 0;
  std::uint32_t handle = 0;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  auto operator<=>(const Piece&) const = default;
};

/// A pull of this rank's own.
class Pull {
 public:
  /// The reply, as one of JobRequest::fetch. Every request on a wire is answered, so this ends.
  const WireReply& wait();

 private:
  friend class Relay;
  void complete(const WireReply& reply);

  std::mutex mutex_;
  std::condition_variable completed_;
  bool complete_ = false;
  WireReply reply_;
};

/// Asks once for what several want, and keeps it until all have it, or for as long as there is room. What is kept may
/// be old: everybody says how far the home had come at least, and is given nothing older.
///
/// Thread-safe; nothing is sent or answered while the lock is held, since that may call the wire's handlers.
class Relay final : public WireService {
 public:
  /// A parent that does not answer within `patience` is not waited for. `most_bytes` is what is kept at most, but for
  /// what is on its way.
  Relay(std::uint32_t rank, WireLogin login, std::chrono::milliseconds patience, std::uint64_t most_bytes)
      : rank_(rank), login_(std::move(login)), patience_(patience), most_bytes_(most_bytes) {}

  /// How pieces come here: from `parent`, or where that is null from the home that `home` asks.
  using AskHome = std::function<void(const Piece&, std::function<void(WireReply)>)>;
  /// Children may pull from here on. Until then nothing does anything.
  void begin(std::shared_ptr<WireConnection> parent, AskHome home, std::vector<std::uint32_t> children);
  bool begun() const;
  /// Nothing comes this way any more.
  void end();

  std::shared_ptr<Pull> start(const Piece& piece, std::uint64_t least_sequence);
  /// Counts what is asked and handed on for a data set; before anybody pulls of it.
  void count(std::uint32_t server, std::uint32_t handle, std::shared_ptr<HomeCounters> counters);
  /// It is no more.
  void forget(std::uint32_t server, std::uint32_t handle);

  std::optional<std::string> secret_of(std::string_view user) override;
  void on_request(WireRequest request) override;

 private:
  struct Waiting {
    std::size_t taker = 0;
    std::uint64_t least = 0;
    std::function<void(const WireReply&)> give;
  };
  struct Kept {
    std::optional<WireReply> reply;  ///< What there is of it.
    std::uint64_t taken = 0;         ///< By whom, a bit each.
    std::uint64_t age = 0;
    bool asked = false;
    std::uint64_t asked_least = 0;
    std::vector<Waiting> waiting;
  };
  using Pieces = std::map<Piece, Kept>;
  /// What is done once the lock is given up.
  using Later = std::vector<std::function<void()>>;

  void want(const Piece& piece, Waiting waiting);
  void ask(const Piece& piece, Kept& kept, Later& later);
  void send(const Piece& piece, std::uint64_t least);
  void arrive(const Piece& piece, const WireReply& reply);
  static void hand_out(Kept& kept, Later& later);
  static void refuse(Kept& kept, const WireReply& failed, Later& later);
  void settle(Pieces::iterator place);
  void make_room();
  void keep_alone(const Piece& piece);
  void drop_reply(const Piece& piece, Kept& kept);
  std::shared_ptr<HomeCounters> counters_of(const Piece& piece) const;

  const std::uint32_t rank_;
  const WireLogin login_;
  const std::chrono::milliseconds patience_;
  const std::uint64_t most_bytes_;
  mutable std::mutex mutex_;  ///< Guards what follows.
  bool begun_ = false;
  std::shared_ptr<WireConnection> parent_;
  AskHome home_;
  std::vector<std::uint32_t> children_;  ///< Taker 0 is this rank, taker n + 1 the child at n.
  Pieces pieces_;
  std::deque<std::pair<Piece, std::uint64_t>> by_age_;  ///< With ages; some are no longer there.
  std::uint64_t next_age_ = 1;
  std::uint64_t kept_bytes_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::shared_ptr<HomeCounters>> counters_;
};

}  // namespace tiermap
