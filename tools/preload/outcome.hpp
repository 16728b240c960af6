// What came of the program's mappings, for --verbose as it happens and for --report at the end.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "tiermap/statistics.hpp"

namespace tiermap::preload {

/// Thread-safe.
class Outcome {
 public:
  Outcome(bool verbose, std::string report) : verbose_(verbose), report_(std::move(report)) {}

  void served(const std::string& path, std::uint64_t bytes);
  /// A mapping the kernel was given at once. `detail` may be empty.
  void left_to_kernel(const std::string& path, const std::string& reason);
  /// One that was served until now.
  void given_back(const std::string& path, const std::string& reason);
  /// In a child, which has done nothing yet.
  void begin_anew() noexcept;
  /// Where data may be lost: said without being asked.
  static void complain(const std::string& text);

  /// Appends the report, if one is wanted. `statistics` may be null: no cache was made.
  void report(const Statistics* statistics, std::uint64_t page_bytes) const;

 private:
  void say_once(const std::string& text);

  const bool verbose_;
  const std::string report_;
  mutable std::mutex mutex_;
  std::set<std::string> said_;
  std::map<std::string, std::uint64_t> left_;   ///< Reason, and how many mappings.
  std::map<std::string, std::uint64_t> given_;  ///< The same.
  std::uint64_t served_mappings_ = 0;
  std::uint64_t served_bytes_ = 0;
};

}  // namespace tiermap::preload
