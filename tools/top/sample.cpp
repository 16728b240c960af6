#include "top/sample.hpp"

#include <algorithm>

namespace tiermap {
namespace {

/// A slot that was given to another region in between starts at zero again.
std::uint64_t grown(std::uint64_t before, std::uint64_t after) {
  return after >= before ? after - before : after;
}

Statistics subtract(const Statistics& before, const Statistics& after) {
  Statistics change;
  for (std::size_t counter = 0; counter < counter_count; ++counter) {
    change.counters[counter] = grown(before.counters[counter], after.counters[counter]);
  }
  for (std::size_t stage = 0; stage < stage_count; ++stage) {
    const auto& old_buckets = before.stages[stage].buckets;
    const auto& new_buckets = after.stages[stage].buckets;
    for (std::size_t bucket = 0; bucket < new_buckets.size(); ++bucket) {
      change.stages[stage].buckets[bucket] = grown(old_buckets[bucket], new_buckets[bucket]);
    }
  }
  return change;
}

/// None of a region that was not there before: all of it is new.
std::vector<TopTier> compare_tiers(const ObservedRegion* earlier, const ObservedRegion& region, double seconds) {
  std::vector<TopTier> tiers;
  std::uint64_t all_reads = 0;
  std::vector<std::uint64_t> reads;
  for (std::size_t number = 0; number < region.tiers.size(); ++number) {
    const TierReport& now = region.tiers[number];
    const bool seen = earlier != nullptr && number < earlier->tiers.size() && earlier->tiers[number].name == now.name;
    const TierReport before = seen ? earlier->tiers[number] : TierReport{};
    const auto rate = [&](std::uint64_t TierReport::* count) {
      return seconds > 0 ? static_cast<double>(grown(before.*count, now.*count)) / seconds : 0;
    };
    TopTier tier;
    tier.now = now;
    tier.reads_per_second = rate(&TierReport::reads);
    tier.writes_per_second = rate(&TierReport::writes);
    tier.read_bytes_per_second = rate(&TierReport::read_bytes);
    tier.written_bytes_per_second = rate(&TierReport::written_bytes);
    reads.push_back(grown(before.reads, now.reads));
    all_reads += reads.back();
    tiers.push_back(std::move(tier));
  }
  for (std::size_t number = 0; number < tiers.size() && all_reads > 0; ++number) {
    tiers[number].share_of_reads = static_cast<double>(reads[number]) / static_cast<double>(all_reads);
  }
  return tiers;
}

const ObservedCache* find_cache(const Look& look, const ObservedCache& wanted) {
  const auto found = std::ranges::find_if(look.caches, [&](const ObservedCache& cache) {
    return cache.process == wanted.process && cache.instance == wanted.instance && cache.name == wanted.name;
  });
  return found == look.caches.end() ? nullptr : &*found;
}

const ObservedRegion* find_region(const ObservedCache* cache, const ObservedRegion& wanted) {
  if (cache == nullptr) {
    return nullptr;
  }
  const auto found = std::ranges::find_if(cache->regions, [&](const ObservedRegion& region) {
    return region.slot == wanted.slot && region.name == wanted.name && region.length_bytes == wanted.length_bytes;
  });
  return found == cache->regions.end() ? nullptr : &*found;
}

}  // namespace

double TopLine::per_second(Counter counter) const {
  return seconds > 0 ? static_cast<double>(change[counter]) / seconds : 0;
}

double TopLine::faults_per_second() const {
  return per_second(Counter::read_faults) + per_second(Counter::write_faults) + per_second(Counter::protect_faults);
}

std::optional<double> TopLine::share_without_read() const {
  const auto without = static_cast<double>(change[Counter::rescues] + change[Counter::zero_fills]);
  const auto all = static_cast<double>(change[Counter::rescues] + change[Counter::fills]);
  return all > 0 ? std::optional(without / all) : std::nullopt;
}

std::optional<double> TopLine::fault_microseconds(double share) const {
  const LatencyHistogram& histogram = change.stages[static_cast<std::size_t>(Stage::total)];
  if (histogram.count() == 0) {
    return std::nullopt;
  }
  return static_cast<double>(histogram.quantile_nanoseconds(share)) / 1000;
}

Look take_look() {
  return {std::chrono::steady_clock::now(), observe_caches()};
}

std::vector<TopLine> compare_looks(const Look& before, const Look& after) {
  // The first screen comes of two looks at once; rates over so short a time would be noise.
  constexpr double shortest_seconds = 0.01;
  const double elapsed = std::chrono::duration<double>(after.time - before.time).count();
  const double seconds = elapsed >= shortest_seconds ? elapsed : 0;
  std::vector<TopLine> lines;
  for (const ObservedCache& cache : after.caches) {
    const ObservedCache* earlier_cache = find_cache(before, cache);
    TopLine line;
    line.is_cache = true;
    line.process = cache.process;
    line.name = cache.name;
    line.policy = cache.policy;
    line.fault_mode = cache.fault_mode;
    line.now = cache.statistics;
    line.change = subtract(earlier_cache != nullptr ? earlier_cache->statistics : Statistics{}, cache.statistics);
    line.seconds = seconds;
    lines.push_back(line);
    for (const ObservedRegion& region : cache.regions) {
      TopLine region_line;
      region_line.process = cache.process;
      region_line.name = region.name;
      region_line.length_bytes = region.length_bytes;
      region_line.page_size_bytes = region.page_size_bytes;
      region_line.now = region.statistics;
      const ObservedRegion* earlier = find_region(earlier_cache, region);
      region_line.change = subtract(earlier != nullptr ? earlier->statistics : Statistics{}, region.statistics);
      region_line.seconds = seconds;
      region_line.tiers = compare_tiers(earlier, region, seconds);
      lines.push_back(std::move(region_line));
    }
  }
  return lines;
}

}  // namespace tiermap
