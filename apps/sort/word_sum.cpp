#include "sort/word_sum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "parallel/random.hpp"
#include "sort/piece.hpp"

namespace tiermap {
namespace {

/// What one piece tells; enough to join pieces in order.
struct PieceCheck {
  WordSum sum;
  std::optional<std::uint64_t> disorder;  ///< From the piece's start.
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

PieceCheck check_piece(std::span<const std::uint64_t> words) {
  PieceCheck piece;
  piece.sum.add(words);
  piece.first = words.front();
  piece.last = words.back();
  const auto broken = std::is_sorted_until(words.begin(), words.end());
  if (broken != words.end()) {
    piece.disorder = static_cast<std::uint64_t>(broken - words.begin());
  }
  return piece;
}

WordCheck join(const std::vector<PieceCheck>& pieces) {
  WordCheck check;
  for (std::size_t index = 0; index < pieces.size(); ++index) {
    check.sum.add(pieces[index].sum);
    if (check.disorder.has_value()) {
      continue;
    }
    if (index != 0 && pieces[index].first < pieces[index - 1].last) {
      check.disorder = index * piece_words;
    } else if (pieces[index].disorder.has_value()) {
      check.disorder = index * piece_words + *pieces[index].disorder;
    }
  }
  return check;
}

}  // namespace

void WordSum::add(std::span<const std::uint64_t> words) noexcept {
  WordSum added;
  added.count = words.size();
  for (const std::uint64_t word : words) {
    const std::uint64_t hash = mix_word(word + 0x9e3779b97f4a7c15U);
    added.sum += word;
    added.hash_sum += hash;
    added.hash_xor ^= mix_word(hash);
  }
  add(added);
}

void WordSum::add(const WordSum& other) noexcept {
  count += other.count;
  sum += other.sum;
  hash_sum += other.hash_sum;
  hash_xor ^= other.hash_xor;
}

WordCheck check_words(std::span<const std::uint64_t> words, ThreadTeam& team) {
  std::vector<PieceCheck> pieces((words.size() + piece_words - 1) / piece_words);
  team.for_each(pieces.size(), [&](std::uint64_t index) {
    const std::uint64_t first = index * piece_words;
    pieces[index] = check_piece(words.subspan(first, std::min(piece_words, words.size() - first)));
  });
  return join(pieces);
}

WordCheck check_words(Store& store, ThreadTeam& team) {
  const std::uint64_t count = store.size_bytes() / sizeof(std::uint64_t);
  std::vector<PieceCheck> pieces((count + piece_words - 1) / piece_words);
  std::vector<AlignedBuffer> buffers;
  for (std::uint32_t member = 0; member < std::min(team.size(), most_buffers); ++member) {
    buffers.emplace_back(piece_bytes);
  }
  std::atomic<std::uint64_t> next{0};
  team.run([&](std::uint32_t member) {
    if (member >= buffers.size()) {
      return;
    }
    const std::span<std::uint64_t> buffer = buffers[member].as_span<std::uint64_t>();
    for (std::uint64_t index = next++; index < pieces.size(); index = next++) {
      const std::uint64_t first = index * piece_words;
      const auto words = buffer.first(std::min(piece_words, count - first));
      read_fully(store, words.data(), words.size_bytes(), first * sizeof(std::uint64_t));
      pieces[index] = check_piece(words);
    }
  });
  return join(pieces);
}

std::string explain_difference(const WordSum& before, const WordCheck& after) {
  if (before.count != after.sum.count) {
    return fmt::format("there were {} words and now there are {}", before.count, after.sum.count);
  }
  if (before != after.sum) {
    return fmt::format("the words are not those that were there before: their sum was {:016x} and is {:016x}",
                       before.sum, after.sum.sum);
  }
  if (after.disorder.has_value()) {
    return fmt::format("word {} is smaller than the one before it", *after.disorder);
  }
  return {};
}

}  // namespace tiermap
