// What the ranks of a job and the servers that are its homes say to each other, in messages of wire/wire.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tiermap {

/// Requests. All but the first need it to have been answered on the same connection. A refusal has a negative errno
/// value as status and one line of text as body; -ECONNABORTED says that the job has failed, and the text why.
enum class JobRequest : std::uint16_t {
  join = 64,   ///< Words: rank, JobSize, bytes of the cache of a node, milliseconds that the rank has been on its way:
               ///< what failed meanwhile, and waited for it, was its job. Body: the job's name. Answered when all ranks
               ///< have come.
  absent,      ///< Body: a job's name. Reply's body: which ranks are missing. Needs no join.
  leave,       ///< The connection may close now without that being a failure. Answered when all who are left leave,
               ///< and the job's data sets are where they are to last; at once if it has failed. Reply's words: 0, or
               ///< the errno value of one that is not; body: one line about it.
  collective,  ///< Body: what this rank is at. Answered when all ranks are there: refused if not all are at the same.
  lock,        ///< Body: name. Answered when the rank has it.
  unlock,      ///< Body: name.
  fetch_add,   ///< Words: what is added, unless that makes it more than this (0: it may be anything). Body: name.
               ///< Reply's words: what it was.
  open,        ///< Words: bytes here, 1 for one that the job makes, 1 + n for what has its place when it was placed
               ///< for the nth time. Body: a data set's name.
               ///< Reply's words: handle, sequence number, bytes here, DataSet::read_nanoseconds().
  destroy,     ///< Words: handle. Dropped when the last request for it is done.
  fetch,       ///< Words: handle, offset, bytes. Reply's body: the bytes.
  change,      ///< Words: handle. Body: ChangeList. Reply's words: sequence number.
  exchange,    ///< Words: handle, offset, bytes, sequence number that the last fetch or exchange of it told. Body:
  ///< ChangeList. -EAGAIN if the bytes have changed since; reply's words: sequence number; body: the bytes.
  changes,  ///< Words: handle, since. Reply's words: sequence number; body: BlockRuns that others changed after it.
  gather,   ///< Words: bytes of this rank in all. Body: its next ones. Answered when all ranks are there; reply's body:
  ///< of each rank, in their order, its bytes in all and how many of them follow, as eight bytes each, and these.
  tell,    ///< Reply's words: how many have asked before. Answered also when the job has failed.
  failed,  ///< Body: why the job has failed, in the words of another of its servers. Who then ends is not the reason.

  // Of jobs that go on without the ranks that they lose. There the first server's replies to `collective`, `gather` and
  // `lock` have as their first word how many it has lost so far, and those to `lock` as their second one 1 + the rank
  // that had this lock last and was lost with it, else 0. Who is told a larger number than before asks which they are,
  // and fences them at all servers before it acquires anything.
  lost,   ///< Reply's body: ranks, as four bytes each, in the order in which this server lost them.
  fence,  ///< Body: ranks, the same way. Answered when nothing that they sent is on its way to a home, or will be.

  score,  ///< Words: handle. Body: ScoredRanges (memory_protocol.hpp). A hint; nobody waits for the reply.
};
inline constexpr std::uint16_t first_job_request = 64;
inline constexpr std::uint16_t last_job_request = static_cast<std::uint16_t>(JobRequest::score);

/// What a rank says of its job: how many ranks there are, how many servers, which of these it is talking to, and
/// whether the job goes on without ranks that it loses. In a word: 32 bits, 16, 15 and 1.
struct JobSize {
  std::uint64_t ranks = 0;
  std::uint64_t servers = 0;
  std::uint64_t place = 0;  ///< From 0.
  bool goes_on = false;

  static JobSize of(std::uint64_t word) noexcept {
    return {word & 0xFFFF'FFFFU, word >> 32U & 0xFFFFU, word >> 48U & 0x7FFFU, word >> 63U != 0};
  }
  std::uint64_t word() const noexcept {
    return ranks | servers << 32U | place << 48U | (goes_on ? std::uint64_t{1} << 63U : 0U);
  }
};

/// Of all ranks together in one reply to `gather`; at least one of each.
inline constexpr std::uint64_t most_gathered_bytes = std::uint64_t{512} << 10U;
/// Of one rank in one request.
constexpr std::uint64_t most_gathered_of(std::uint32_t ranks) noexcept {
  return ranks < most_gathered_bytes ? most_gathered_bytes / ranks : 1;
}

/// What homes number changes by, and what travels at least when a rank asks for a page.
inline constexpr std::uint64_t home_block_bytes = 4096;

/// Blocks one after the other, of a data set as it lies on one server.
struct BlockRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
/// More than so many are told as one that has them all.
inline constexpr std::size_t most_block_runs = 65536;

/// Bytes that go to a place each. In a message: the first offset as eight bytes, then for each run how far it is from
/// the end of the one before and how long it is, both as LEB128, and its bytes. Runs come in the order of offsets.
class ChangeList {
 public:
  /// `offset` is not before the end of what was added last.
  void add(std::uint64_t offset, std::span<const std::byte> bytes);
  bool empty() const noexcept { return encoded_.empty(); }
  std::span<const std::byte> encoded() const noexcept { return encoded_; }
  std::uint64_t changed_bytes() const noexcept { return changed_bytes_; }
  /// Bytes that headers take at most, in front of a run.
  static constexpr std::uint64_t run_overhead = 28;

 private:
  void put(std::uint64_t number);

  std::vector<std::byte> encoded_;
  std::uint64_t end_ = 0;
  std::uint64_t changed_bytes_ = 0;
};

struct Change {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

/// Into views of `encoded`. False for what is no such list, or leaves a data set of `limit` bytes.
bool decode_changes(std::span<const std::byte> encoded, std::uint64_t limit, std::vector<Change>& changes);

}  // namespace tiermap
