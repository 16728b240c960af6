#include "replay/recorded_trace.hpp"

#include <fmt/format.h>

#include <map>
#include <unordered_map>

#include "config/size.hpp"
#include "observe/trace_file.hpp"
#include "tiermap/error.hpp"

namespace tiermap::simulation {
namespace {

/// What has to be known of a trace before its pages can be told apart.
struct Survey {
  struct AccessedRegion {
    std::uint64_t page_bytes = 0;
    std::uint64_t end_bytes = 0;  ///< Of the last page that was accessed.
  };
  std::map<std::uint32_t, AccessedRegion> regions;
  std::uint64_t page_bytes = 0;  ///< The largest.
  std::uint64_t accesses = 0;
  std::uint64_t lost = 0;
  bool complete = false;
};

Survey survey_trace(const std::string& path, std::uint64_t wanted_page_bytes) {
  TraceReader reader(path);
  Survey survey;
  while (const std::optional<TraceRecord> record = reader.next()) {
    if (is_access(record->kind)) {
      auto& region = survey.regions[record->region];
      region.page_bytes = reader.region(record->region).page_bytes;
      region.end_bytes = std::max(region.end_bytes, (record->page + 1) * region.page_bytes);
      survey.page_bytes = std::max(survey.page_bytes, region.page_bytes);
      ++survey.accesses;
    } else if (record->kind == TraceKind::lost) {
      survey.lost += record->page;
    }
  }
  survey.complete = reader.complete();
  if (survey.accesses == 0) {
    throw OptionError(path + " holds no access: record a run whose regions are touched");
  }
  if (wanted_page_bytes != 0 && wanted_page_bytes < survey.page_bytes) {
    throw OptionError(fmt::format(
        "page size {} is under the {} of {}: what part of a page was accessed is not known; "
        "choose {} or more, or record with smaller pages",
        format_size(wanted_page_bytes), format_size(survey.page_bytes), path, format_size(survey.page_bytes)));
  }
  survey.page_bytes = std::max(survey.page_bytes, wanted_page_bytes);
  return survey;
}

/// Numbers the pages in the order in which they are met.
class PageNumbers {
 public:
  std::uint32_t number(PageKey key, Trace& trace) {
    const auto [place, is_new] = numbers_.try_emplace(hash(key), static_cast<std::uint32_t>(trace.keys.size()));
    if (is_new) {
      if (trace.keys.size() == Trace::discarded_bit - 1) {
        throw OptionError(trace.name + " has more than two billion pages: replay it with a larger page size");
      }
      trace.keys.push_back(key);
    }
    return place->second;
  }
  const std::uint32_t* find(PageKey key) const {
    const auto place = numbers_.find(hash(key));
    return place == numbers_.end() ? nullptr : &place->second;
  }

 private:
  /// Exact: a trace's page numbers have 36 bits, and its regions' 23.
  static std::uint64_t hash(PageKey key) { return std::uint64_t{key.region} << 36U | key.page; }
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
};

void discard_region(std::uint32_t region, Trace& trace) {
  for (std::uint32_t page = 0; page < trace.keys.size(); ++page) {
    if (trace.keys[page].region == region) {
      trace.discard(page);
    }
  }
}

}  // namespace

RecordedTrace read_recorded_trace(const std::string& path, std::uint64_t page_bytes) {
  const Survey survey = survey_trace(path, page_bytes);
  RecordedTrace recorded;
  recorded.trace.name = path;
  recorded.page_bytes = survey.page_bytes;
  recorded.recorded_accesses = survey.accesses;
  recorded.lost = survey.lost;
  recorded.regions = static_cast<std::uint32_t>(survey.regions.size());
  recorded.complete = survey.complete;
  TraceReader reader(path);
  recorded.budget_bytes = reader.header().budget_bytes;
  recorded.policy = std::string(reader.header().policy.data(),
                                ::strnlen(reader.header().policy.data(), reader.header().policy.size()));
  PageNumbers numbers;
  Trace& trace = recorded.trace;
  while (const std::optional<TraceRecord> record = reader.next()) {
    const auto region = survey.regions.find(record->region);
    if (record->kind == TraceKind::region || region == survey.regions.end()) {
      continue;
    }
    const std::uint64_t own_bytes = region->second.page_bytes;
    const PageKey key{record->region, record->page / (survey.page_bytes / own_bytes)};
    if (is_access(record->kind)) {
      trace.touch(numbers.number(key, trace));
    } else if (record->kind == TraceKind::discarded && own_bytes == survey.page_bytes) {
      if (const std::uint32_t* const page = numbers.find(key)) {
        trace.discard(*page);
      }
    } else if (record->kind == TraceKind::region_end) {
      discard_region(record->region, trace);
    }
  }
  return recorded;
}

void print_accesses(const std::string& path, std::uint64_t page_bytes,
                    const std::function<void(const std::string& line)>& print) {
  const Survey survey = survey_trace(path, page_bytes);
  std::map<std::uint32_t, std::uint64_t> first_blocks;
  std::uint64_t blocks = 0;
  for (const auto& [number, region] : survey.regions) {
    first_blocks[number] = blocks;
    blocks += (region.end_bytes + survey.page_bytes - 1) / survey.page_bytes;
  }
  print(fmt::format("# tiermap-random-io --pattern trace --trace THIS --block {} --bytes {}",
                    format_size(survey.page_bytes), format_size(blocks * survey.page_bytes)));
  TraceReader reader(path);
  while (const std::optional<TraceRecord> record = reader.next()) {
    if (is_access(record->kind)) {
      const std::uint64_t own_pages = survey.page_bytes / reader.region(record->region).page_bytes;
      print(fmt::format("{} {}", record->write ? 'w' : 'r', first_blocks[record->region] + record->page / own_pages));
    }
  }
}

}  // namespace tiermap::simulation
