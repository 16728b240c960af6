// A Job: processes, on one node or on many, that work on the same shared vectors (tiermap/shared_vector.hpp). Each is a
// rank of so many. What they share lies on memory servers (`tiermap serve`), which every rank can reach.
//
//     tiermap::Job job;                          // Waits until all ranks are there.
//     auto sums = tiermap::SharedVector<double>::create(job, "sums", job.ranks());
//     sums[job.rank()] = work(job.rank());
//     job.barrier();                             // From here on everybody sees what everybody wrote before.
//     job.end();
//
// docs/coherence.md says exactly who sees what when.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tiermap {

/// A process among those that were started together.
struct JobRank {
  std::uint32_t rank = 0;  ///< Counted from 0.
  std::uint32_t ranks = 1;
};
/// What the environment says, as JobOptions::rank describes it. Throws OptionError for variables that are no numbers,
/// and where one of two is missing.
JobRank launched_rank();

/// What is not set is taken from the environment.
struct JobOptions {
  /// Counted from 0. TIERMAP_RANK and TIERMAP_RANKS; else what MPICH's mpirun (PMI_RANK, PMI_SIZE), Open MPI's
  /// (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE) or Slurm's srun (SLURM_PROCID, SLURM_NTASKS) tell the programs that
  /// they start; else one rank alone.
  std::optional<std::uint32_t> rank = std::nullopt;
  std::optional<std::uint32_t> ranks = std::nullopt;
  /// "node1:7070,node2:7070", the same for all ranks. TIERMAP_SERVERS. The first keeps locks and counters; vectors are
  /// striped over all.
  std::string servers;
  /// Tells jobs on the same servers apart, of one user. TIERMAP_JOB. Default: "job".
  std::string name;
  /// A rank or server that is silent for so long is gone. Default: 5 s.
  std::chrono::milliseconds timeout{5000};
  /// How long to wait for all ranks to come.
  std::chrono::milliseconds join_patience{60000};
  /// What follows is for SharedVector::read_together(), which makes ranks send pages to each other, and for what ranks
  /// of one node have together.
  ///
  /// A host or address of this node by which the other ranks reach it; they connect to a port that is free. Ranks of
  /// the same host are taken to be on one node. TIERMAP_RANK_HOST. Default: the address from which this rank reaches
  /// the first server. A server that is named by this host is near this rank (HomePlacement). If there is none, and if
  /// no host is given, those are near whose address is one of this machine's.
  std::string host;
  /// To how many others a rank sends at most, on its node and on others each; 1 to 16. The same for all ranks.
  std::uint32_t tree_degree = 2;
  /// DRAM for pages that others have not asked for yet.
  std::uint64_t relay_bytes = 16ULL << 20;
  /// DRAM of each node on which there are several ranks, for all of them together: what one of them has fetched of a
  /// vector that is in Phase::read_only, the others take from there. Comes on top of their budgets, and is taken as it
  /// fills. The same for all ranks; 0: none, else at least 64 KiB. TIERMAP_NODE_CACHE. Default: 0.
  std::optional<std::uint64_t> node_cache_bytes = std::nullopt;
  /// The job does not fail when it loses a rank, but goes on with the others: for programs that find out by
  /// Job::lost_ranks() and JobLock::lost_holder() what is to be done again. The same for all ranks. What has ranks
  /// depend on each other is refused (OptionError, ENOTSUP): SharedVector::read_together() and place_by_score(),
  /// same_address, Job::reserve_addresses() and node_cache_bytes. docs/coherence.md says what is promised.
  bool go_on_without_lost_ranks = false;
};

/// Held until unlock(), or destroyed. Movable.
class JobLock {
 public:
  JobLock(std::shared_ptr<class JobImplementation> job, std::string name,
          std::optional<std::uint32_t> lost_holder = std::nullopt);
  JobLock(JobLock&&) noexcept = default;
  JobLock& operator=(JobLock&&) = delete;
  /// unlock(). If that fails the job has failed, for all ranks: nobody is to go on without what was written under the
  /// lock, nor to wait for it. What this rank asks next in the job throws, and says why. In a job that goes on without
  /// lost ranks the others lose this one, with the lock. Also where an exception ends the block the lock is given up as
  /// if all were well: who was to make something whole, and did not, has to say so where the next one looks.
  ~JobLock();
  /// What this rank wrote goes home first: who gets the lock next sees it. Throws as Job's members, and then the lock
  /// is still held unless the job has failed.
  void unlock();
  /// The rank that had this lock last, if it was lost with it (JobOptions::go_on_without_lost_ranks): of what that rank
  /// wrote under the lock since its last release, any part may be there. Only who gets the lock next is told.
  std::optional<std::uint32_t> lost_holder() const noexcept { return lost_holder_; }

 private:
  std::shared_ptr<class JobImplementation> job_;
  std::string name_;
  std::optional<std::uint32_t> lost_holder_;
};

/// Address space that is free on all ranks, kept for what is mapped there: inaccessible before and afterwards, and
/// given up when this is destroyed, which is to come last. Movable.
class JobAddresses {
 public:
  explicit JobAddresses(std::unique_ptr<class AddressRange> range) noexcept;
  JobAddresses(JobAddresses&&) noexcept;
  JobAddresses& operator=(JobAddresses&&) noexcept;
  ~JobAddresses();
  void* data() const noexcept;
  std::size_t size() const noexcept;

 private:
  std::unique_ptr<class AddressRange> range_;
};

/// Members throw StoreError. Once a rank has ended without end(), however it died, everything that waits and everything
/// that is asked later in the job throws ECONNABORTED with a line that says which rank it was; a page that cannot be
/// fetched any more is a SIGBUS, as with every store. A rank or server that hangs is noticed within the timeout.
///
/// With JobOptions::go_on_without_lost_ranks, once all ranks have come, it is so for the rank alone that was lost, if
/// it still runs, and the others go on without it. A server's end ends the job in any case.
///
/// Thread-safe; but a rank is at one barrier at a time, and what all ranks do together all do in the same order. A
/// child that a rank forks is no rank: what it asks of the job, or of its vectors, throws StoreError (ECHILD), and to
/// destroy them there does nothing.
class Job {
 public:
  /// Returns when all ranks have come. Throws OptionError for options that cannot be, StoreError for servers that
  /// cannot be reached, ranks that disagree, and ranks that do not come (ETIMEDOUT, which ones).
  explicit Job(const JobOptions& options = {});
  /// Without end() before it the others are told that this rank has ended.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  std::uint32_t rank() const noexcept;
  std::uint32_t ranks() const noexcept;
  /// Those without which the job goes on (JobOptions::go_on_without_lost_ranks), the first one first, as of the last
  /// barrier(), gather() or other thing that all ranks do together: the same on all of them until the next one. What
  /// these ranks had released is there; of what they had not, any part; and nothing comes any more.
  std::vector<std::uint32_t> lost_ranks() const;

  /// Waits for all ranks. What any of them wrote to shared vectors before it, all see after it.
  void barrier();
  /// By all ranks: what each of them passes, in the order of ranks. It goes through the first server, and each rank
  /// gets all of it: for sums and decisions, not for data. Orders nothing else. A rank that was lost has nothing.
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes);
  /// Waits for the lock of this name, and then sees what those wrote who had it before. Not twice by one thread: that
  /// throws EDEADLK.
  JobLock lock(const std::string& name);
  /// Adds to the counter of this name, which begins with 0, and returns what it was. Orders nothing else.
  std::uint64_t fetch_add(const std::string& name, std::uint64_t summand);

  /// By all ranks: so many bytes of address space, rounded up to 4096, that lie at the same address on all of them, a
  /// multiple of 2 MiB; pointers into what is mapped there mean the same everywhere, in this job:
  ///
  ///     const tiermap::JobAddresses place = job.reserve_addresses(bytes);
  ///     auto region = cache.map("remote://node1:7070/graph", {.length = bytes, .address = place.data(),
  ///                                                           .replacement = tiermap::Replacement::reservation});
  ///
  /// A SharedVector does this itself (SharedVectorOptions::same_address). Throws PlatformError on every rank if one of
  /// them has no room, or if no place that ranks propose is free on all (EADDRNOTAVAIL).
  JobAddresses reserve_addresses(std::uint64_t bytes);

  /// True for the first rank that asks, also when the job has failed: one is to say on behalf of all what went wrong.
  /// Throws StoreError only if the first server does not answer.
  bool is_first_to_tell();

  /// By all ranks, when no shared vector is open any more and no lock held. Leaves the job, and returns when all have:
  /// what was made in it is gone then, what was open()ed is in its store, and another job may have its name. Throws
  /// StoreError on all ranks, which have left all the same, where a store did not take what was open()ed, as on a full
  /// disk: its server has it still, and tries again when it ends.
  void end();

 private:
  template <typename T>
  friend class SharedVector;
  std::shared_ptr<class JobImplementation> implementation_;
};

}  // namespace tiermap
