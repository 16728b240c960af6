// What a Job holds on to: its connections, and the shared vectors that a barrier or lock concerns.
#pragma once

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

  JobClient& client() noexcept { return client_; }
  const JobPlace& place() const noexcept { return client_.place(); }

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

  JobClient client_;
  std::mutex mutex_;
  std::vector<SharedImplementation*> vectors_;  ///< Guarded by mutex_, as what follows.
  std::set<std::string> names_;                 ///< Of vectors that are there.
};

/// Options, the environment, and what goes without saying. Throws OptionError.
JobPlace job_place(const JobOptions& options);

}  // namespace tiermap
