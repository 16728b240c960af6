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
  /// For each region where the last page that was accessed ends. One in pages of several sizes is the first of these.
  std::map<std::uint32_t, std::uint64_t> ends;
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
      const std::uint64_t own_bytes = reader.region(record->region).page_bytes;
      std::uint64_t& end = survey.ends[reader.first_of_same_bytes(record->region)];
      end = std::max(end, (record->page + 1) * own_bytes);
      survey.page_bytes = std::max(survey.page_bytes, own_bytes);
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

/// The page that the record is about, in pages of `page_bytes`, which are no smaller than its own.
PageKey key_of(const TraceReader& reader, const TraceRecord& record, std::uint64_t page_bytes) {
  return {reader.first_of_same_bytes(record.region),
          record.page / (page_bytes / reader.region(record.region).page_bytes)};
}

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
  recorded.regions = static_cast<std::uint32_t>(survey.ends.size());
  recorded.complete = survey.complete;
  TraceReader reader(path);
  recorded.budget_bytes = reader.header().budget_bytes;
  recorded.policy = std::string(reader.header().policy.data(),
                                ::strnlen(reader.header().policy.data(), reader.header().policy.size()));
  PageNumbers numbers;
  Trace& trace = recorded.trace;
  while (const std::optional<TraceRecord> record = reader.next()) {
    if (is_access(record->kind)) {
      trace.touch(numbers.number(key_of(reader, *record, survey.page_bytes), trace));
    } else if (record->kind == TraceKind::discarded && reader.region(record->region).page_bytes == survey.page_bytes) {
      if (const std::uint32_t* const page = numbers.find(key_of(reader, *record, survey.page_bytes))) {
        trace.discard(*page);
      }
    } else if (record->kind == TraceKind::region_end && survey.ends.contains(record->region)) {
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
  for (const auto& [number, end_bytes] : survey.ends) {
    first_blocks[number] = blocks;
    blocks += (end_bytes + survey.page_bytes - 1) / survey.page_bytes;
  }
  print(fmt::format("# tiermap-random-io --pattern trace --trace THIS --block {} --bytes {}",
                    format_size(survey.page_bytes), format_size(blocks * survey.page_bytes)));
  TraceReader reader(path);
  while (const std::optional<TraceRecord> record = reader.next()) {
    if (is_access(record->kind)) {
      const PageKey page = key_of(reader, *record, survey.page_bytes);
      print(fmt::format("{} {}", record->write ? 'w' : 'r', first_blocks[page.region] + page.page));
    }
  }
}

}  // namespace tiermap::simulation
