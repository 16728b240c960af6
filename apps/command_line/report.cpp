#include "command_line/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "config/size.hpp"

namespace tiermap {
namespace {

std::uint64_t absent_page_faults(const Statistics& statistics) {
  return statistics[Counter::read_faults] + statistics[Counter::write_faults];
}

nlohmann::ordered_json counters_of(const Statistics& statistics) {
  nlohmann::ordered_json counters = nlohmann::ordered_json::object();
  for (std::size_t index = 0; index < counter_count; ++index) {
    counters[counter_name(static_cast<Counter>(index))] = statistics.counters[index];
  }
  return counters;
}

/// Over a network, decoded or from the page cache: more than what was read from disks and happened to be beside it.
bool came_from_elsewhere(double paged_in, double read) {
  constexpr double tenth_more = 1.1;
  return paged_in > tenth_more * read;
}

}  // namespace

Measurement::Measurement(const MemorySystem& system) : system_(system) {
  reset_peak_resident();
  resume();
}

void Measurement::resume() {
  statistics_ = system_.statistics();
  usage_ = read_process_usage();
  watch_ = StopWatch();
}

void Measurement::pause() {
  seconds += watch_.seconds();
  const ProcessUsage now = read_process_usage();
  const Statistics statistics = system_.statistics();
  user_seconds += now.user_seconds - usage_.user_seconds;
  system_seconds += now.system_seconds - usage_.system_seconds;
  read_bytes += now.read_bytes - usage_.read_bytes;
  written_bytes += now.written_bytes - usage_.written_bytes;
  paged_in_bytes += statistics[Counter::read_bytes] - statistics_[Counter::read_bytes];
  paged_out_bytes += statistics[Counter::written_bytes] - statistics_[Counter::written_bytes];
  minor_faults += now.minor_faults - usage_.minor_faults;
  // The engine's own threads take no major faults worth counting; what the program waited for is in the statistics.
  const std::uint64_t served = absent_page_faults(statistics) - absent_page_faults(statistics_);
  faults += std::max(served, now.major_faults - usage_.major_faults);
  peak_rss_bytes = std::max(peak_rss_bytes, peak_resident_bytes());
}

void Report::describe(const WorkloadOptions& options, const MemorySystem& system, const Measurement& measured) {
  nlohmann::ordered_json shared;
  shared["workload"] = workload;
  shared["system"] = system_name(options.system);
  shared["seconds"] = measured.seconds;
  shared["operations"] = operations;
  shared["bytes"] = bytes;
  shared["budget_bytes"] = system.budget_bytes();
  shared["page_size"] = system.page_size_bytes();
  shared["threads"] = options.threads;
  shared["read_bytes"] = measured.read_bytes;
  shared["written_bytes"] = measured.written_bytes;
  if (options.system == System::tiermap) {
    shared["paged_in_bytes"] = measured.paged_in_bytes;
    shared["paged_out_bytes"] = measured.paged_out_bytes;
  }
  shared["faults"] = measured.faults;
  shared["peak_rss_bytes"] = measured.peak_rss_bytes;
  shared["verified"] = verified.has_value() ? nlohmann::ordered_json(*verified) : nlohmann::ordered_json(nullptr);
  shared["minor_faults"] = measured.minor_faults;
  shared["user_seconds"] = measured.user_seconds;
  shared["system_seconds"] = measured.system_seconds;
  shared["madvise"] = options.advice == Advice::random       ? "random"
                      : options.advice == Advice::sequential ? "sequential"
                                                             : "normal";
  shared["prefetch"] = options.prefetch;
  shared["seed"] = options.seed;
  shared["engine"] = system.description();
  if (options.system == System::tiermap) {
    shared["counters"] = counters_of(system.statistics());
  }
  for (const auto& [name, value] : fields.items()) {
    shared[name] = value;
  }
  fields = std::move(shared);
}

void Report::combine(Ranks& ranks) {
  if (ranks.alone()) {
    return;
  }
  failure = ranks.first_complaint(failure);
  if (verified.has_value()) {
    verified = failure.empty();
    fields["verified"] = *verified;
  }
  // Whole numbers stay what they are.
  const auto combine_number = [&](nlohmann::ordered_json& number, const auto& of_all) {
    if (number.is_number_float()) {
      number = of_all(ranks.gather_each(number.get<double>()));
    } else {
      number = of_all(ranks.gather_each(number.get<std::uint64_t>()));
    }
  };
  const auto take_most = [&](nlohmann::ordered_json& number) {
    combine_number(number, [](const auto& all) { return std::ranges::max(all); });
  };
  const auto add_up = [&](nlohmann::ordered_json& number) {
    combine_number(number, [](const auto& all) { return std::reduce(all.begin(), all.end()); });
  };
  for (const char* const most : {"seconds", "prepare_seconds", "load_seconds", "verify_seconds", "peak_rss_bytes"}) {
    if (fields.contains(most)) {
      take_most(fields[most]);
    }
  }
  for (const char* const sum : {"read_bytes", "written_bytes", "paged_in_bytes", "paged_out_bytes", "faults",
                                "minor_faults", "user_seconds", "system_seconds"}) {
    if (fields.contains(sum)) {
      add_up(fields[sum]);
    }
  }
  if (fields.contains("counters")) {
    for (nlohmann::ordered_json& counter : fields["counters"]) {
      add_up(counter);
    }
  }
  fields["ranks"] = ranks.count();
}

std::string Report::summary() const {
  const auto number = [&](const char* name) { return fields.at(name).get<double>(); };
  const auto size = [&](const char* name) { return format_size_rounded(number(name)); };
  const auto name = fields.at("system").get<std::string>();
  // The other systems have no budget.
  const std::string memory = name == system_name(System::tiermap) ? " in " + size("budget_bytes") + " of memory" : "";
  const auto threads = fields.at("threads").get<std::uint32_t>();
  const std::string ranks =
      fields.contains("ranks") ? fmt::format(" on each of {} ranks", fields.at("ranks").get<std::uint32_t>()) : "";
  std::string text = fmt::format("{} with {}: {:.2f} s, {}{}, {} thread{}{}\n", workload, name, number("seconds"),
                                 size("bytes"), memory, threads, threads == 1 ? "" : "s", ranks);
  text += fmt::format("read {} from disks, wrote {}, {} faults, peak {} resident\n", size("read_bytes"),
                      size("written_bytes"), fields.at("faults").get<std::uint64_t>(), size("peak_rss_bytes"));
  if (fields.contains("paged_in_bytes") && came_from_elsewhere(number("paged_in_bytes"), number("read_bytes"))) {
    text += fmt::format("{} came from the stores of its regions, {} went there\n", size("paged_in_bytes"),
                        size("paged_out_bytes"));
  }
  if (!remark.empty()) {
    text += remark + "\n";
  }
  if (fields.contains("file")) {
    text += fmt::format("kept: {}\n", fields.at("file").get<std::string>());
  }
  text += !verified.has_value() ? "not verified\n" : *verified ? "verified\n" : fmt::format("WRONG: {}\n", failure);
  return text;
}

}  // namespace tiermap
