// What tiers hold and did, for people.
#include <algorithm>
#include <array>
#include <cstdio>

#include "config/size.hpp"
#include "tiermap/tiers.hpp"

namespace tiermap {
namespace {

std::string costs(double used, double capacity) {
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "costs %.4g of %.4g", used, capacity);
  return text.data();
}

std::string line_of(const TierReport& report) {
  return format_size_rounded(report.used_bytes) + " of " + format_size_rounded(report.capacity_bytes) +
         (report.dirty_bytes > 0 ? ", " + format_size_rounded(report.dirty_bytes) + " of it only here" : "") +
         (report.failed ? ", takes nothing now" : "") +
         (report.cost_per_gigabyte > 0 ? ", " + costs(report.used_cost(), report.capacity_cost()) : "") + "\n";
}

}  // namespace

std::string format_tier_reports(const std::vector<TierReport>& reports) {
  std::string text;
  double used_cost = 0;
  double capacity_cost = 0;
  for (const TierReport& report : reports) {
    text += report.name + ": " + line_of(report);
    used_cost += report.used_cost();
    capacity_cost += report.capacity_cost();
  }
  return capacity_cost > 0 ? text + "together: " + costs(used_cost, capacity_cost) + "\n" : text;
}

}  // namespace tiermap
