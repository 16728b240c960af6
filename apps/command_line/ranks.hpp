// The processes that do one run together: the ranks of a Job that mpirun, srun or the environment started, or one
// process alone, for which all of this costs nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tiermap/job.hpp"
#include "tiermap/vector_storage.hpp"

namespace tiermap {

/// Members throw StoreError as Job's do. What all ranks do together all do in the same order, each on one thread.
class Ranks {
 public:
  /// One process alone.
  Ranks() = default;
  /// Returns when all ranks have come to the servers of TIERMAP_SERVERS.
  explicit Ranks(const JobRank& place);

  std::uint32_t rank() const noexcept { return place_.rank; }
  std::uint32_t count() const noexcept { return place_.ranks; }
  bool alone() const noexcept { return job_ == nullptr; }
  /// The rank that makes files and reports.
  bool is_first() const noexcept { return place_.rank == 0; }
  /// For shared vectors; not of one alone.
  Job& job() const noexcept { return *job_; }

  /// This rank's part of so many elements: neighbours, as many as others have.
  VectorRange part_of(std::uint64_t elements) const { return partition(elements, rank(), count()); }

  void barrier();
  /// By all ranks: what all of them have, that of rank 0 first, whatever the number of each. Sums of what is gathered
  /// do not depend on the number of ranks, if each has neighbours of what they are made of, and in its order.
  template <typename T>
  std::vector<T> gather(std::span<const T> own) {
    static_assert(std::is_trivially_copyable_v<T>, "elements travel as their bytes");
    if (alone()) {
      return {own.begin(), own.end()};
    }
    std::vector<T> all;
    for (const std::vector<std::byte>& bytes : job_->gather(std::as_bytes(own))) {
      const std::size_t before = all.size();
      all.resize(before + bytes.size() / sizeof(T));
      std::ranges::copy(bytes, std::as_writable_bytes(std::span(all)).subspan(before * sizeof(T)).begin());
    }
    return all;
  }
  template <typename T>
  std::vector<T> gather(std::vector<T> own) {
    return alone() ? own : gather(std::span<const T>(own));
  }
  /// As gather(), of what is much in all. Servers send it to few ranks, and these to others; by gather() where servers
  /// have no room for it, or ranks do not reach each other.
  template <typename T>
  std::vector<T> gather_much(std::vector<T> own) {
    static_assert(std::is_trivially_copyable_v<T>, "elements travel as their bytes");
    const std::vector<std::uint64_t> counts = gather_each<std::uint64_t>(own.size());
    std::vector<T> all(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
    if (alone() || all.size() * sizeof(T) < least_much_bytes) {
      return gather(std::move(own));
    }
    const std::uint64_t before = std::accumulate(counts.begin(), counts.begin() + rank(), std::uint64_t{0});
    const auto bytes = std::as_writable_bytes(std::span(all));
    return read_much(std::as_bytes(std::span(own)), before * sizeof(T), bytes) ? all : gather(std::move(own));
  }
  static constexpr std::uint64_t least_much_bytes = std::uint64_t{2} << 20U;
  /// Of each rank one.
  template <typename T>
  std::vector<T> gather_each(const T& own) {
    return gather(std::span<const T>(&own, 1));
  }
  /// Numbers that are added up one by one, of as many places as all ranks have.
  template <typename T>
  void add_up(std::vector<T>& numbers) {
    static_assert(std::is_integral_v<T>, "what is rounded is added up in an order: gather it");
    const std::vector<T> all = gather(numbers);
    for (std::size_t place = 0; place < numbers.size(); ++place) {
      numbers[place] = 0;
      for (std::size_t from = place; from < all.size(); from += numbers.size()) {
        numbers[place] += all[from];
      }
    }
  }
  /// What rank 0 says; others' is not looked at.
  std::string text_of_first(const std::string& text);
  /// By all ranks: what each of them says, that of rank 0 first.
  std::vector<std::string> texts_of_all(const std::string& own);
  /// The first of all texts that is not empty, and which rank's it is: "rank 2: ...". Of one alone as it is.
  std::string first_complaint(const std::string& own);

  /// Throws if the job has failed.
  void require_health();
  /// True for one rank of all that ask: it is to tell the user what went wrong.
  bool is_first_to_tell() noexcept;
  /// Returns when the job has failed; at once if it has.
  void wait_for_failure() noexcept;
  /// By all ranks, at the end of what went well.
  void end();

 private:
  /// By a shared vector, in which this rank's begin at `first`. False, on all ranks, where that cannot be.
  bool read_much(std::span<const std::byte> own, std::uint64_t first, std::span<std::byte> all);

  JobRank place_;
  std::unique_ptr<Job> job_;
};

}  // namespace tiermap
