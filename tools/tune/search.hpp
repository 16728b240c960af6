// Tries what the decision tree proposes, one thing after another, and keeps what makes the command faster.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tune/decision_tree.hpp"
#include "tune/trial.hpp"

namespace tiermap {

struct SearchLimits {
  double seconds = 30;      ///< Of each run.
  std::uint32_t runs = 24;  ///< Of all.
};

/// A setting that is kept.
struct Adopted {
  Settings settings;
  std::string why;
  double cost_before = 0;  ///< Without it, and with what was kept before.
};

struct SearchResult {
  std::vector<Adopted> adopted;      ///< In the order in which they were found.
  std::vector<std::string> remarks;  ///< What was tried in vain, and what could not be.
  std::string before;                ///< What the command took as it is: "12.3 s".
  std::string after;                 ///< With all that is adopted.
  double spread = 0;                 ///< Share by which runs that should be equal differed.
  double least_gain = 0;             ///< Share that a setting had to gain to be kept.
  std::uint32_t runs = 0;
  bool cut_off = false;  ///< The command did not end within the limit.
  Trial last;            ///< The best run.
};

/// What stops a search: the command failed as it is. The line that says so, and the exit code to pass on.
struct CommandFailed {
  std::string message;
  std::string errors;
  int exit_code;
};

class Search {
 public:
  /// `tell` is told what is tried next, and then how that went.
  using Tell = std::function<void(const std::string& line, bool is_result)>;
  Search(std::vector<std::string> command, const SearchLimits& limits, Tell tell);

  /// Throws CommandFailed, Interrupted, and Error if there is nothing that can be tuned.
  SearchResult run();

 private:
  void measure_as_it_is();
  void check_first(const Trial& trial) const;
  double cost_of(const Trial& trial) const;
  std::string cost_text(double cost) const;
  bool may_run() const { return result_.runs < limits_.runs; }
  Trial run_once(const Settings& settings, double limit);
  bool try_out(const Proposal& proposal, std::optional<std::uint64_t> page_bytes = std::nullopt);
  bool is_fixed_in_code(const Proposal& proposal, std::optional<std::uint64_t> page_bytes, const Trial& trial);
  void climb(const std::vector<Proposal>& proposals);
  bool climb_page_sizes(const std::vector<std::uint64_t>& sizes, const std::string& why);
  void adopt(const Proposal& proposal, const Trial& trial, double cost);
  void tune_page_size();
  void confirm();
  Settings all_settings() const;
  Character character() const { return characterise(best_.statistics); }

  std::vector<std::string> command_;
  SearchLimits limits_;
  Tell tell_;
  SearchResult result_;
  Trial best_;
  double first_cost_ = 0;
  double best_cost_ = 0;
  bool page_size_is_fixed_ = false;
  bool policy_is_fixed_ = false;
};

}  // namespace tiermap
