#include "observe/published_tiers.hpp"

#include <algorithm>
#include <span>

#include "observe/published_name.hpp"

namespace tiermap {

void PublishedTiers::publish(const std::vector<TierReport>& reports) noexcept {
  const auto shown = static_cast<std::uint32_t>(std::min<std::size_t>(reports.size(), max_tiers));
  const bool named = count.load(std::memory_order_relaxed) == shown;
  for (std::uint32_t number = 0; number < shown; ++number) {
    const TierReport& report = reports[number];
    PublishedTier& tier = tiers[number];
    if (!named) {
      copy_name(tier.name, report.name);
    }
    tier.capacity_bytes.store(report.capacity_bytes, std::memory_order_relaxed);
    tier.used_bytes.store(report.used_bytes, std::memory_order_relaxed);
    tier.dirty_bytes.store(report.dirty_bytes, std::memory_order_relaxed);
    tier.reads.store(report.reads, std::memory_order_relaxed);
    tier.writes.store(report.writes, std::memory_order_relaxed);
    tier.read_bytes.store(report.read_bytes, std::memory_order_relaxed);
    tier.written_bytes.store(report.written_bytes, std::memory_order_relaxed);
    tier.failed.store(report.failed ? 1 : 0, std::memory_order_relaxed);
  }
  count.store(shown, std::memory_order_release);
}

std::vector<TierReport> PublishedTiers::observe() const {
  std::vector<TierReport> reports;
  const std::uint32_t shown = std::min(count.load(std::memory_order_acquire), max_tiers);
  for (std::uint32_t number = 0; number < shown; ++number) {
    const PublishedTier& tier = tiers[number];
    TierReport report;
    report.name = read_name(tier.name);
    report.capacity_bytes = tier.capacity_bytes.load(std::memory_order_relaxed);
    report.used_bytes = tier.used_bytes.load(std::memory_order_relaxed);
    report.dirty_bytes = tier.dirty_bytes.load(std::memory_order_relaxed);
    report.reads = tier.reads.load(std::memory_order_relaxed);
    report.writes = tier.writes.load(std::memory_order_relaxed);
    report.read_bytes = tier.read_bytes.load(std::memory_order_relaxed);
    report.written_bytes = tier.written_bytes.load(std::memory_order_relaxed);
    report.failed = tier.failed.load(std::memory_order_relaxed) != 0;
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace tiermap
