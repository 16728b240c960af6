#include "parallel/word_sort.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "parallel/random.hpp"
#include "parallel/vector_partition.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);
/// Tasks for each thread from one range in memory: enough that the last ones to end are short.
constexpr std::uint64_t tasks_per_thread = 8;
/// Less than this is not worth splitting by all threads together.
constexpr std::uint64_t least_task_bytes = std::uint64_t{1} << 20U;
/// What threads take at a time when they split together: long enough to be read in large pieces.
constexpr std::uint64_t block_bytes = std::uint64_t{256} << 10U;
/// How far ahead of each end of a split the program says what is coming, and in what pieces.
constexpr std::uint64_t lookahead_bytes = std::uint64_t{16} << 20U;
constexpr std::uint64_t announcement_bytes = std::uint64_t{4} << 20U;
/// Splitting that many takes a few milliseconds: between two such steps somebody may want to end the sort.
constexpr std::uint64_t least_step_words = std::uint64_t{1} << 20U;
/// Splits worse than one in 16, so many of them in a row, and values are halved instead of counts.
constexpr std::uint32_t bad_splits_borne = 4;

/// Words of the array that only need to be sorted among themselves; their values lie from low to high.
struct Range {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t low = 0;
  std::uint64_t high = ~std::uint64_t{0};
  std::uint32_t bad_splits = 0;

  std::uint64_t bytes() const { return count * word_bytes; }
  bool sorted() const { return count < 2 || low == high; }
};

/// The value below which about `share` of the range lies: from a few places, evenly spread and some words long, because
/// out of core it is places that cost.
std::uint64_t sample_quantile(std::span<const std::uint64_t> words, double share, std::uint64_t seed) {
  constexpr std::uint64_t most_samples = 1024;
  std::array<std::uint64_t, most_samples> samples;
  const bool large = words.size() >= (std::uint64_t{1} << 22U);
  const std::uint64_t places = large ? 16 : std::clamp<std::uint64_t>(words.size() / 512, 5, 63);
  const std::uint64_t run = large ? 64 : 1;
  const std::uint64_t stride = words.size() / places;
  std::uint64_t taken = 0;
  for (std::uint64_t place = 0; place < places; ++place) {
    const std::uint64_t at = place * stride + random_word(seed, place) % (stride - run + 1);
    for (std::uint64_t step = 0; step < run; ++step) {
      samples[taken++] = words[at + step];
    }
  }
  const auto middle = std::min(taken - 1, static_cast<std::uint64_t>(static_cast<double>(taken) * share));
  std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(middle),
                   samples.begin() + static_cast<std::ptrdiff_t>(taken));
  return samples[middle];
}

/// A value that splits the range: low < split <= high.
std::uint64_t choose_split(std::span<const std::uint64_t> words, const Range& range, double share, std::uint64_t seed) {
  if (range.bad_splits >= bad_splits_borne) {
    return range.low + (range.high - range.low) / 2 + 1;
  }
  return std::max(sample_quantile(words.subspan(range.first, range.count), share, seed ^ range.first), range.low + 1);
}

std::pair<Range, Range> halves(const Range& range, std::uint64_t split, std::uint64_t under) {
  const bool bad = std::max(under, range.count - under) > range.count - range.count / 16;
  const std::uint32_t bad_splits = bad ? range.bad_splits + 1 : 0;
  // Once values are halved they go on being halved: counts were of no use in this range.
  const std::uint32_t inherited = range.bad_splits >= bad_splits_borne ? range.bad_splits : bad_splits;
  return {{range.first, under, range.low, split - 1, inherited},
          {range.first + under, range.count - under, split, range.high, inherited}};
}

void sort_few(std::span<std::uint64_t> words) {
  if (has_vector_partition()) {
    sort_few_words_by_vectors(words);
  } else {
    std::sort(words.begin(), words.end());
  }
}

void sort_alone(std::span<std::uint64_t> words, Range range, const std::function<void()>& between) {
  while (!range.sorted()) {
    if (range.count >= least_step_words && between) {
      between();
    }
    if (range.count <= most_few_words) {
      sort_few(words.subspan(range.first, range.count));
      return;
    }
    const std::uint64_t split = choose_split(words, range, 0.5, range.count);
    const std::uint64_t under = partition_words(words.subspan(range.first, range.count), split);
    auto [smaller, larger] = halves(range, split, under);
    if (smaller.count > larger.count) {
      std::swap(smaller, larger);
    }
    sort_alone(words, smaller, between);
    range = larger;
  }
}

/// One sort of one array by one team.
class TeamSort {
 public:
  TeamSort(std::span<std::uint64_t> words, ThreadTeam& team, const WordSortOptions& options)
      : words_(words), team_(team), options_(options) {}

  void sort(const Range& range) {
    if (range.sorted()) {
      tell_finished(range);
      return;
    }
    if (range.bytes() <= options_.memory_bytes) {
      sort_in_memory(range);
      return;
    }
    const std::uint64_t parts = (range.bytes() + options_.memory_bytes - 1) / options_.memory_bytes;
    const std::uint64_t left_parts = parts / 2;
    const auto [left, right] = split(range, static_cast<double>(left_parts) / static_cast<double>(parts), true);
    sort(left);
    sort(right);
  }

 private:
  std::pair<Range, Range> split(const Range& range, double share, bool announce) {
    const std::uint64_t value = choose_split(words_, range, share, options_.seed);
    PartitionOptions partition;
    partition.block_words = block_bytes / word_bytes;
    if (announce && options_.ahead) {
      partition.lookahead_words = lookahead_bytes / word_bytes;
      partition.announcement_words = announcement_bytes / word_bytes;
      partition.ahead = [this, &range](std::uint64_t first, std::uint64_t count) {
        options_.ahead(range.first + first, count);
      };
    }
    if (options_.between) {
      partition.done = [this](std::uint64_t) { options_.between(); };
    }
    const auto words = words_.subspan(range.first, range.count);
    const std::uint64_t under = partition_words_together(words, value, team_, partition);
    return halves(range, value, under);
  }

  /// Splits until there are tasks enough, then gives each to one thread, in address order.
  void sort_in_memory(const Range& whole) {
    const std::uint64_t task_bytes = std::max(least_task_bytes, whole.bytes() / (tasks_per_thread * team_.size()));
    std::vector<Range> waiting = {whole};
    std::vector<Range> tasks;
    while (!waiting.empty()) {
      const Range range = waiting.back();
      waiting.pop_back();
      if (range.sorted() || range.bytes() <= task_bytes || team_.size() == 1) {
        tasks.push_back(range);
        continue;
      }
      const auto [left, right] = split(range, 0.5, range.count == whole.count);
      waiting.push_back(right);
      waiting.push_back(left);
    }
    team_.for_each(tasks.size(), [&](std::uint64_t task) {
      if (options_.between) {
        options_.between();
      }
      sort_alone(words_, tasks[task], options_.between);
      tell_finished(tasks[task]);
    });
  }

  void tell_finished(const Range& range) const {
    if (options_.finished && range.count != 0) {
      options_.finished(range.first, range.count);
    }
  }

  std::span<std::uint64_t> words_;
  ThreadTeam& team_;
  const WordSortOptions& options_;
};

}  // namespace

void sort_words(std::span<std::uint64_t> words, ThreadTeam& team, const WordSortOptions& options) {
  TeamSort(words, team, options).sort({0, words.size()});
}

void sort_words_alone(std::span<std::uint64_t> words, std::uint64_t low, std::uint64_t high) {
  sort_alone(words, {0, words.size(), low, high}, {});
}

}  // namespace tiermap
