// What came of the program's mappings, for --verbose as it happens and for --report at the end.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "preload/settings.hpp"
#include "tiermap/statistics.hpp"

namespace tiermap::preload {

/// What ends: the process, or the program that it runs, by exec().
enum class Ending { process, program };

/// Thread-safe.
class Outcome {
 public:
  /// Of the first process there is a report also if it mapped nothing, but not of its children, nor before exec().
  explicit Outcome(const Settings& settings)
      : verbose_(settings.verbose),
        serve_all_(settings.serve_all),
        report_(settings.report),
        always_(settings.first_process) {}

  void served(const std::string& path, std::uint64_t bytes);
  /// What is served has got that many addresses more.
  void lengthened(std::uint64_t bytes) noexcept;
  /// A mapping the kernel was given at once. `fits`: one that was not chosen, and would have been left to it as well
  /// because it fits in memory.
  void left_to_kernel(const std::string& path, const std::string& reason, bool fits = false);
  /// The same of a small one, of so many that --verbose names no file.
  void passed_over(const std::string& path, const char* reason, std::uint64_t bytes);
  /// Whether anything is to be said at all.
  bool wanted() const noexcept { return !report_.empty() || verbose_; }
  /// One that was served until now.
  void given_back(const std::string& path, const std::string& reason);
  /// In a child, which has done nothing yet.
  void begin_anew() noexcept;
  /// Where data may be lost: said without being asked.
  static void complain(const std::string& text);

  /// Many programs close standard error before they end. Returns the descriptor that the report is written to then.
  int keep_standard_error() noexcept;
  /// Appends the report, if one is wanted. `statistics` may be null: no cache was made.
  void report(Ending ending, const Statistics* statistics, std::uint64_t page_bytes) const;

 private:
  void say_once(const std::string& text);
  void note_left(const std::string& path, const std::string& reason);
  std::string advise_to_serve() const;

  const bool verbose_;
  const bool serve_all_;
  const std::string report_;
  bool always_;
  int standard_error_ = STDERR_FILENO;
  mutable std::mutex mutex_;
  std::set<std::string> said_;
  std::map<std::string, std::uint64_t> left_;   ///< Reason, and how many mappings.
  std::map<std::string, std::uint64_t> given_;  ///< The same.
  std::string unnamed_path_;                    ///< The first that no --match named.
  bool unchosen_fits_ = false;
  std::uint64_t large_among_small_ = 0;  ///< Bytes of the largest that was too small.
  std::uint64_t served_mappings_ = 0;
  std::uint64_t served_bytes_ = 0;
};

}  // namespace tiermap::preload
