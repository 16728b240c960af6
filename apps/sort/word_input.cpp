#include "sort/word_input.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "command_line/choice.hpp"
#include "parallel/random.hpp"
#include "sort/piece.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t distinct_words = 16;

}  // namespace

WordOrder parse_word_order(const std::string& text) {
  constexpr Names<WordOrder, 4> orders = {{{"uniform", WordOrder::uniform},
                                           {"ascending", WordOrder::ascending},
                                           {"descending", WordOrder::descending},
                                           {"few-distinct", WordOrder::few_distinct}}};
  return choose(orders, text, "order");
}

std::uint64_t input_word(WordOrder order, std::uint64_t index, std::uint64_t count, std::uint64_t seed) noexcept {
  switch (order) {
    case WordOrder::ascending:
      return index;
    case WordOrder::descending:
      return count - index;
    case WordOrder::few_distinct:
      return random_word(seed + 1, random_word(seed, index) % distinct_words);
    case WordOrder::uniform:
      break;
  }
  return random_word(seed, index);
}

WordSum write_words(Store& store, WordOrder order, std::uint64_t seed, ThreadTeam& team, ProgressDisplay& progress) {
  const std::uint64_t count = store.size_bytes() / sizeof(std::uint64_t);
  const std::uint64_t pieces = (count + piece_words - 1) / piece_words;
  std::vector<WordSum> sums(team.size());
  std::vector<AlignedBuffer> buffers;
  for (std::uint32_t member = 0; member < std::min(team.size(), most_buffers); ++member) {
    buffers.emplace_back(piece_bytes);
  }
  std::atomic<std::uint64_t> next{0};
  team.run([&](std::uint32_t member) {
    if (member >= buffers.size()) {
      return;
    }
    for (std::uint64_t piece = next++; piece < pieces; piece = next++) {
      const std::uint64_t first = piece * piece_words;
      const auto words = buffers[member].as_span<std::uint64_t>().first(std::min(piece_words, count - first));
      for (std::uint64_t index = 0; index < words.size(); ++index) {
        words[index] = input_word(order, first + index, count, seed);
      }
      sums[member].add(words);
      write_fully(store, words.data(), words.size_bytes(), first * sizeof(std::uint64_t));
      progress.add(words.size_bytes());
    }
  });
  WordSum sum;
  for (const WordSum& part : sums) {
    sum.add(part);
  }
  return sum;
}

}  // namespace tiermap
