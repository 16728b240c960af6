#include "cluster/job/home.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "config/size.hpp"
#include "store/file_open.hpp"

namespace tiermap {

std::vector<BlockRun> BlockHistory::news(std::uint32_t rank, std::uint64_t since) const {
  std::vector<BlockRun> runs;
  for (std::uint64_t block = 0; block < blocks_.size(); ++block) {
    if (latest_[block / group] <= since) {
      block = (block / group + 1) * group - 1;
      continue;
    }
    const Block& one = blocks_[block];
    if ((one.rank == rank ? one.by_another : one.last) <= since) {
      continue;
    }
    if (!runs.empty() && runs.back().first + runs.back().count == block) {
      ++runs.back().count;
    } else if (runs.size() == most_block_runs) {
      return {{0, blocks_.size()}};
    } else {
      runs.push_back({block, 1});
    }
  }
  return runs;
}

Home::Home(Catalog& catalog, std::shared_ptr<Attachment> attachment, std::string user, bool drop)
    : catalog_(catalog),
      attachment_(std::move(attachment)),
      user_(std::move(user)),
      drop_(drop),
      bytes_(attachment_->set().store->size_bytes()),
      history_((bytes_ + home_block_bytes - 1) / home_block_bytes) {}

Home::~Home() {
  const std::string name = attachment_->set().name;
  std::string failure;
  static_cast<void>(bring_down(failure));  // What fails is tried again, and said, when the server ends.
  attachment_.reset();
  if (drop_) {
    try {
      catalog_.drop(user_, name);
    } catch (...) {  // One of the server's configuration stays.
    }
  }
}

// From the job's end on it is there.
int Home::bring_down(std::string& failure) {
  const std::uint64_t sequence = sequence_;
  if (drop_ || down_ == sequence) {
    return 0;
  }
  const DataSet& set = attachment_->set();
  const int settled = set.store->settle();
  const int flushed = set.store->flush();
  const int result = settled != 0 ? settled : flushed;
  if (result != 0) {
    failure = "data set " + quote_value(set.name) + " could not be written to " + set.place + ": " +
              error_text(-result) + ": see to that, and end the server, which tries it again";
    return result;
  }
  down_ = sequence;
  return 0;
}

int Home::fetch_locked(std::uint64_t offset, std::span<std::byte> buffer) const {
  if (offset > bytes_ || buffer.size() > bytes_ - offset) {
    return -ERANGE;
  }
  while (!buffer.empty()) {
    const std::int64_t got = attachment_->set().store->read(buffer.data(), buffer.size(), offset);
    if (got <= 0) {
      return got < 0 ? static_cast<int>(got) : -EIO;
    }
    buffer = buffer.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return 0;
}

int Home::change_locked(std::uint32_t rank, const std::vector<Change>& changes) {
  ++sequence_;
  for (Change change : changes) {
    while (!change.bytes.empty()) {
      const std::int64_t put = attachment_->set().store->write(change.bytes.data(), change.bytes.size(), change.offset);
      if (put <= 0) {
        return put < 0 ? static_cast<int>(put) : -EIO;
      }
      const auto bytes = static_cast<std::uint64_t>(put);
      for (std::uint64_t block = change.offset / home_block_bytes;
           block <= (change.offset + bytes - 1) / home_block_bytes; ++block) {
        history_.note(block, rank, sequence_);
      }
      change.bytes = change.bytes.subspan(bytes);
      change.offset += bytes;
    }
  }
  return 0;
}

int Home::fetch(std::uint64_t offset, std::span<std::byte> buffer, std::uint64_t& sequence) const {
  const std::shared_lock lock(mutex_);
  sequence = sequence_;
  return fetch_locked(offset, buffer);
}

int Home::change(std::uint32_t rank, std::span<const std::byte> list, std::uint64_t& sequence) {
  std::vector<Change> changes;
  if (!decode_changes(list, bytes_, changes)) {
    return -EPROTO;
  }
  const std::unique_lock lock(mutex_);
  const int result = change_locked(rank, changes);
  sequence = sequence_;
  return result;
}

int Home::exchange(std::uint32_t rank, std::uint64_t offset, std::span<std::byte> buffer,
                   std::span<const std::byte> list, std::uint64_t& sequence) {
  std::vector<Change> changes;
  if (!decode_changes(list, bytes_, changes)) {
    return -EPROTO;
  }
  if (buffer.empty() || offset > bytes_ || buffer.size() > bytes_ - offset) {
    return -ERANGE;
  }
  const std::unique_lock lock(mutex_);
  const std::uint64_t seen = std::exchange(sequence, sequence_.load());
  for (std::uint64_t block = offset / home_block_bytes; block <= (offset + buffer.size() - 1) / home_block_bytes;
       ++block) {
    if (history_.last(block) > seen) {
      const int result = fetch_locked(offset, buffer);
      return result != 0 ? result : -EAGAIN;
    }
  }
  const int result = changes.empty() ? 0 : change_locked(rank, changes);
  sequence = sequence_;
  return result;
}

std::vector<BlockRun> Home::news(std::uint32_t rank, std::uint64_t since, std::uint64_t& sequence) const {
  const std::shared_lock lock(mutex_);
  sequence = sequence_;
  return history_.news(rank, since);
}

}  // namespace tiermap
