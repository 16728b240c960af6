#include "tune/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "config/option_table.hpp"
#include "config/resolve.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr double usual_gain = 0.05;

/// What environment and file leave an option at.
std::uint64_t number_now(OptionId id) {
  for (const OptionReport& report : report_options()) {
    if (report.name == option_row(id).name) {
      return report.number.value_or(0);
    }
  }
  return 0;
}

std::string text_of(const Settings& settings) {
  std::string text;
  for (const auto& [variable, value] : settings) {
    text += (text.empty() ? "" : " ") + variable + "=" + value;
  }
  return text;
}

}  // namespace

Search::Search(std::vector<std::string> command, const SearchLimits& limits, Tell tell)
    : command_(std::move(command)), limits_(limits), tell_(std::move(tell)) {}

// Less is better. A command that ends is measured by its time. One that is cut off is measured by what a second of its
// own work took: faults or bytes are no measure, as pages of another size change both.
double Search::cost_of(const Trial& trial) const {
  if (trial.exit_code != 0 && trial.finished) {
    return never;
  }
  if (!result_.cut_off) {
    return trial.finished ? trial.seconds : never;
  }
  return trial.work_seconds > 0 ? trial.paged_seconds / trial.work_seconds : never;
}

std::string Search::cost_text(double cost) const {
  return result_.cut_off ? fmt::format("{:.3g} s of its own work a second", 1 / cost) : fmt::format("{:.3g} s", cost);
}

Settings Search::all_settings() const {
  Settings settings;
  for (const Adopted& adopted : result_.adopted) {
    settings.insert(settings.end(), adopted.settings.begin(), adopted.settings.end());
  }
  return settings;
}

Trial Search::run_once(const Settings& settings, double limit) {
  ++result_.runs;
  tell_(fmt::format("run {} of at most {}: {}", result_.runs, limits_.runs,
                    settings.empty() ? "as it is" : text_of(settings)),
        false);
  return run_trial(command_, settings, limit);
}

void Search::check_first(const Trial& trial) const {
  const std::string name = quote_value(command_.front());
  if (trial.finished && trial.exit_code != 0) {
    throw CommandFailed{
        fmt::format("command {} ended with exit code {} as it is: nothing was tuned", name, trial.exit_code),
        trial.errors, trial.exit_code};
  }
  if (!trial.seen) {
    throw Error(ENOENT,
                fmt::format("command {} showed no cache in {:.3g} s: it does not use Tiermap, ends too soon, or keeps "
                            "publish_statistics false in code; nothing was tuned",
                            name, trial.seconds));
  }
  if (trial.fault_mode == "kernel") {
    throw Error(ENOTSUP, fmt::format("command {} runs in fault mode kernel, which has nothing to tune: see 'tiermap "
                                     "doctor'",
                                     name));
  }
  if (trial.statistics[Counter::fills] == 0) {
    throw Error(ENODATA, fmt::format("command {} fetched no page in {:.3g} s: give it more --seconds, or more to do",
                                     name, trial.seconds));
  }
}

void Search::measure_as_it_is() {
  best_ = run_once({}, limits_.seconds);
  check_first(best_);
  result_.cut_off = !best_.finished;
  // The kernel counts by ticks of a hundredth of a second, and not very well: fewer than 50 say nothing.
  constexpr double least_work_seconds = 0.5;
  if (result_.cut_off && best_.work_seconds < least_work_seconds) {
    throw Error(ENODATA,
                fmt::format("command {} was cut off after {:.3g} s, in which it worked {:.3g} s itself: too little "
                            "to compare runs by; let it end, with more --seconds or less to do",
                            quote_value(command_.front()), best_.seconds, best_.work_seconds));
  }
  const double first = cost_of(best_);
  tell_(cost_text(first), true);
  Trial again = run_once({}, limits_.seconds);
  const double second = cost_of(again);
  if (second == never) {
    check_first(again);
    throw Error(ENODATA,
                fmt::format("command {} took {} once and was not done in {:.3g} s when it ran again: give more "
                            "--seconds",
                            quote_value(command_.front()), cost_text(first), again.seconds));
  }
  tell_(cost_text(second), true);
  if (second < first) {
    best_ = std::move(again);
  }
  best_cost_ = first_cost_ = std::min(first, second);
  result_.spread = std::abs(first - second) / best_cost_;
  // Two runs that must both gain, and all once more side by side in the end, forgive some of it.
  constexpr double most_gain = 0.2;
  result_.least_gain = std::max(usual_gain, std::min(result_.spread / 2, most_gain));
  constexpr double large_spread = 0.25;
  if (result_.spread > large_spread) {
    result_.remarks.emplace_back(
        "runs of the same command differ much: end what else runs on the machine, or let the "
        "command do more");
  }
}

void Search::adopt(const Proposal& proposal, const Trial& trial, double cost) {
  const auto same = std::ranges::find_if(result_.adopted, [&](const Adopted& adopted) {
    return adopted.settings.front().first == proposal.settings.front().first;
  });
  // A further step of the same option takes the place of the one before.
  Adopted adopted{proposal.settings, "", same == result_.adopted.end() ? best_cost_ : same->cost_before};
  adopted.why = fmt::format("{}: {} instead of {}", proposal.why, cost_text(cost), cost_text(adopted.cost_before));
  if (same == result_.adopted.end()) {
    result_.adopted.push_back(std::move(adopted));
  } else {
    *same = std::move(adopted);
  }
  best_ = trial;
  best_cost_ = cost;
}

// Whether the program had another page size or policy than was proposed; says so.
bool Search::is_fixed_in_code(const Proposal& proposal, std::optional<std::uint64_t> page_bytes, const Trial& trial) {
  const auto& [variable, value] = proposal.settings.front();
  if (page_bytes && trial.seen && trial.page_bytes != 0 && trial.page_bytes != *page_bytes) {
    page_size_is_fixed_ = true;
    result_.remarks.push_back("the program sets its page size in code, over the environment: " +
                              format_size(trial.page_bytes));
    return true;
  }
  if (variable == option_row(OptionId::policy).environment && trial.seen && trial.policy != value) {
    policy_is_fixed_ = true;
    result_.remarks.push_back("the program sets its policy in code, over the environment: " + trial.policy);
    return true;
  }
  return false;
}

// `page_bytes`: what the pages have to be then.
bool Search::try_out(const Proposal& proposal, std::optional<std::uint64_t> page_bytes) {
  // Who is so much slower than the best need not be heard out.
  constexpr double patience = 1.5;
  constexpr double least_patience_seconds = 0.2;
  const double limit =
      result_.cut_off ? limits_.seconds : std::min(limits_.seconds, best_cost_ * patience + least_patience_seconds);
  Settings settings = all_settings();
  std::erase_if(settings, [&](const auto& setting) { return setting.first == proposal.settings.front().first; });
  settings.insert(settings.end(), proposal.settings.begin(), proposal.settings.end());
  Trial trial = run_once(settings, limit);
  if (is_fixed_in_code(proposal, page_bytes, trial)) {
    tell_(result_.remarks.back(), true);
    return false;
  }
  double cost = cost_of(trial);
  const double goal = best_cost_ * (1 - result_.least_gain);
  if (cost < goal && may_run()) {
    // Once may be luck: the slower of two runs counts.
    tell_(cost_text(cost) + ", once more", true);
    Trial again = run_once(settings, limit);
    const double second = cost_of(again);
    if (second > cost) {
      cost = second;
      trial = std::move(again);
    }
  }
  if (cost < goal) {
    tell_(cost_text(cost) + ", kept", true);
    adopt(proposal, trial, cost);
    return true;
  }
  std::string outcome;
  if (trial.finished && trial.exit_code != 0) {
    outcome = fmt::format("it failed with exit code {}", trial.exit_code);
  } else if (cost == never) {
    outcome = fmt::format("not done after {:.3g} s", trial.seconds);
  } else {
    outcome = cost_text(cost);
  }
  result_.remarks.push_back(fmt::format("in vain: {} ({})", text_of(proposal.settings), outcome));
  tell_(outcome + ", not kept", true);
  return false;
}

void Search::climb(const std::vector<Proposal>& proposals) {
  for (const Proposal& proposal : proposals) {
    if (!may_run() || !try_out(proposal)) {
      return;
    }
  }
}

// Whether the first step helped.
bool Search::climb_page_sizes(const std::vector<std::uint64_t>& sizes, const std::string& why) {
  const std::string variable(option_row(OptionId::page_size).environment);
  bool helped = false;
  for (const std::uint64_t bytes : sizes) {
    if (!may_run() || page_size_is_fixed_ || !try_out({{{variable, format_size(bytes)}}, why}, bytes)) {
      break;
    }
    helped = true;
  }
  return helped;
}

void Search::tune_page_size() {
  if (!best_.one_page_size) {
    result_.remarks.emplace_back("the program's regions have pages of several sizes, set in code: not tried");
    return;
  }
  if (best_.page_bytes == 0) {
    result_.remarks.emplace_back(
        "page size: not tried, as no region that fetched pages was there long enough to be seen");
    return;
  }
  const PageSizes sizes = propose_page_sizes(character(), best_.page_bytes, best_.budget_bytes);
  if (!climb_page_sizes(sizes.likely, sizes.why_likely)) {
    climb_page_sizes(sizes.unlikely, sizes.why_unlikely);
  }
}

// What was found step by step has to hold against the command as it is, side by side: each run of the one faster than
// each of the other.
void Search::confirm() {
  constexpr std::uint32_t pairs = 2;
  if (result_.adopted.empty()) {
    return;
  }
  if (limits_.runs - result_.runs < 2 * pairs) {
    result_.remarks.push_back(text_of(all_settings()) +
                              ": faster when tried, but no runs were left to compare it once more: give more --runs");
    result_.adopted.clear();
    return;
  }
  double worst_tuned = 0;
  double best_untuned = never;
  for (std::uint32_t run = 0; run < 2 * pairs; ++run) {
    const bool tuned = run % 2 == 1;
    const double cost = cost_of(run_once(tuned ? all_settings() : Settings(), limits_.seconds));
    tell_(cost == never ? "not done" : cost_text(cost), true);
    if (tuned) {
      worst_tuned = std::max(worst_tuned, cost);
    } else {
      best_untuned = std::min(best_untuned, cost);
    }
  }
  if (best_untuned == never) {
    result_.remarks.push_back(
        fmt::format("as it is it was not done in {:.3g} s, or failed, when all was compared again", limits_.seconds));
  } else {
    first_cost_ = best_untuned;
  }
  best_cost_ = worst_tuned;
  if (worst_tuned >= best_untuned * (1 - usual_gain)) {
    result_.remarks.push_back(text_of(all_settings()) + ": faster when tried, and not when all was compared again");
    result_.adopted.clear();
  }
}

SearchResult Search::run() {
  measure_as_it_is();
  tune_page_size();
  climb(propose_read_ahead(character(), number_now(OptionId::read_ahead), best_.budget_bytes));
  if (const std::optional<Proposal> watermarks = propose_watermarks(character(), best_.page_bytes);
      watermarks && may_run()) {
    try_out(*watermarks);
  }
  for (const Proposal& policy : propose_policies(character(), best_.policy)) {
    if (may_run() && !policy_is_fixed_ && best_.policy != policy.settings.front().second) {
      try_out(policy);
    }
  }
  climb(propose_fillers(character(), number_now(OptionId::fillers)));
  climb(propose_evictors(character(), number_now(OptionId::evictors)));
  confirm();
  result_.before = cost_text(first_cost_);
  result_.after = cost_text(best_cost_);
  result_.last = best_;
  return result_;
}

}  // namespace tiermap
