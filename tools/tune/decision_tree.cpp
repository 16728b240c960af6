#include "tune/decision_tree.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/option_table.hpp"
#include "config/size.hpp"

namespace tiermap {
namespace {

/// Pages of a quarter and of four times the size are tried: what is between seldom differs by more than runs do.
constexpr std::uint64_t step = 4;
/// Fewer pages than that in the budget, and threads take each other's.
constexpr std::uint64_t least_pages = 32;
constexpr double much = 0.3;  ///< A share from which on sequential reading and reuse decide.
constexpr double notable = 0.1;
/// The paper tunes watermarks for small pages; with few large ones a percent is less than a page.
constexpr std::uint64_t largest_small_page = 64 << 10;

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double percent(double value) {
  return 100 * value;
}

std::string variable(OptionId id) {
  return std::string(option_row(id).environment);
}

std::vector<Proposal> more_threads(OptionId id, std::uint64_t now, const std::string& why) {
  constexpr std::uint64_t most = 16;
  std::vector<Proposal> proposals;
  for (std::uint64_t threads = now * 2; threads <= most; threads *= 2) {
    proposals.push_back({{{variable(id), std::to_string(threads)}}, why});
  }
  return proposals;
}

}  // namespace

Character characterise(const Statistics& statistics) {
  const auto later_touches = static_cast<std::int64_t>(statistics[Counter::rescues]) -
                             static_cast<std::int64_t>(statistics[Counter::prefetch_used]);
  const auto quantile = [&](Stage stage) {
    constexpr double nine_in_ten = 0.9;
    return statistics.stages[static_cast<std::size_t>(stage)].quantile_nanoseconds(nine_in_ten);
  };
  Character character;
  // Of small pages that a stream reads ahead one in sixteen is seen to be used, or not: it stands for the others, but
  // not for what the program itself has announced.
  constexpr std::uint64_t watched_of = 16;
  const std::uint64_t ended = statistics[Counter::prefetch_used] + statistics[Counter::prefetch_wasted];
  const std::uint64_t streamed = std::min(statistics[Counter::prefetched_pages], ended * watched_of);
  character.sequential = share(streamed, statistics[Counter::fills]) * share(statistics[Counter::prefetch_used], ended);
  character.reused =
      share(static_cast<std::uint64_t>(std::max<std::int64_t>(later_touches, 0)), statistics[Counter::fills]);
  character.wasted = share(statistics[Counter::prefetch_wasted], ended);
  character.written =
      share(statistics[Counter::written_bytes], statistics[Counter::written_bytes] + statistics[Counter::read_bytes]);
  character.waiting =
      share(statistics[Counter::frame_waits], statistics[Counter::read_faults] + statistics[Counter::write_faults]);
  character.queueing = share(quantile(Stage::queue), std::max<std::uint64_t>(quantile(Stage::read), 1));
  character.evicts = share(statistics[Counter::evictions], statistics[Counter::fills]) >= notable;
  return character;
}

PageSizes propose_page_sizes(const Character& character, std::uint64_t page_bytes, std::uint64_t budget_bytes) {
  const OptionRow& row = option_row(OptionId::page_size);
  std::vector<std::uint64_t> larger;
  std::vector<std::uint64_t> smaller;
  if (page_bytes == 0) {
    return {};
  }
  for (std::uint64_t bytes = page_bytes * step; bytes <= std::min(row.maximum, budget_bytes / least_pages);
       bytes *= step) {
    larger.push_back(bytes);
  }
  for (std::uint64_t bytes = page_bytes / step; bytes >= row.minimum; bytes /= step) {
    smaller.push_back(bytes);
  }
  const std::string seen = fmt::format(
      "{:.0f} % of the pages fetched were read ahead and used, and {:.0f} in 100 were "
      "touched again later",
      percent(character.sequential), percent(character.reused));
  const std::string for_large = "larger pages fetch more at once";
  const std::string for_small = "smaller pages fetch less that nobody uses";
  if (character.sequential >= much || character.reused >= much) {
    return {larger, smaller, seen + ": " + for_large, seen + ", and yet " + for_small};
  }
  return {smaller, larger, seen + ": " + for_small, seen + ", and yet " + for_large};
}

std::vector<Proposal> propose_read_ahead(const Character& character, std::uint64_t now_bytes,
                                         std::uint64_t budget_bytes) {
  constexpr double mostly = 0.5;
  constexpr int most_steps = 2;
  const std::string name = variable(OptionId::read_ahead);
  if (now_bytes > 0 && character.wasted > mostly) {
    return {
        {{{name, "0"}}, fmt::format("{:.0f} % of the pages read ahead were never used", percent(character.wasted))}};
  }
  std::vector<Proposal> proposals;
  if (now_bytes > 0 && character.sequential >= much) {
    std::uint64_t bytes = now_bytes;
    // A region reads no more ahead than an eighth of the budget.
    for (int index = 0; index < most_steps && bytes < budget_bytes / 8; ++index) {
      bytes = std::min(bytes * step, option_row(OptionId::read_ahead).maximum);
      proposals.push_back({{{name, format_size(bytes)}},
                           fmt::format("{:.0f} % of the pages fetched were read ahead and used: the streams can be "
                                       "followed further",
                                       percent(character.sequential))});
    }
  }
  return proposals;
}

std::optional<Proposal> propose_watermarks(const Character& character, std::uint64_t page_bytes) {
  const std::string high = variable(OptionId::high_watermark);
  const std::string low = variable(OptionId::low_watermark);
  const std::string kept = variable(OptionId::unmapped_share);
  if (!character.evicts) {
    return std::nullopt;
  }
  if (character.waiting > notable) {
    return Proposal{
        {{high, "85"}, {low, "70"}},
        fmt::format("{:.0f} % of the faults found no free page: evictors that begin earlier have one at hand",
                    percent(character.waiting))};
  }
  if (page_bytes > largest_small_page) {
    return std::nullopt;
  }
  return Proposal{{{high, "99"}, {low, "97"}, {kept, "5"}},
                  "faults seldom wait for a free page, and pages are small: more of the budget can stay mapped"};
}

std::vector<Proposal> propose_policies(const Character& character, const std::string& now) {
  if (!character.evicts) {
    return {};
  }
  const bool recency = character.reused >= notable;
  const std::vector<std::string> names = recency ? std::vector<std::string>{"lru", "small-main", "hot-fifo", "cyclic"}
                                                 : std::vector<std::string>{"cyclic", "small-main", "fifo"};
  const std::string why = recency
                              ? fmt::format(
                                    "pages are touched again while they are unmapped ({:.0f} for each 100 "
                                    "fetched): what is used again can be told",
                                    percent(character.reused))
                              : "what was unmapped is seldom touched again: only what comes back after eviction tells";
  std::vector<Proposal> proposals;
  for (const std::string& name : names) {
    if (name != now) {
      proposals.push_back({{{variable(OptionId::policy), name}}, why});
    }
  }
  return proposals;
}

std::vector<Proposal> propose_fillers(const Character& character, std::uint64_t now) {
  if (character.queueing < notable) {
    return {};
  }
  return more_threads(OptionId::fillers, now,
                      fmt::format("nine in ten faults waited up to {:.0f} % of a read's time for a thread",
                                  percent(character.queueing)));
}

std::vector<Proposal> propose_evictors(const Character& character, std::uint64_t now) {
  if (!character.evicts || (character.written < notable && character.waiting < notable)) {
    return {};
  }
  return more_threads(OptionId::evictors, now,
                      fmt::format("{:.0f} % of the bytes moved were written, and {:.0f} % of the faults found no free "
                                  "page",
                                  percent(character.written), percent(character.waiting)));
}

}  // namespace tiermap
