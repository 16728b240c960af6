#include "parallel/partition.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include "parallel/vector_partition.hpp"

namespace tiermap {
namespace {

/// Words looked at before any is moved; their positions fit in a byte.
constexpr std::uint64_t chunk_words = 128;

/// Finds, chunk by chunk from one end of a range, the words that belong to the other side.
class MisplacedWords {
 public:
  bool pending() const { return count_ != 0; }
  std::uint64_t count() const { return count_; }
  std::uint64_t* chunk() const { return chunk_; }

  /// Looks at `words` words from `begin`: those not under `split` if `left`, else those under it.
  template <bool left>
  void find(std::uint64_t* begin, std::uint64_t words, std::uint64_t split) {
    chunk_ = begin;
    first_ = 0;
    std::uint32_t found = 0;
    for (std::uint64_t index = 0; index < words; ++index) {
      positions_[found] = static_cast<std::uint8_t>(index);
      found += static_cast<std::uint32_t>(left ? begin[index] >= split : begin[index] < split);
    }
    count_ = found;
  }

  /// Swaps as many as both have.
  friend void exchange(MisplacedWords& left, MisplacedWords& right) {
    const std::uint32_t pairs = std::min(left.count_, right.count_);
    for (std::uint32_t pair = 0; pair < pairs; ++pair) {
      std::swap(left.chunk_[left.positions_[left.first_ + pair]], right.chunk_[right.positions_[right.first_ + pair]]);
    }
    left.take(pairs);
    right.take(pairs);
  }

 private:
  void take(std::uint32_t pairs) {
    first_ += pairs;
    count_ -= pairs;
  }
  std::uint64_t* chunk_ = nullptr;
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
  std::array<std::uint8_t, chunk_words> positions_;
};

/// For the last few words.
std::uint64_t* partition_plainly(std::uint64_t* begin, std::uint64_t* end, std::uint64_t split) {
  return std::partition(begin, end, [split](std::uint64_t word) { return word < split; });
}

/// A block that a thread works on, and how much of it has been looked at.
struct Block {
  std::uint64_t* begin = nullptr;
  std::uint64_t* next = nullptr;
  std::uint64_t* end = nullptr;
};

/// The blocks of a range that nobody has taken yet.
class UntakenBlocks {
 public:
  UntakenBlocks(std::span<std::uint64_t> words, const PartitionOptions& options)
      : words_(words), options_(options), right_(words.size()), announced_right_(words.size()) {}

  bool take_left(Block& block) { return take(block, true); }
  bool take_right(Block& block) { return take(block, false); }
  std::uint64_t left() const { return left_; }
  std::uint64_t right() const { return right_; }

 private:
  bool take(Block& block, bool from_left) {
    std::uint64_t first = 0;
    std::array<std::pair<std::uint64_t, std::uint64_t>, 1> ahead{};
    {
      const std::lock_guard lock(mutex_);
      if (right_ - left_ < options_.block_words) {
        return false;
      }
      first = from_left ? left_ : right_ - options_.block_words;
      (from_left ? left_ : right_) = from_left ? left_ + options_.block_words : first;
      ahead[0] = from_left ? announce_left() : announce_right();
    }
    if (ahead[0].second != 0) {
      options_.ahead(ahead[0].first, ahead[0].second);
    }
    block.begin = block.next = words_.data() + first;
    block.end = block.begin + options_.block_words;
    return true;
  }
  /// What is to be told, now that the ends are where they are; nothing most of the time.
  std::pair<std::uint64_t, std::uint64_t> announce_left() {
    const std::uint64_t wanted = std::min(left_ + options_.lookahead_words, announced_right_);
    if (!options_.ahead || wanted < announced_left_ + options_.announcement_words) {
      return {0, 0};
    }
    const std::uint64_t first = std::exchange(announced_left_, wanted);
    return {first, wanted - first};
  }
  std::pair<std::uint64_t, std::uint64_t> announce_right() {
    const std::uint64_t reach = std::min(right_, options_.lookahead_words);
    const std::uint64_t wanted = std::max(right_ - reach, announced_left_);
    if (!options_.ahead || wanted + options_.announcement_words > announced_right_) {
      return {0, 0};
    }
    const std::uint64_t end = std::exchange(announced_right_, wanted);
    return {wanted, end - wanted};
  }

  std::span<std::uint64_t> words_;
  const PartitionOptions& options_;
  std::mutex mutex_;
  std::uint64_t left_ = 0;
  std::uint64_t right_;
  std::uint64_t announced_left_ = 0;
  std::uint64_t announced_right_;
};

/// What one thread could not finish: at most one block of each side.
struct Unfinished {
  std::uint64_t* left = nullptr;
  std::uint64_t* right = nullptr;
};

/// Takes blocks from both ends and puts them right, until one end has no more.
Unfinished put_blocks_right(UntakenBlocks& untaken, std::uint64_t split, const PartitionOptions& options) {
  Block left;
  Block right;
  MisplacedWords wrong_left;
  MisplacedWords wrong_right;
  const auto finished = [](const Block& block, const MisplacedWords& wrong) {
    return block.next == block.end && !wrong.pending();
  };
  const auto tell = [&](const Block& block) {
    if (options.done && block.begin != nullptr) {
      options.done(options.block_words);
    }
  };
  for (;;) {
    if (finished(left, wrong_left)) {
      tell(left);
      if (!untaken.take_left(left)) {
        return {nullptr, finished(right, wrong_right) ? nullptr : right.begin};
      }
    }
    if (finished(right, wrong_right)) {
      tell(right);
      if (!untaken.take_right(right)) {
        return {left.begin, nullptr};
      }
    }
    if (!wrong_left.pending() && left.next != left.end) {
      const auto words = std::min(chunk_words, static_cast<std::uint64_t>(left.end - left.next));
      wrong_left.find<true>(left.next, words, split);
      left.next += words;
    }
    if (!wrong_right.pending() && right.next != right.end) {
      const auto words = std::min(chunk_words, static_cast<std::uint64_t>(right.end - right.next));
      wrong_right.find<false>(right.next, words, split);
      right.next += words;
    }
    exchange(wrong_left, wrong_right);
  }
}

/// Brings the unfinished blocks of each side next to the part that nobody took. Returns where that part now begins and
/// ends.
std::pair<std::uint64_t*, std::uint64_t*> gather(std::span<std::uint64_t> words, const UntakenBlocks& untaken,
                                                 const std::vector<Unfinished>& unfinished, std::uint64_t block_words) {
  std::vector<std::uint64_t*> lefts;
  std::vector<std::uint64_t*> rights;
  for (const Unfinished& blocks : unfinished) {
    if (blocks.left != nullptr) {
      lefts.push_back(blocks.left);
    }
    if (blocks.right != nullptr) {
      rights.push_back(blocks.right);
    }
  }
  // Farthest in first: the block it changes places with is then never an unfinished one that still waits.
  std::sort(lefts.begin(), lefts.end(), std::greater<>());
  std::sort(rights.begin(), rights.end());
  std::uint64_t* begin = words.data() + untaken.left();
  std::uint64_t* end = words.data() + untaken.right();
  for (std::uint64_t* block : lefts) {
    begin -= block_words;
    if (block != begin) {
      std::swap_ranges(block, block + block_words, begin);
    }
  }
  for (std::uint64_t* block : rights) {
    if (block != end) {
      std::swap_ranges(block, block + block_words, end);
    }
    end += block_words;
  }
  return {begin, end};
}

}  // namespace

std::uint64_t partition_words_by_positions(std::span<std::uint64_t> words, std::uint64_t split) {
  std::uint64_t* left = words.data();
  std::uint64_t* right = left + words.size();
  MisplacedWords wrong_left;
  MisplacedWords wrong_right;
  // [left, right) has not been looked at; a chunk just outside of it may still hold misplaced words.
  while (static_cast<std::uint64_t>(right - left) >= 2 * chunk_words) {
    if (!wrong_left.pending()) {
      wrong_left.find<true>(left, chunk_words, split);
      left += chunk_words;
    }
    if (!wrong_right.pending()) {
      right -= chunk_words;
      wrong_right.find<false>(right, chunk_words, split);
    }
    exchange(wrong_left, wrong_right);
  }
  if (wrong_left.pending()) {
    left = wrong_left.chunk();
  }
  if (wrong_right.pending()) {
    right = wrong_right.chunk() + chunk_words;
  }
  return static_cast<std::uint64_t>(partition_plainly(left, right, split) - words.data());
}

std::uint64_t partition_words(std::span<std::uint64_t> words, std::uint64_t split) {
  if (words.size() >= least_vector_words && has_vector_partition()) {
    return partition_words_by_vectors(words, split);
  }
  return partition_words_by_positions(words, split);
}

std::uint64_t partition_words_together(std::span<std::uint64_t> words, std::uint64_t split, ThreadTeam& team,
                                       const PartitionOptions& options) {
  UntakenBlocks untaken(words, options);
  std::vector<Unfinished> unfinished(team.size());
  team.run([&](std::uint32_t member) { unfinished[member] = put_blocks_right(untaken, split, options); });
  const auto [begin, end] = gather(words, untaken, unfinished, options.block_words);
  const auto middle = std::span(begin, static_cast<std::size_t>(end - begin));
  const std::uint64_t under = partition_words(middle, split);
  if (options.done) {
    options.done(middle.size());
  }
  return static_cast<std::uint64_t>(begin - words.data()) + under;
}

}  // namespace tiermap
