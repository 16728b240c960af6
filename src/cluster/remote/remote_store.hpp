// A data set of one or several memory servers, as a store.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/remote/placement.hpp"
#include "cluster/remote/remote_data_set.hpp"
#include "cluster/remote/score_sender.hpp"
#include "platform/writer_first_mutex.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Which of the copies lack what others have. A writer takes a later version than any that he has heard of: he names it
/// to all servers, and only if as many have heard it as an acknowledged write is on, one of whom everybody meets who
/// opens the data set, does it become that of the content. So no two writers take one for different contents, and
/// where a writer reached too few, what he did is older than what others write without him.
struct RemoteVersion {
  static constexpr std::uint64_t step = std::uint64_t{1} << 32U;  ///< What is in between: where too few were left.

  std::uint64_t content = 0;
  std::uint64_t announced = 0;  ///< By anybody.
};

/// Reads and writes go in pieces, many in flight. A server that fails, or does not answer in time, is given up for
/// good:
/// reads go to another copy, or fail with EIO; writes count on what is left if that are as many copies as asked, after
/// those have been told that they are newer than the lost one.
class RemoteStore final : public Store {
 public:
  /// `parts` by server; one that is not usable may be null. All of one data set.
  RemoteStore(std::unique_ptr<Wire> wire, std::vector<std::unique_ptr<RemoteDataSet>> parts,
              const DataSetLayout& layout, const RemoteVersion& version, std::uint64_t bytes, bool writable,
              std::string name);
  ~RemoteStore() override;

  std::uint64_t size_bytes() const override { return size_.load(std::memory_order_acquire); }
  bool writable() const override { return writable_; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// On every server that has a copy, as many as were asked for.
  int flush() override;
  /// To every server that has a copy, over tiers.
  void score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept override;
  double read_microseconds(std::uint64_t, std::uint64_t bytes) const noexcept override {
    return scores_.read_microseconds(bytes);
  }
  /// Messages with scores.
  std::uint64_t score_messages() const noexcept { return scores_.messages(); }
  int resize(std::uint64_t bytes) override;
  int punch(std::uint64_t offset, std::uint64_t bytes) override;
  /// Of create_unkept_remote(): it stays when this ends. Returns 0 or a negative errno value.
  int keep() { return change_all(MemoryRequest::keep, 0, 0); }
  std::uint32_t max_reads_in_flight() const override { return 64; }
  std::uint32_t max_writes_in_flight() const override { return 64; }
  std::string name() const override { return name_; }

 private:
  struct Piece {
    std::uint64_t offset;
    std::span<std::byte> bytes;
  };
  struct WrittenPiece;
  /// A piece that some copies could not take, because the rest of a block is damaged there, or the message was.
  struct Behind {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint32_t written;
    std::vector<std::uint32_t> damaged;  ///< Servers.
  };

  Piece next_piece(std::uint64_t offset, std::span<std::byte> left) const noexcept;
  RemoteDataSet* readable_part(const Piece& piece, std::uint32_t& copy) const noexcept;
  int finish_read(const Piece& piece, WireCall& call, std::uint32_t copy);
  int read_elsewhere(const Piece& piece);
  void mend(const Piece& piece);
  void tell_lost(const Piece& piece);
  void tell_damage(std::uint32_t server, const WireReply& reply);
  int finish_write(WrittenPiece& piece, std::vector<Behind>& behind);
  int write_all(std::span<std::byte> left, std::uint64_t offset, std::vector<Behind>& behind);
  int catch_up(const Behind& piece);
  int begin_changes();
  int clear_behind(std::uint64_t bytes);
  struct Answer {
    std::uint32_t server;
    int status;
  };
  std::vector<Answer> ask_all(MemoryRequest kind, std::uint64_t first, std::uint64_t second);
  int conclude(const std::vector<Answer>& answers);
  int change_all(MemoryRequest kind, std::uint64_t first, std::uint64_t second) {
    return conclude(ask_all(kind, first, second));
  }
  int resize_all(std::uint64_t bytes);
  void lose(std::uint32_t server, int error_number);
  std::size_t announce_next();
  bool give_up_who_is_behind(const Answer& answer, const std::string& why);
  void renew_others(std::size_t told);
  void await_losing();
  std::uint32_t copies_asked() const noexcept { return layout_.copies; }
  /// Of a fork(), where other threads of the parent's may have had the locks.
  bool in_child() const noexcept { return ::getpid() != owner_; }

  const std::unique_ptr<Wire> wire_;  ///< Ends after the parts.
  std::vector<std::unique_ptr<RemoteDataSet>> parts_;
  const DataSetLayout layout_;
  const DataSetPlacement placement_;
  DataSetScores scores_;
  const bool writable_;
  const std::string name_;
  const pid_t owner_;
  std::atomic<std::uint64_t> size_;
  std::mutex losing_;
  RemoteVersion version_;     ///< Guarded by losing_.
  WriterFirstMutex writing_;  ///< Alone for who copies what others could be writing.
  std::atomic<bool> told_lost_{false};
  std::atomic<std::uint32_t> told_{0};  ///< Lines about damage.
  std::atomic<bool> begun_{false};      ///< The servers have been told that there is a new version.
  std::atomic<std::uint32_t> turn_{0};  ///< Which copy the next read asks first.
};

}  // namespace tiermap
