// Jobs that failed before all their ranks had come: those who come later are told, and do not wait for who is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace tiermap {

/// Who has come to a job so far, and since when it has failed.
struct JobStart {
  std::set<std::uint32_t> come;
  std::uint64_t failed_at = 0;  ///< Nanoseconds.

  /// Whether a rank is one that this start still waited for when it failed, and not of a later job of the same name: it
  /// has not come, and has been on its way, for `reach` nanoseconds, since before the failure. Once for each rank.
  bool claims(std::uint32_t rank, std::uint64_t reach, std::uint64_t now) {
    return now - failed_at <= reach && come.insert(rank).second;
  }
};

/// The guard is the owner's.
class FailedStarts {
 public:
  /// By user and name.
  using Key = std::pair<std::string, std::string>;

  void remember(const Key& job, JobStart start, const std::string& failure);
  /// Why the rank's job has failed. Nothing if a new one begins, and then the old one is forgotten.
  std::optional<std::string> why(const Key& job, std::uint32_t rank, std::uint64_t reach, std::uint64_t now);

 private:
  struct Failed {
    JobStart start;
    std::string failure;
  };
  static constexpr std::size_t most_ = 256;  ///< The oldest is forgotten for another one.

  std::map<Key, Failed> failed_;
};

}  // namespace tiermap
