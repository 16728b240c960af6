#include "kmer/kmer_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <system_error>
#include <tuple>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t record_bytes = sizeof(KeyCount);
static_assert(record_bytes == 16);
constexpr std::uint64_t records_in_page = 4096 / record_bytes;
/// Samples of all runs in one range: half a mebibyte of records, about.
constexpr std::uint64_t samples_in_range = 32;
constexpr std::uint64_t last_key = std::numeric_limits<std::uint64_t>::max();

std::uint32_t add_counts(std::uint32_t one, std::uint32_t other) noexcept {
  const std::uint64_t sum = std::uint64_t{one} + other;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(sum, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

std::size_t sort_and_count(std::span<KeyCount> records) {
  std::sort(records.begin(), records.end(), [](const KeyCount& one, const KeyCount& other) {
    return std::tie(one.key, one.taxon) < std::tie(other.key, other.taxon);
  });
  std::size_t kept = 0;
  for (const KeyCount& record : records) {
    if (kept > 0 && records[kept - 1].key == record.key && records[kept - 1].taxon == record.taxon) {
      records[kept - 1].count = add_counts(records[kept - 1].count, record.count);
    } else {
      records[kept++] = record;
    }
  }
  return kept;
}

KmerRuns::KmerRuns(const std::string& path, std::uint64_t most_records, std::uint64_t buffer_bytes)
    : buffer_bytes_(buffer_bytes),
      file_(Backing::create(path, std::max(most_records, records_in_page) * record_bytes)) {}

KmerRuns::Filler::Filler(KmerRuns& runs)
    : runs_(runs), buffer_(runs.buffer_bytes_), records_(buffer_.as_span<KeyCount>()) {}

/// Counting equal ones may be enough: then the run that is written later is longer, and there are fewer.
void KmerRuns::Filler::make_room() {
  used_ = sort_and_count(records_.first(used_));
  if (used_ > records_.size() / 2) {
    runs_.write_run(records_.first(used_));
    used_ = 0;
  }
}

void KmerRuns::Filler::finish() {
  used_ = sort_and_count(records_.first(used_));
  if (used_ > 0) {
    runs_.write_run(records_.first(used_));
  }
  used_ = 0;
}

void KmerRuns::write_run(std::span<const KeyCount> records) {
  Run run;
  run.count = records.size();
  for (std::size_t index = 0; index < records.size(); index += sample_step) {
    run.samples.push_back(records[index].key);
  }
  {
    const std::lock_guard lock(mutex_);
    run.first = next_record_;
    // Direct I/O wants whole pages.
    next_record_ += (run.count + records_in_page - 1) / records_in_page * records_in_page;
    records_ += run.count;
  }
  write_fully(*file_.store(), records.data(), records.size_bytes(), run.first * record_bytes);
  const std::lock_guard lock(mutex_);
  runs_.push_back(std::move(run));
}

void KmerRuns::map(MemorySystem& system) {
  const std::uint64_t bytes = std::max(next_record_, records_in_page) * record_bytes;
  if (const int result = file_.store()->resize(bytes); result < 0 && result != -ENOTSUP) {
    throw StoreError(-result, fmt::format("{} cannot be cut to {} bytes: {}", file_.url(), bytes,
                                          std::generic_category().message(-result)));
  }
  system.check_memory_for(file_.size_bytes());
  std::sort(runs_.begin(), runs_.end(), [](const Run& one, const Run& other) { return one.first < other.first; });
  file_.make_cold();
  mapped_ = system.map(file_, Access::read_only);
}

std::vector<std::uint64_t> KmerRuns::range_begins() const {
  std::vector<std::uint64_t> samples;
  for (const Run& run : runs_) {
    samples.insert(samples.end(), run.samples.begin(), run.samples.end());
  }
  std::sort(samples.begin(), samples.end());
  std::vector<std::uint64_t> begins = {0};
  for (std::size_t index = samples_in_range; index < samples.size(); index += samples_in_range) {
    if (samples[index] != begins.back()) {
      begins.push_back(samples[index]);
    }
  }
  return begins;
}

std::uint64_t KmerRuns::place_of(const Run& run, std::uint64_t key) const {
  const auto after = std::lower_bound(run.samples.begin(), run.samples.end(), key) - run.samples.begin();
  if (after == 0) {
    return 0;
  }
  // Only what lies between two samples has to be looked at where it is mapped.
  const auto sample = static_cast<std::uint64_t>(after);
  const std::uint64_t begin = (sample - 1) * sample_step + 1;
  const std::uint64_t end = std::min(sample * sample_step, run.count);
  const auto* const records = reinterpret_cast<const KeyCount*>(mapped_->data()) + run.first;
  return static_cast<std::uint64_t>(
      std::lower_bound(records + begin, records + end, key,
                       [](const KeyCount& record, std::uint64_t wanted) { return record.key < wanted; }) -
      records);
}

/// Says which part of each run holds these keys, as far as the samples tell.
void KmerRuns::announce(std::uint64_t from, std::uint64_t to) const {
  std::vector<ByteRange> ranges;
  for (const Run& run : runs_) {
    const auto sample_at = [&](std::uint64_t key) {
      return static_cast<std::uint64_t>(std::lower_bound(run.samples.begin(), run.samples.end(), key) -
                                        run.samples.begin());
    };
    const std::uint64_t first = sample_at(from);
    const std::uint64_t begin = first == 0 ? 0 : (first - 1) * sample_step;
    const std::uint64_t end = std::min(sample_at(to) * sample_step, run.count);
    if (begin < end) {
      ranges.push_back({(run.first + begin) * record_bytes, (end - begin) * record_bytes});
    }
  }
  mapped_->prefetch(ranges);
}

void KmerRuns::gather(std::uint64_t from, std::uint64_t to, std::vector<KeyCount>& records) const {
  records.clear();
  const auto* const mapped = reinterpret_cast<const KeyCount*>(mapped_->data());
  for (const Run& run : runs_) {
    const std::uint64_t begin = place_of(run, from);
    const std::uint64_t end = to == last_key ? run.count : place_of(run, to);
    records.insert(records.end(), mapped + run.first + begin, mapped + run.first + end);
  }
  records.resize(sort_and_count(records));
}

void KmerRuns::merge(ThreadTeam& team, bool prefetch, ProgressDisplay& progress, const Sink& sink) {
  const std::vector<std::uint64_t> begins = range_begins();
  const auto end_of = [&](std::uint64_t range) { return range + 1 < begins.size() ? begins[range + 1] : last_key; };
  const std::uint64_t wave = team.size();
  std::vector<std::vector<KeyCount>> merged(wave);
  for (std::uint64_t first = 0; first < begins.size(); first += wave) {
    const std::uint64_t count = std::min(wave, begins.size() - first);
    team.for_each(count, [&](std::uint64_t index) {
      const std::uint64_t range = first + index;
      if (prefetch && range + wave < begins.size()) {
        announce(begins[range + wave], end_of(range + wave));
      }
      gather(begins[range], end_of(range), merged[index]);
    });
    for (std::uint64_t index = 0; index < count; ++index) {
      const std::span<const KeyCount> records = merged[index];
      for (std::size_t begin = 0; begin < records.size();) {
        std::size_t end = begin + 1;
        while (end < records.size() && records[end].key == records[begin].key) {
          ++end;
        }
        sink(records[begin].key, records.subspan(begin, end - begin));
        begin = end;
      }
      progress.add(records.size());
    }
  }
}

}  // namespace tiermap
