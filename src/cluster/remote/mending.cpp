// How copies of a data set that lack something, or have something else, get it from the others.
#include <algorithm>
#include <cerrno>

#include "cluster/remote/remote_store.hpp"
#include "cluster/server/checked_store.hpp"

namespace tiermap {

/// Gives each copy the blocks that are damaged there and not elsewhere. What a server takes is what it remembers the
/// checksum of, so that this is right whatever is written meanwhile, and whoever does it.
void RemoteStore::mend(const Piece& piece) {
  const std::uint64_t end = piece.offset + piece.bytes.size();
  for (std::uint64_t at = piece.offset / checked_block_bytes * checked_block_bytes; at < end && placement_.copies() > 1;
       at += checked_block_bytes) {
    std::vector<std::uint32_t> damaged;
    WireBody content;
    for (std::uint32_t copy = 0; copy < placement_.copies(); ++copy) {
      RemoteDataSet* const part = parts_[placement_.server(at, copy)].get();
      if (part == nullptr || !part->usable()) {
        continue;
      }
      WireCall call = part->start_read(placement_.local_offset(at, copy), checked_block_bytes);
      const WireReply& reply = call.wait();
      if (reply.status == -damaged_error) {
        damaged.push_back(copy);
      } else if (reply.status == 0) {
        content = reply.body;
      }
    }
    for (const std::uint32_t copy : damaged) {
      RemoteDataSet& part = *parts_[placement_.server(at, copy)];
      if (!content.bytes().empty() && part.usable()) {
        part.start_mend(placement_.local_offset(at, copy), content.bytes()).wait();  // Else it stays as it is.
      }
    }
  }
}

/// Whole blocks from a copy that has the piece to those that have not. Nothing else is written meanwhile.
int RemoteStore::catch_up(const Behind& piece) {
  const std::uint64_t begin = piece.offset / checked_block_bytes * checked_block_bytes;
  const std::uint64_t bytes =
      (piece.offset + piece.bytes + checked_block_bytes - 1) / checked_block_bytes * checked_block_bytes - begin;
  WireBody content;
  for (std::uint32_t copy = 0; copy < placement_.copies() && content.bytes().empty(); ++copy) {
    const std::uint32_t server = placement_.server(begin, copy);
    if (parts_[server] == nullptr || !parts_[server]->usable() || std::ranges::count(piece.damaged, server) != 0) {
      continue;
    }
    WireCall call = parts_[server]->start_read(placement_.local_offset(begin, copy), bytes);
    if (const WireReply& reply = call.wait(); reply.status == 0) {
      content = reply.body;
    }
  }
  std::uint32_t written = piece.written;
  for (std::uint32_t copy = 0; copy < placement_.copies(); ++copy) {
    const std::uint32_t server = placement_.server(begin, copy);
    if (std::ranges::count(piece.damaged, server) == 0 || !parts_[server]->usable()) {
      continue;
    }
    const bool done =
        !content.bytes().empty() &&
        parts_[server]->start_write(placement_.local_offset(begin, copy), content.bytes()).wait().status == 0;
    written += done ? 1 : 0;
    if (!done) {
      lose(server, EIO);
    }
  }
  return written >= copies_asked() ? 0 : -EIO;
}

}  // namespace tiermap
