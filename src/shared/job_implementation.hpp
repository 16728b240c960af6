// What a Job holds on to: its connections, and the shared vectors that a barrier or lock concerns.
#pragma once

#include <unistd.h>

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/job/job_client.hpp"
#include "tiermap/job.hpp"

namespace tiermap {

class SharedImplementation;

/// Thread-safe.
class JobImplementation {
 public:
  explicit JobImplementation(const JobPlace& place) : client_(place) {}

  /// Throws as require_here().
  JobClient& client() {
    require_here();
    return client_;
  }
  const JobPlace& place() const noexcept { return client_.place(); }

  /// A child of a fork() is no rank, and threads that it has not may have had any lock.
  bool in_child() const noexcept { return ::getpid() != owner_; }
  /// Throws StoreError (ECHILD) in such a child.
  void require_here() const;

  /// So that no rank makes a vector twice. Throws OptionError.
  void claim(const std::string& name);
  void give_back(const std::string& name) noexcept;
  void add(SharedImplementation& vector);
  void remove(SharedImplementation& vector) noexcept;

  void barrier();
  std::optional<std::uint32_t> lock(const std::string& name);
  void unlock(const std::string& name);
  /// For who cannot be told: the job fails if it cannot be unlocked.
  void unlock_or_fail(const std::string& name) noexcept;
  /// Throws OptionError in a job that goes on without ranks that it loses.
  void require_all_ranks(const std::string& doing) const;
  void end();

 private:
  /// Of those that are open now. A vector is not closed while others are at a barrier or lock.
  void release_all();
  void acquire_all();

  const pid_t owner_ = ::getpid();
  JobClient client_;
  std::mutex mutex_;
  std::vector<SharedImplementation*> vectors_;  ///< Guarded by mutex_, as what follows.
  std::set<std::string> names_;                 ///< Of vectors that are there.
};

/// Options, the environment, and what goes without saying. Throws OptionError.
JobPlace job_place(const JobOptions& options);

}  // namespace tiermap
