// What goes wrong on any rank ends all ranks, with one line.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "command_line/ranks.hpp"

namespace tiermap {

/// Looks twice a second whether the job has failed, and then ends the process with exit code 1, after removing what it
/// had made and not finished: whatever its threads are at, which may not ask for long. Members are thread-safe.
class RankFailures {
 public:
  /// `complain` puts a line before the user.
  RankFailures(Ranks& ranks, std::function<void(const std::string&)> complain);
  ~RankFailures();
  RankFailures(const RankFailures&) = delete;
  RankFailures& operator=(const RankFailures&) = delete;

  /// One rank of all that call this says its `message`, and the others nothing. Returns when it is said: what started
  /// the ranks may end all of them with the first one.
  void tell(const std::string& message);
  /// Before the job's end.
  void stop_looking();

 private:
  void look();

  Ranks& ranks_;
  const std::function<void(const std::string&)> complain_;
  std::mutex telling_;
  bool told_ = false;  ///< By this rank, or not its turn. Guarded by telling_.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  ///< Guarded by mutex_.
  std::thread thread_;
};

}  // namespace tiermap
