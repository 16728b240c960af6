// Algorithm 1 of the paper named in tiermap/transaction.hpp: at every turn of a transaction, what it has left for good
// is given up first, and what comes next is fetched.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tiermap/transaction.hpp"
#include "vector/open_transactions.hpp"

namespace tiermap {

/// Of one transaction, and used by its thread.
///
/// Between the last access that was counted and those that were announced lie the runs `ahead_`; `expected_` says how
/// many of them touch each page. A page comes into it when it is announced, which is when it is fetched, and leaves it
/// with its last run, which is when it is given up: so no page is fetched twice while it is still expected.
class TransactionPrefetcher {
 public:
  TransactionPrefetcher(VectorStorage& vector, const Transaction& transaction, const TransactionOptions& options,
                        std::uint64_t page_bytes);
  ~TransactionPrefetcher();
  TransactionPrefetcher(const TransactionPrefetcher&) = delete;
  TransactionPrefetcher& operator=(const TransactionPrefetcher&) = delete;

  /// The position at which the next turn is due.
  std::uint64_t turn();
  /// What was changed.
  void write_back();
  void start_writing() noexcept;
  TransactionStatistics statistics() const noexcept { return statistics_; }
  /// No element from there on will be accessed; 0 of a transaction that is at its end.
  std::uint64_t needed_until() const noexcept;
  void set_end(std::uint64_t element) noexcept { end_ = element; }

 private:
  /// Pages that were asked for together.
  struct Group {
    Prefetch fetched;
    std::uint64_t pages = 0;
    std::uint64_t needed_at = 0;  ///< The first access to one of them.
    std::vector<ByteRange> ranges;
    bool kept = false;  ///< They are there, and the eviction policy has been told to keep them.
  };

  /// Those whose window is said take that, and no share.
  bool shares() const noexcept { return options_.prefetch && options_.window_bytes == 0; }
  std::uint64_t window_pages(const Statistics& now);
  void leave_behind();
  bool is_full(const Statistics& now, std::uint64_t window) const noexcept;
  void make_room(std::uint64_t window, const Statistics& now);
  void look_ahead(std::uint64_t window);
  void announce(PageAccesses run);
  void fetch_group();
  void score_later(std::uint64_t window);
  double microseconds_a_page() noexcept;
  void await_groups(std::uint64_t before);
  std::uint64_t still_there(const Group& group) const;
  void keep_fetched();
  bool is_all_there(const Statistics& now);
  std::uint64_t nap();
  std::uint64_t accesses_in(std::uint64_t runs) const noexcept;
  void collect(std::vector<std::uint64_t>& pages);
  void score(double value) noexcept;
  std::uint64_t sharer() const noexcept { return reinterpret_cast<std::uintptr_t>(this); }
  ByteRange to_write() const;

  VectorStorage& vector_;
  const std::shared_ptr<OpenTransactions> open_;  ///< Of the vector, wherever it was moved.
  const Transaction& transaction_;
  const TransactionOptions options_;
  const std::uint64_t page_bytes_;
  std::uint64_t end_;            ///< Behind the last element of all accesses.
  std::uint64_t left_ = 0;       ///< Accesses whose runs are behind.
  std::uint64_t announced_ = 0;  ///< Accesses whose runs have been looked at.
  std::deque<PageAccesses> ahead_;
  std::unordered_map<std::uint64_t, std::uint64_t> expected_;
  std::deque<Group> groups_;          ///< Not needed yet.
  std::deque<std::uint64_t> behind_;  ///< Pages that were left, the last one last; some may be expected again.
  std::uint64_t fills_ = 0;           ///< Of the region, at the last turn.
  bool needs_room_ = false;           ///< At the last turn: what was written is to leave memory.
  std::uint64_t quiet_turns_ = 0;     ///< So many had nothing fetched.
  std::uint64_t nap_ = 0;             ///< The accesses that were not looked at the last time.
  const bool tiered_;                 ///< The store makes use of scores.
  std::uint64_t scored_at_page_ = 0;  ///< How many pages were left when what comes later was scored the last time.
  std::uint64_t scored_at_nanoseconds_ = 0;
  std::uint64_t pages_left_ = 0;
  TransactionStatistics statistics_;
  // Kept for their memory.
  std::vector<PageAccesses> runs_;
  std::vector<std::uint64_t> wanted_;
  std::uint64_t wanted_at_ = 0;
  std::vector<std::uint64_t> finished_;
  std::vector<ByteRange> ranges_;
};

}  // namespace tiermap
