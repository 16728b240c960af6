// A shared data set as a rank sees it: at its homes, which are one server or several that have a stripe each in turn.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cluster/job/home_counters.hpp"
#include "cluster/job/job_client.hpp"
#include "cluster/remote/placement.hpp"
#include "cluster/remote/score_sender.hpp"
#include "tiermap/region.hpp"
#include "tiermap/shared_statistics.hpp"

namespace tiermap {

/// Thread-safe.
class HomeClient {
 public:
  struct Form {
    std::string name;         ///< Of the data set on its servers.
    std::uint64_t bytes = 0;  ///< 0: what is there, on the first server alone.
    std::uint64_t stripe_bytes = 1 << 20;
    bool make = false;
    std::uint64_t page_bytes = 64 << 10;  ///< Of all ranks.
  };
  /// Throws StoreError in the server's words.
  HomeClient(JobClient& job, const Form& form);

  std::uint64_t bytes() const noexcept { return bytes_; }
  const std::string& name() const noexcept { return name_; }
  /// The same for all ranks, and another one for each data set of the job, also of those that have the same name.
  std::uint64_t incarnation() const noexcept { return parts_[0].handle; }
  JobClient& job() const noexcept { return job_; }
  HomeCounters& counters() noexcept { return *counters_; }
  DataSetScores& scores() noexcept { return scores_; }
  /// Why the last request failed that did; for messages.
  std::string failure() const;

  /// A part of the data set, and where it is to be put.
  struct Wanted {
    std::span<std::byte> bytes;
    std::uint64_t offset = 0;
  };
  /// Called with each piece that has come, and as of which change of its home. Pieces begin where blocks begin, if what
  /// was wanted does.
  using Arrived = std::function<void(const Wanted&, std::uint64_t sequence)>;
  /// Returns 0 or a negative errno value. The ranges lie within the data set.
  int fetch(std::span<const Wanted> ranges, const Arrived& arrived);
  int fetch(std::span<std::byte> buffer, std::uint64_t offset) {
    const Wanted range{buffer, offset};
    return fetch({&range, 1}, nullptr);
  }
  /// The same by the tree of ranks, page by page, from who has them already; by itself where that fails.
  int fetch_by_tree(std::span<std::byte> buffer, std::uint64_t offset);
  /// Before any rank fetches so, and when none does any more.
  void join_tree();
  void leave_tree();
  /// The same from what the ranks of this node keep for each other, and for them; by itself where they keep nothing.
  int fetch_by_node(std::span<std::byte> buffer, std::uint64_t offset);
  /// How far the home of what lies there had come in what this rank has seen of it: nothing older is to come.
  std::uint64_t seen(std::uint64_t offset) const noexcept;
  void see(std::uint64_t offset, std::uint64_t sequence) noexcept {
    see_of_server(placement_.server(offset, 0), sequence);
  }
  /// Of others, since the last time. Throws StoreError. Not by two threads at once.
  std::vector<ByteRange> news();
  /// How far from `offset` on one exchange reaches.
  std::uint64_t exchange_run(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  /// Reads a range that is not longer than that, and the number to try an exchange with. Throws StoreError.
  std::uint64_t fetch_to_exchange(std::span<std::byte> buffer, std::uint64_t offset);
  /// `changes` go to places of the whole data set, `local` to where they are on their server. True if it was in time;
  /// else `buffer` and `sequence` are what is there now. Throws StoreError.
  bool exchange(std::span<std::byte> buffer, std::uint64_t offset, const std::vector<ByteRange>& changed,
                std::span<const std::byte> content, std::uint64_t& sequence);
  void destroy();

 private:
  friend class ChangeSender;
  struct Part {
    Part(std::uint64_t of_handle, std::uint64_t of_bytes, std::uint64_t at)
        : handle(of_handle), bytes(of_bytes), sequence(at), seen(at) {}
    const std::uint64_t handle;
    const std::uint64_t bytes;        ///< Here.
    std::uint64_t sequence;           ///< Of the news that were asked for last.
    std::atomic<std::uint64_t> seen;  ///< The last that anything here depends on: nothing older is to come.
  };
  void tell_once();
  void see_of_server(std::uint32_t server, std::uint64_t sequence) noexcept;
  int failed(std::uint32_t server, const WireReply& reply);
  void add_news(std::uint32_t server, std::span<const std::byte> body, std::vector<ByteRange>& ranges) const;

  JobClient& job_;
  const std::string name_;
  std::uint64_t bytes_;
  DataSetLayout layout_;
  DataSetPlacement placement_;
  DataSetScores scores_;
  const std::uint64_t piece_bytes_;
  std::deque<Part> parts_;
  const std::shared_ptr<HomeCounters> counters_ = std::make_shared<HomeCounters>();
  mutable std::mutex mutex_;
  std::string failure_;  ///< Guarded by mutex_.
  bool told_ = false;    ///< The same.
};

/// Brings changes home, many in a message and several messages at once. For one thread.
class ChangeSender {
 public:
  explicit ChangeSender(HomeClient& home) : home_(home), lists_(home.job_.servers()) {}

  /// In the order of offsets.
  void add(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Sends what is left, and waits until all of it is there. Returns 0 or a negative errno value.
  int finish();

 private:
  static constexpr std::size_t most_list_bytes = 512 << 10;
  static constexpr std::size_t most_in_flight = 16;
  void send(std::uint32_t server);
  void wait_for_first();

  HomeClient& home_;
  std::vector<ChangeList> lists_;  ///< By server.
  std::deque<std::pair<std::uint32_t, WireCall>> calls_;
  int result_ = 0;
};

}  // namespace tiermap
