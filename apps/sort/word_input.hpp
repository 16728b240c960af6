// What is to be sorted: words in one of several orders, written straight to the store.
#pragma once

#include <cstdint>
#include <string>

#include "command_line/backing.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "sort/word_sum.hpp"

namespace tiermap {

enum class WordOrder : std::uint8_t { uniform, ascending, descending, few_distinct };

/// From uniform, ascending, descending, few-distinct; throws OptionError that lists them.
WordOrder parse_word_order(const std::string& text);

/// The index-th of `count` words. A pure function, so that threads can share the work in any way.
std::uint64_t input_word(WordOrder order, std::uint64_t index, std::uint64_t count, std::uint64_t seed) noexcept;

/// Fills the store with words and returns their checksum.
WordSum write_words(Store& store, WordOrder order, std::uint64_t seed, ThreadTeam& team, ProgressDisplay& progress);

}  // namespace tiermap
