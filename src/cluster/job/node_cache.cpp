#include "cluster/job/node_cache.hpp"

#include <algorithm>
#include <cstring>

#include "cluster/wire/body_checksum.hpp"
#include "platform/page_sizes.hpp"

namespace tiermap {
namespace {

/// A state word: two bits of phase, 22 of a tag that tells blocks of a set apart without a look at their labels, and
/// the turn.
enum class PlacePhase : std::uint64_t { empty, filling, whole };
constexpr std::uint64_t phase_mask = 3;
constexpr std::uint64_t tag_mask = ((std::uint64_t{1} << 22U) - 1) << 2U;
constexpr std::uint64_t one_turn = std::uint64_t{1} << 24U;

PlacePhase phase_of(std::uint64_t state) noexcept {
  return static_cast<PlacePhase>(state & phase_mask);
}
std::uint64_t in_phase(std::uint64_t state, PlacePhase phase) noexcept {
  return (state & ~phase_mask) | static_cast<std::uint64_t>(phase);
}
std::uint64_t next_turn(std::uint64_t state, std::uint64_t tag) noexcept {
  return ((state & ~(phase_mask | tag_mask)) + one_turn) | tag | static_cast<std::uint64_t>(PlacePhase::filling);
}

std::uint64_t mixed(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

/// How often a set is looked through anew because somebody was faster.
constexpr int most_looks = 16;

std::uint64_t seed_of(const NodeBlock& block, std::uint64_t sequence) noexcept {
  return mixed(block.data_set ^ mixed(block.number ^ mixed(sequence)));
}

std::uint64_t load_word(std::uint64_t& word) noexcept {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}
void store_word(std::uint64_t& word, std::uint64_t value) noexcept {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

}  // namespace

NodeClaim::~NodeClaim() {
  if (cache_ != nullptr) {
    cache_->abandon(place_, state_);
  }
}

void NodeClaim::fill(std::span<const std::byte> bytes, std::uint64_t sequence) noexcept {
  std::exchange(cache_, nullptr)->publish(place_, state_, block_, bytes, sequence);
}

NodeCache::NodeCache(std::span<std::byte> memory) noexcept {
  static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free, "processes share words, and no locks");
  // Contents lie behind all sets, from a page's beginning on.
  sets_ = (memory.size() - kernel_page_bytes) / (sizeof(Set) + ways * block_bytes);
  set_table_ = reinterpret_cast<Set*>(memory.data());
  contents_ = reinterpret_cast<std::uint64_t*>(memory.data() + round_up(sets_ * sizeof(Set), kernel_page_bytes));
}

NodeCache::Reading NodeCache::read(std::uint64_t place, std::uint64_t state, const NodeBlock& block,
                                   std::uint64_t least_sequence, std::span<std::byte> bytes,
                                   std::uint64_t& sequence) noexcept {
  Label& label = set_table_[place / ways].labels[place % ways];
  const bool same = load_word(label.data_set) == block.data_set && load_word(label.number) == block.number;
  sequence = load_word(label.sequence);
  const std::uint64_t checksum = load_word(label.checksum);
  const bool wanted = same && sequence >= least_sequence;
  if (wanted) {
    std::uint64_t* word = content(place);
    std::span<std::byte> left = bytes;
    for (; left.size() >= sizeof(*word); left = left.subspan(sizeof(*word)), ++word) {
      const std::uint64_t value = load_word(*word);
      std::memcpy(left.data(), &value, sizeof(value));
    }
    const std::uint64_t last = left.empty() ? 0 : load_word(*word);
    std::memcpy(left.data(), &last, left.size());
  }
  if (std::atomic_ref(state_word(place)).load(std::memory_order_relaxed) != state) {
    return Reading::replaced;
  }
  if (!same) {
    return Reading::another;
  }
  if (wanted && body_checksum(bytes, seed_of(block, sequence)) != checksum) {
    damaged_.fetch_add(1, std::memory_order_relaxed);
    return Reading::useless;
  }
  return wanted ? Reading::whole : Reading::useless;
}

void NodeCache::publish(std::uint64_t place, std::uint64_t state, const NodeBlock& block,
                        std::span<const std::byte> bytes, std::uint64_t sequence) noexcept {
  std::uint64_t* word = content(place);
  std::span<const std::byte> left = bytes;
  for (; left.size() >= sizeof(*word); left = left.subspan(sizeof(*word)), ++word) {
    std::uint64_t value = 0;
    std::memcpy(&value, left.data(), sizeof(value));
    store_word(*word, value);
  }
  if (!left.empty()) {
    std::uint64_t last = 0;
    std::memcpy(&last, left.data(), left.size());
    store_word(*word, last);
  }
  Label& label = set_table_[place / ways].labels[place % ways];
  store_word(label.data_set, block.data_set);
  store_word(label.number, block.number);
  store_word(label.sequence, sequence);
  store_word(label.checksum, body_checksum(bytes, seed_of(block, sequence)));
  store_word(state_word(place), in_phase(state, PlacePhase::whole));
}

void NodeCache::abandon(std::uint64_t place, std::uint64_t state) noexcept {
  store_word(state_word(place), in_phase(state, PlacePhase::empty));
}

NodeCache::Look NodeCache::look(std::uint64_t index, std::uint64_t tag, const NodeBlock& block,
                                std::uint64_t least_sequence, std::span<std::byte> bytes) noexcept {
  Look result{Reading::another, 0, places(), 0};
  std::uint64_t least_age = ~std::uint64_t{0};
  for (std::uint64_t way = 0; way < ways; ++way) {
    const std::uint64_t place = index * ways + way;
    const std::uint64_t state = load_word(state_word(place));
    const bool same_tag = (state & tag_mask) == tag;
    if (phase_of(state) == PlacePhase::filling) {
      if (same_tag) {
        return {Reading::awaited, 0, places(), 0};
      }
      continue;
    }
    Reading reading = phase_of(state) == PlacePhase::empty ? Reading::useless : Reading::another;
    if (phase_of(state) == PlacePhase::whole && same_tag) {
      reading = read(place, state, block, least_sequence, bytes, result.sequence);
      if (reading == Reading::whole || reading == Reading::replaced) {
        result.reading = reading;
        return result;
      }
    }
    const std::uint64_t age =
        reading == Reading::useless ? 0 : std::atomic_ref(age_of(place)).load(std::memory_order_relaxed);
    if (result.place == places() || age < least_age) {
      result.place = place;
      result.state = state;
      least_age = age;
    }
  }
  return result;
}

// The blocks of a data set lie in sets one after the other, so that as many as there are places have one each. The one
// that was put there first goes first: what all ranks read at about the same time is of no use to any of them later,
// and a look leaves no trace that others would have to wait for.
NodeCache::Found NodeCache::find(const NodeBlock& block, std::uint64_t least_sequence,
                                 std::span<std::byte> bytes) noexcept {
  const std::uint64_t tag = mixed(block.data_set ^ mixed(block.number)) & tag_mask;
  const std::uint64_t index = (block.number + mixed(block.data_set) % sets_) % sets_;
  for (int turn = 0; turn < most_looks; ++turn) {
    Look seen = look(index, tag, block, least_sequence, bytes);
    if (seen.reading == Reading::whole || seen.reading == Reading::awaited) {
      return {seen.reading == Reading::whole ? Outcome::whole : Outcome::awaited, seen.sequence, {}};
    }
    if (seen.reading == Reading::replaced) {
      continue;
    }
    if (seen.place == places()) {
      break;
    }
    const std::uint64_t claimed = next_turn(seen.state, tag);
    if (std::atomic_ref(state_word(seen.place))
            .compare_exchange_strong(seen.state, claimed, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      std::atomic_ref clock(set_table_[index].clock);
      std::atomic_ref(age_of(seen.place))
          .store(clock.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return {Outcome::claimed, 0, NodeClaim(*this, seen.place, claimed, block)};
    }
  }
  return {};
}

}  // namespace tiermap
