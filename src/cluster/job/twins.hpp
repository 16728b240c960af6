// Copies of blocks as they were when they came from home, by which it is known later what of them has changed.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/job/job_protocol.hpp"
#include "platform/lazy_array.hpp"
#include "store/file_descriptor.hpp"

namespace tiermap {

/// Keeps the youngest in memory, as many as there is room for, and all others in a file without a name: a copy is
/// needed for as long as its block may be in memory, which nobody tells. Those in memory have places in one mapping:
/// of the heap each thread's part would keep room for all that other threads, or an earlier time, had there.
/// Thread-safe.
class Twins {
 public:
  using Block = std::array<std::byte, home_block_bytes>;

  /// `folder` is where the file is made, when it is first needed.
  Twins(std::uint64_t blocks, std::uint64_t memory_bytes, std::string folder);

  /// Shorter ones are filled with zeros. Returns 0, or a negative errno value if there is no room: the copy is there,
  /// in memory, beside what that has room for.
  int keep(std::uint64_t block, std::span<const std::byte> bytes);
  /// False if there is none, or it cannot be read back (`error` is a negative errno value then).
  bool find(std::uint64_t block, Block& bytes, int& error) const;
  void forget(std::uint64_t first, std::uint64_t count) noexcept;
  /// All of them, and the memory that they had.
  void forget_all() noexcept;

  const std::string& folder() const noexcept { return folder_; }
  std::uint64_t memory_bytes() const;
  std::uint64_t spilled_bytes() const;

 private:
  struct Kept {
    Block* bytes = nullptr;
    std::uint64_t age = 0;
    std::unique_ptr<Block> beside;  ///< Where `bytes` are if no place was left and none could be made.
  };
  using InMemory = std::unordered_map<std::uint64_t, Kept>;
  bool is_there(const std::pair<std::uint64_t, std::uint64_t>& block_and_age) const;
  Kept with_room();
  void erase(InMemory::iterator one) noexcept;
  int spill_oldest();

  const std::string folder_;
  mutable std::mutex mutex_;  ///< Guards what follows.
  LazyArray<Block> places_;
  std::size_t used_places_ = 0;      ///< Of the first ones; all others have never been touched.
  std::vector<Block*> free_places_;  ///< Of those.
  InMemory in_memory_;
  /// Blocks and ages of those in memory, the oldest first, and of some that are no longer there.
  std::deque<std::pair<std::uint64_t, std::uint64_t>> by_age_;
  std::uint64_t next_age_ = 0;
  std::vector<bool> in_file_;
  FileDescriptor file_;
  std::uint64_t spilled_bytes_ = 0;
};

}  // namespace tiermap
