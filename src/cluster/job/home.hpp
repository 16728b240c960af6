// The home of a shared data set, or of one server's part of it: its bytes, and who changed which of them last.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "cluster/job/job_protocol.hpp"
#include "cluster/server/catalog.hpp"

namespace tiermap {

/// When blocks were last changed, and by whom, for every rank that may ask: a rank's own changes are no news to it.
///
/// Two changes of a block are kept: the last one, and the last one by anybody else than who made that. The first is
/// news to all ranks but one, and for that one it is the second.
class BlockHistory {
 public:
  explicit BlockHistory(std::uint64_t blocks) : blocks_(blocks), latest_((blocks + group - 1) / group) {}

  void note(std::uint64_t block, std::uint32_t rank, std::uint64_t sequence) noexcept {
    Block& one = blocks_[block];
    if (one.rank != rank) {
      one.by_another = one.last;
      one.rank = rank;
    }
    one.last = sequence;
    latest_[block / group] = sequence;
  }
  /// By anybody.
  std::uint64_t last(std::uint64_t block) const noexcept { return blocks_[block].last; }
  /// Blocks that others than `rank` changed after `since`.
  std::vector<BlockRun> news(std::uint32_t rank, std::uint64_t since) const;

 private:
  struct Block {
    std::uint64_t last = 0;
    std::uint64_t by_another = 0;
    std::uint32_t rank = 0;  ///< Who made the last change, if there was one.
  };
  /// So many are passed over at once if none of them changed.
  static constexpr std::uint64_t group = 256;

  std::vector<Block> blocks_;
  std::vector<std::uint64_t> latest_;
};

/// Thread-safe. A fetch sees each change as a whole or not at all.
class Home {
 public:
  /// `drop` says that the data set ends with this.
  Home(Catalog& catalog, std::shared_ptr<Attachment> attachment, std::string user, bool drop);
  ~Home();
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  std::uint64_t bytes() const noexcept { return bytes_; }
  bool in_memory() const noexcept { return attachment_->set().in_memory; }
  /// Waits for nobody: for the thread that answers everybody.
  std::uint64_t sequence() const noexcept { return sequence_.load(std::memory_order_acquire); }
  std::string damage() const { return attachment_->set().damage(); }
  /// As those of the data set.
  std::uint64_t read_nanoseconds() const noexcept { return attachment_->set().read_nanoseconds(); }
  int take_scores(std::span<const std::byte> body, const void* from) {
    return attachment_->set().take_scores(body, from);
  }
  /// For who is to let go of it last.
  std::shared_ptr<Store> store() const noexcept { return attachment_->set().store; }
  /// Ends with the last who has it, whatever it was made with.
  void drop_at_end() noexcept { drop_ = true; }
  /// To where it is to last, if it is to. Returns 0, or a negative errno value and in `failure` one line. Not by two
  /// threads at once.
  int bring_down(std::string& failure);

  // These return 0 or a negative errno value, and set `sequence` to the number of the last change that they see.

  int fetch(std::uint64_t offset, std::span<std::byte> buffer, std::uint64_t& sequence) const;
  int change(std::uint32_t rank, std::span<const std::byte> list, std::uint64_t& sequence);
  /// Changes unless somebody changed a block of [offset, offset + buffer.size()) after `sequence`: then -EAGAIN, and
  /// `buffer` has what is there.
  int exchange(std::uint32_t rank, std::uint64_t offset, std::span<std::byte> buffer, std::span<const std::byte> list,
               std::uint64_t& sequence);
  std::vector<BlockRun> news(std::uint32_t rank, std::uint64_t since, std::uint64_t& sequence) const;

 private:
  int fetch_locked(std::uint64_t offset, std::span<std::byte> buffer) const;
  int change_locked(std::uint32_t rank, const std::vector<Change>& changes);

  Catalog& catalog_;
  std::shared_ptr<Attachment> attachment_;
  const std::string user_;
  std::atomic<bool> drop_;
  const std::uint64_t bytes_;
  mutable std::shared_mutex mutex_;  ///< Shared by who reads, alone for who changes.
  BlockHistory history_;
  std::atomic<std::uint64_t> sequence_{0};  ///< Changed with mutex_.
  std::uint64_t down_ = UINT64_MAX;         ///< As of which change it was brought down last.
};

}  // namespace tiermap
