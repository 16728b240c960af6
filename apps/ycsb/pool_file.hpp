// A pool's file and its log: made, or found and brought up to date.
#pragma once

#include <memory>
#include <string>

#include "command_line/backing.hpp"
#include "command_line/interruption.hpp"
#include "command_line/memory_system.hpp"
#include "ycsb/pool_layout.hpp"
#include "ycsb/redo_log.hpp"

namespace tiermap {

/// The two files; the log has the pool's path and ".log". What was made here is removed when this goes, or the process
/// is interrupted, unless keep() was called.
class PoolFile {
 public:
  /// Makes an empty pool, which has its name once it can be opened. Fills in the header's missing fields. Throws
  /// StoreError, OptionError.
  static std::unique_ptr<PoolFile> create(const std::string& url, PoolHeader header, Durability durability);
  /// Opens one that is there, to be recovered. Throws StoreError that says what is wrong with it.
  static std::unique_ptr<PoolFile> open(const std::string& url, Durability durability);
  PoolFile(const PoolFile&) = delete;
  PoolFile& operator=(const PoolFile&) = delete;

  Backing& backing() noexcept { return backing_; }
  const PoolHeader& header() const noexcept { return header_; }
  const PoolLayout& layout() const noexcept { return layout_; }
  RedoLog& log() noexcept { return *log_; }

  /// Brings the mapped pool up to the last committed transaction, makes that durable and empties the log.
  ReplayOutcome recover(MappedBytes& mapped);
  void keep();

 private:
  PoolFile(Backing backing, const PoolHeader& header);

  Backing backing_;
  PoolHeader header_;
  PoolLayout layout_;
  std::string log_path_;
  MadePath made_log_;  ///< What to remove: nothing if it was there before or is to stay.
  std::unique_ptr<RedoLog> log_;
};

}  // namespace tiermap
