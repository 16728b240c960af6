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

}  // namespace

void write_blocks(Store& store, std::uint64_t block_bytes, std::uint64_t seed, ThreadTeam& team,
                  ProgressDisplay& progress) {
  const std::uint64_t block_words = block_bytes / sizeof(std::uint64_t);
  for_each_piece(store, block_bytes, team, [&](std::uint64_t first, std::uint64_t, std::span<std::uint64_t> buffer) {
    for (std::uint64_t word = 0; word < buffer.size(); ++word) {
      buffer[word] = random_word(~seed, first * block_words + word);
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
                     const std::uint64_t name = buffer[index * block_words + name_word];
                     const std::uint64_t count = buffer[index * block_words + count_word];
                     if (name != block_name(seed, block) || count != writes[block]) {
                       const std::lock_guard held(mutex);
                       wrong = name != block_name(seed, block)
                                   ? fmt::format("block {} holds another one's bytes", block)
                                   : fmt::format("block {} was written {} times, and {} are on the store", block,
                                                 writes[block], count);
                     }
                   }
                 });
  return wrong;
}

}  // namespace tiermap
