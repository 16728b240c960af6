// The redo log: what transactions change in a pool, in a file of its own, before they change it.
//
// A page of the pool may be written back at any time, by eviction, and in any order. So a transaction changes nothing
// in the pool until its changes are in the log: then no page on the disk ever holds what the log does not. The log has
// bytes, and where they go, no more. After a stop the pool's file is any mixture of older and newer pages. Every byte
// that changed since the last checkpoint stands in the log with all its values, in order. Writing them again, one
// after the other, gives the pool as it was after the last committed transaction, whatever the mixture was (torn pages
// too), and however often it is done. A checkpoint writes the pool back whole and then empties the log.
//
// Transactions that commit at the same time become one frame, which is written and synced once. A frame is written only
// after the one before it was synced. So a frame that is not whole is the last one and was never committed, or somebody
// damaged it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ycsb/key_value_store.hpp"

namespace tiermap {

/// Bytes of a pool, and where they begin. In the log each has this head, and its bytes follow. Multiples of 8.
struct ChangeHead {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Adds a change to others.
void append_change(std::vector<std::byte>& changes, std::uint64_t offset, std::span<const std::byte> bytes);

/// Writes changes to the pool. They have been checked.
void apply_changes(std::span<const std::byte> changes, std::span<std::byte> pool) noexcept;

/// A log to be read: a file, or what a test takes for one.
struct LogContents {
  std::string name;
  std::uint64_t bytes = 0;
  std::function<void(std::uint64_t offset, std::span<std::byte> into)> read;
};

/// What replay_log() found.
struct ReplayOutcome {
  std::uint64_t frames = 0;
  std::uint64_t ignored_bytes = 0;  ///< At the end: a frame that was not committed.
};

/// Calls `apply` with the changes of each frame, in order. Before the first call all of the log is checked. Throws
/// StoreError if it is not the log of the pool with this identity and size, or is damaged, and says where.
ReplayOutcome replay_log(const LogContents& log, std::uint64_t identity, std::uint64_t pool_bytes,
                         const std::function<void(std::span<const std::byte> changes)>& apply);

/// Files are durable only when the folder that names them is.
void sync_folder_of(const std::string& path);

/// A log that is open, and nobody else's meanwhile. commit() is thread-safe.
class RedoLog {
 public:
  /// Makes one, durably. Throws StoreError if it exists or cannot be made.
  static std::unique_ptr<RedoLog> create(const std::string& path, std::uint64_t identity, Durability durability);
  /// Opens one that is there; the disk has all of it when this returns. It must be replayed and emptied before the
  /// first commit(). Throws StoreError.
  static std::unique_ptr<RedoLog> open(const std::string& path, std::uint64_t identity, Durability durability);
  ~RedoLog();
  RedoLog(const RedoLog&) = delete;
  RedoLog& operator=(const RedoLog&) = delete;

  LogContents contents() const;

  /// Returns when the changes are in the log, together with those of other threads. Throws StoreError if they cannot
  /// be written; then all that follow throw too, because nothing may come after a frame that is not whole.
  void commit(std::span<const std::byte> changes);
  /// Forgets all frames, durably. No commit() is under way.
  void empty();

  std::uint64_t bytes() const;         ///< Now.
  std::uint64_t logged_bytes() const;  ///< In all since it was opened.
  std::uint64_t frames() const;        ///< In all since it was opened.

 private:
  RedoLog(std::string path, std::uint64_t identity, Durability durability, bool create);
  void write_gathered(std::unique_lock<std::mutex>& lock);
  void write(std::span<const std::byte> bytes, std::uint64_t offset) const;
  void sync() const;
  void begin_writing_to_disk(std::uint64_t begin, std::uint64_t end) const noexcept;
  [[noreturn]] void fail(const char* what) const;

  const std::string path_;
  const std::uint64_t identity_;
  const Durability durability_;
  int descriptor_ = -1;

  mutable std::mutex mutex_;  ///< Guards everything below.
  std::condition_variable written_changed_;
  std::vector<std::byte> gathered_;  ///< The next frame, with room for its head.
  std::uint64_t gathering_ = 1;      ///< The number of the next frame.
  std::uint64_t written_ = 0;        ///< The number of the last frame that was written.
  bool writing_ = false;             ///< Whether some thread writes a frame, for all that wait.
  bool failed_ = false;
  std::uint64_t end_ = 0;
  std::uint64_t logged_bytes_ = 0;
};

}  // namespace tiermap
