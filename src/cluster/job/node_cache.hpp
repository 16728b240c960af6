// Blocks that the ranks of one node keep for each other, in memory that all of them have mapped. Nothing here knows how
// that memory came about, or where blocks come from.
//
// A block is looked for in one set of eight places. A place has a state, a label that says which block of which data
// set it has and as of when, and 4 KiB of content:
//
//     empty, or whole, turn t    -> filling, turn t + 1    by whoever wins the exchange of the state word: his claim
//     filling                    -> whole, the same turn   by who has the claim, once content and label are there
//     filling                    -> empty, the same turn   by who has the claim, and nothing to put there
//
// There is no lock, and reading writes nothing. Why that is enough:
//
// - Nobody reads what is half there. A reader loads the state, finds it whole in turn t, and copies. What it copies is
//   of turn t or of a later one, as all of turn t was stored before the state said so. Words of a later turn are stored
//   (release) after that turn's claim; who has loaded one of them (acquire) sees that claim, or what came after it,
//   when it loads the state once more, and that differs from what it saw first. A turn comes back after 2^40 claims of
//   one place: a rank that stands still for so long has been out of its job for days.
// - Nobody's death leaves anything behind that others trust or wait for. Who dies with a claim leaves a place that is
//   being filled, which nobody reads or claims. It is lost to the job, as the job is by such a death; who waits for the
//   block waits as long as he likes, and then fetches it himself.
// - A rank that writes where it should not is found out: a block has a checksum, which is verified on the copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace tiermap {

struct NodeBlock {
  std::uint64_t data_set = 0;  ///< The same number for all ranks, and never for another one.
  std::uint64_t number = 0;
};

/// The right to fill a place, of one thread. Movable; who drops it has nothing to put there.
class NodeClaim {
 public:
  NodeClaim() = default;
  NodeClaim(NodeClaim&& other) noexcept
      : cache_(std::exchange(other.cache_, nullptr)),
        place_(other.place_),
        state_(other.state_),
        block_(other.block_) {}
  NodeClaim& operator=(NodeClaim&& other) noexcept {
    std::swap(cache_, other.cache_);
    std::swap(place_, other.place_);
    std::swap(state_, other.state_);
    std::swap(block_, other.block_);
    return *this;
  }
  ~NodeClaim();

  explicit operator bool() const noexcept { return cache_ != nullptr; }
  /// `bytes`, as many as whoever looks for the block expects, are what its home had after change `sequence`.
  void fill(std::span<const std::byte> bytes, std::uint64_t sequence) noexcept;

 private:
  friend class NodeCache;
  NodeClaim(class NodeCache& cache, std::uint64_t place, std::uint64_t state, const NodeBlock& block) noexcept
      : cache_(&cache), place_(place), state_(state), block_(block) {}

  NodeCache* cache_ = nullptr;
  std::uint64_t place_ = 0;
  std::uint64_t state_ = 0;
  NodeBlock block_;
};

/// A view of memory that begins as zeros, one in each process. Thread-safe, also between processes.
class NodeCache {
 public:
  static constexpr std::uint64_t block_bytes = 4096;
  static constexpr std::uint64_t least_bytes = 64 << 10;

  enum class Outcome : std::uint8_t {
    whole,    ///< It was there.
    claimed,  ///< It is the caller's to fetch, and others wait for it.
    awaited,  ///< Somebody else is about to put it there: look again.
    none,     ///< There is no place for it now.
  };
  struct Found {
    Outcome outcome = Outcome::none;
    std::uint64_t sequence = 0;  ///< If whole: as of which change.
    NodeClaim claim;
  };

  /// At least `least_bytes`, page by page, the same of all processes.
  explicit NodeCache(std::span<std::byte> memory) noexcept;

  std::uint64_t places() const noexcept { return sets_ * ways; }
  /// Copies it to `bytes`, up to 4 KiB, if it is there as of `least_sequence` or later. What is older is replaced.
  Found find(const NodeBlock& block, std::uint64_t least_sequence, std::span<std::byte> bytes) noexcept;
  /// Blocks that this process found to be other than they were put there: another one writes where it should not.
  std::uint64_t damaged() const noexcept { return damaged_.load(std::memory_order_relaxed); }

 private:
  friend class NodeClaim;
  static constexpr std::uint64_t ways = 8;
  /// Plain words of shared memory, of which each is only touched by a std::atomic_ref.
  struct Label {
    std::uint64_t data_set;
    std::uint64_t number;
    std::uint64_t sequence;
    std::uint64_t checksum;
  };
  struct alignas(64) Set {
    std::uint64_t states[ways];
    Label labels[ways];
    std::uint64_t ages[ways];  ///< When it was claimed last, by the set's clock. A hint.
    std::uint64_t clock;
  };
  enum class Reading : std::uint8_t { whole, useless, another, replaced, awaited };
  /// What a set has for a block; if it is nothing, which place it would have, if there is one.
  struct Look {
    Reading reading = Reading::another;
    std::uint64_t sequence = 0;
    std::uint64_t place = 0;
    std::uint64_t state = 0;
  };

  Look look(std::uint64_t index, std::uint64_t tag, const NodeBlock& block, std::uint64_t least_sequence,
            std::span<std::byte> bytes) noexcept;

  Reading read(std::uint64_t place, std::uint64_t state, const NodeBlock& block, std::uint64_t least_sequence,
               std::span<std::byte> bytes, std::uint64_t& sequence) noexcept;
  void publish(std::uint64_t place, std::uint64_t state, const NodeBlock& block, std::span<const std::byte> bytes,
               std::uint64_t sequence) noexcept;
  void abandon(std::uint64_t place, std::uint64_t state) noexcept;
  std::uint64_t& state_word(std::uint64_t place) noexcept { return set_table_[place / ways].states[place % ways]; }
  std::uint64_t& age_of(std::uint64_t place) noexcept { return set_table_[place / ways].ages[place % ways]; }
  std::uint64_t* content(std::uint64_t place) noexcept { return contents_ + place * (block_bytes / 8); }

  std::uint64_t sets_ = 0;
  Set* set_table_ = nullptr;
  std::uint64_t* contents_ = nullptr;
  std::atomic<std::uint64_t> damaged_{0};
};

}  // namespace tiermap
