#include "random-io/test_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>

#include "command_line/backing.hpp"
#include "parallel/random.hpp"
#include "random-io/block_target.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20U;

/// Gives each thread pieces of whole blocks, with a buffer to work in.
void for_each_piece(
    const Store& store, std::uint64_t block_bytes, ThreadTeam& team,
    const std::function<void(std::uint64_t first_block, std::uint64_t blocks, std::span<std::uint64_t> buffer)>& job) {
  const std::uint64_t blocks = store.size_bytes() / block_bytes;
  const std::uint64_t at_once = std::max<std::uint64_t>(1, piece_bytes / block_bytes);
  std::atomic<std::uint64_t> next{0};
  team.run([&](std::uint32_t) {
    AlignedBuffer buffer(at_once * block_bytes);
    for (std::uint64_t first = next.fetch_add(at_once); first < blocks; first = next.fetch_add(at_once)) {
      const std::uint64_t count = std::min(at_once, blocks - first);
      job(first, count, buffer.as_span<std::uint64_t>().first(count * block_bytes / sizeof(std::uint64_t)));
    }
  });
}

/// What word `index` of the file holds where it is neither its block's name nor its count.
std::uint64_t filling_word(std::uint64_t seed, std::uint64_t index) noexcept {
  return random_word(~seed, index);
}

/// What is wrong with the words of `block`; empty if nothing is.
std::string describe_wrong(std::span<const std::uint64_t> words, std::uint64_t seed, std::uint64_t block,
                           std::uint32_t writes) {
  if (words[name_word] != block_name(seed, block)) {
    return fmt::format("block {} holds another one's bytes", block);
  }
  if (words[count_word] != writes) {
    return fmt::format("block {} was written {} times, and {} are on the store", block, writes, words[count_word]);
  }
  for (std::uint64_t word = 0; word < words.size(); ++word) {
    if (word != name_word && word != count_word && words[word] != filling_word(seed, block * words.size() + word)) {
      return fmt::format("block {} has other bytes at {} than it was made with", block, word * sizeof(std::uint64_t));
    }
  }
  return {};
}

}  // namespace

void write_blocks(Store& store, std::uint64_t block_bytes, std::uint64_t seed, ThreadTeam& team,
                  ProgressDisplay& progress) {
  const std::uint64_t block_words = block_bytes / sizeof(std::uint64_t);
  for_each_piece(store, block_bytes, team, [&](std::uint64_t first, std::uint64_t, std::span<std::uint64_t> buffer) {
    for (std::uint64_t word = 0; word < buffer.size(); ++word) {
      buffer[word] = filling_word(seed, first * block_words + word);
    }
    for (std::uint64_t word = 0; word < buffer.size(); word += block_words) {
      buffer[word + name_word] = block_name(seed, first + word / block_words);
      buffer[word + count_word] = 0;
    }
    write_fully(store, buffer.data(), buffer.size_bytes(), first * block_bytes);
    progress.add(buffer.size_bytes());
  });
}

std::string find_wrong_block(Store& store, std::uint64_t block_bytes, std::uint64_t seed,
                             std::span<const std::uint32_t> writes, ThreadTeam& team, ProgressDisplay& progress) {
  const std::uint64_t block_words = block_bytes / sizeof(std::uint64_t);
  std::mutex mutex;
  std::string wrong;
  for_each_piece(store, block_bytes, team,
                 [&](std::uint64_t first, std::uint64_t blocks, std::span<std::uint64_t> buffer) {
                   read_fully(store, buffer.data(), buffer.size_bytes(), first * block_bytes);
                   progress.add(buffer.size_bytes());
                   for (std::uint64_t index = 0; index < blocks; ++index) {
                     const std::uint64_t block = first + index;
                     std::string said =
                         describe_wrong(buffer.subspan(index * block_words, block_words), seed, block, writes[block]);
                     if (!said.empty()) {
                       const std::lock_guard held(mutex);
                       wrong = std::move(said);
                     }
                   }
                 });
  return wrong;
}

}  // namespace tiermap
