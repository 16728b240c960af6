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
#include <utility>
#include <vector>

#include "cluster/job/home_counters.hpp"
#include "cluster/job/job_client.hpp"
#include "cluster/job/placing_gate.hpp"
#include "cluster/job/wanted_stripes.hpp"
#include "cluster/remote/placement.hpp"
#include "cluster/remote/score_sender.hpp"
#include "tiermap/region.hpp"
#include "tiermap/shared_statistics.hpp"

namespace tiermap {

/// Thread-safe, but for what moves it to other homes: who calls a member that asks or looks at them, and is not the
/// one who has closed the gate for that, has a PlacingGate::Pass meanwhile.
class HomeClient {
 public:
  struct Form {
    std::string name;         ///< Of the data set on its servers.
    std::uint64_t bytes = 0;  ///< 0: what is there, on the first server alone.
    std::uint64_t stripe_bytes = 1 << 20;
    bool make = false;
    std::uint64_t page_bytes = 64 << 10;                 ///< Of all ranks.
    std::shared_ptr<const StripeTable> table = nullptr;  ///< Of what is made: null for one stripe after the other.
    std::uint64_t placings = 0;  ///< How often it was placed: each time, another data set of the same name.
  };
  /// Throws StoreError in the server's words.
  HomeClient(JobClient& job, const Form& form);

  std::uint64_t bytes() const noexcept { return bytes_; }
  const std::string& name() const noexcept { return name_; }
  /// The same for all ranks, and another one for each data set of the job, also of those that have the same name.
  std::uint64_t incarnation() const noexcept { return homes_->parts[0].handle; }
  JobClient& job() const noexcept { return job_; }
  HomeCounters& counters() noexcept { return *counters_; }
  DataSetScores& scores() noexcept { return homes_->scores; }
  PlacingGate& gate() noexcept { return gate_; }
  /// Why the last request failed that did; for messages.
  std::string failure() const;
  /// What this rank itself cannot do for the data: from here on it is what failure() says, and it is told once.
  void fail_here(const std::string& why);

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
    see_of_server(homes_->placement.server(offset, 0), sequence);
  }
  /// Of others, since the last time. Throws StoreError. Not by two threads at once.
  std::vector<ByteRange> news();
  /// What an exchange is tried with: nobody may have changed the range since.
  struct Version {
    std::uint64_t sequence = 0;
    std::uint64_t placings = 0;  ///< Of another home numbers mean nothing.
  };
  /// Reads a range within one page. Throws StoreError.
  Version fetch_to_exchange(std::span<std::byte> buffer, std::uint64_t offset);
  /// Of one update: with what tells where its changes are, it is a message.
  static constexpr std::uint64_t most_exchanged_bytes = 3 << 20;
  /// `changed` are ranges of `buffer`, as of `content`. True if it was in time; else `buffer` and `version` are what is
  /// there now. Throws StoreError.
  bool exchange(std::span<std::byte> buffer, std::uint64_t offset, const std::vector<ByteRange>& changed,
                std::span<const std::byte> content, Version& version);
  void destroy();

  // By who has closed the gate, to move it to other homes.

  /// Null if it lies on one server, or has too many stripes for a table.
  WantedStripes* wanted() noexcept { return wanted_.get(); }
  const DataSetPlacement& placement() const noexcept { return homes_->placement; }
  std::uint64_t placings() const noexcept { return homes_->placings; }
  /// Whether something is on its way home that began to be sent before.
  bool is_being_sent() const noexcept { return senders_.load(std::memory_order_acquire) != 0; }
  /// Puts these parts of this data set into another one of the same size, which has zeros there. Neither counts as
  /// fetched or sent. Throws StoreError.
  void carry_to(HomeClient& other, std::span<const ByteRange> ranges);
  /// How far each home has come, as far as this rank knows.
  std::vector<std::uint64_t> sequences() const;
  /// From here on this data set is where the other one was, and the other way round; what has come there up to
  /// `sequences` is no news, but known.
  void change_places(HomeClient& other, std::span<const std::uint64_t> sequences);
  /// Messages and bytes of scores, to the homes that it has had.
  std::pair<std::uint64_t, std::uint64_t> scores_sent() const noexcept;
  /// Of what transactions say of pages.
  void note_score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept;

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
  struct Homes {
    explicit Homes(DataSetPlacement of, std::uint64_t how_often)
        : placement(std::move(of)), scores(placement), placings(how_often) {}
    const DataSetPlacement placement;
    std::deque<Part> parts;  ///< By server.
    DataSetScores scores;
    const std::uint64_t placings;
  };
  void open_parts(const Form& form);
  int fetch(std::span<const Wanted> ranges, const Arrived& arrived, HomeClient& accountant);
  void note_fetched(std::uint32_t server, std::uint64_t offset, std::uint64_t bytes) noexcept;
  void tell_once();
  void see_of_server(std::uint32_t server, std::uint64_t sequence) noexcept;
  int failed(std::uint32_t server, const WireReply& reply);
  void add_news(std::uint32_t server, std::span<const std::byte> body, std::vector<ByteRange>& ranges) const;

  JobClient& job_;
  const std::string name_;
  std::uint64_t bytes_;
  const std::uint64_t piece_bytes_;
  PlacingGate gate_;
  std::unique_ptr<Homes> homes_;  ///< Others only while the gate is closed.
  const std::shared_ptr<HomeCounters> counters_;
  std::unique_ptr<WantedStripes> wanted_;
  std::atomic<std::uint64_t> senders_{0};                    ///< That have something to send, or sent and not answered.
  std::pair<std::uint64_t, std::uint64_t> scores_before_{};  ///< As scores_sent(), to homes that it no longer has.
  mutable std::mutex mutex_;
  std::string failure_;  ///< Guarded by mutex_.
  bool told_ = false;    ///< The same.
};

/// Brings changes home, many in a message and several messages at once. For one thread.
class ChangeSender {
 public:
  explicit ChangeSender(HomeClient& home) : home_(home), lists_(home.job_.servers()) {}
  /// Waits for what was sent; what was not is dropped.
  ~ChangeSender();
  ChangeSender(const ChangeSender&) = delete;
  ChangeSender& operator=(const ChangeSender&) = delete;

  /// In the order of offsets.
  void add(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Sends what is left, and waits until all of it is there. Returns 0 or a negative errno value.
  int finish();

 private:
  static constexpr std::size_t most_list_bytes = 512 << 10;
  static constexpr std::size_t most_in_flight = 16;
  void send(std::uint32_t server);
  void wait_for_first();
  void note_sending(bool sending) noexcept {
    if (std::exchange(sending_, sending) != sending) {
      home_.senders_.fetch_add(sending ? std::uint64_t{1} : ~std::uint64_t{0}, std::memory_order_acq_rel);
    }
  }

  HomeClient& home_;
  std::vector<ChangeList> lists_;  ///< By server.
  std::deque<std::pair<std::uint32_t, WireCall>> calls_;
  int result_ = 0;
  bool sending_ = false;
};

}  // namespace tiermap
