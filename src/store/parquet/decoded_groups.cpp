#include "store/parquet/decoded_groups.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "platform/engine_thread.hpp"
#include "platform/page_sizes.hpp"

namespace tiermap {
namespace {

/// More would only press each other's row groups out.
constexpr unsigned most_threads_ahead = 4;

}  // namespace

DecodedGroups::DecodedGroups(std::vector<std::uint64_t> group_bytes, std::uint64_t most_bytes, Decode decode)
    : group_bytes_(std::move(group_bytes)),
      most_bytes_(most_bytes),
      decode_(std::move(decode)),
      most_threads_(std::clamp(std::thread::hardware_concurrency(), 1U, most_threads_ahead)),
      owner_(::getpid()) {}

DecodedGroups::~DecodedGroups() {
  if (::getpid() != owner_) {
    for (std::thread& thread : threads_) {
      thread.detach();  // They are the parent's.
    }
    // NOLINTBEGIN(bugprone-unused-return-value): to destroy them is to wait for the parent's threads.
    static_cast<void>(changed_.release());
    static_cast<void>(wanted_.release());
    // NOLINTEND(bugprone-unused-return-value)
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    wanted_->notify_all();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

std::uint64_t DecodedGroups::decoded() const {
  const std::lock_guard lock(mutex_);
  return decoded_;
}

bool DecodedGroups::was_read(std::size_t group) const {
  const auto found = entries_.find(group);
  return found != entries_.end() && found->second.ready && found->second.read_bytes >= group_bytes_[group] / 2;
}

bool DecodedGroups::make_room(std::uint64_t bytes, bool ahead) {
  while (used_bytes_ != 0 && used_bytes_ + bytes > most_bytes_) {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      const Entry& candidate = entry->second;
      const bool done = !ahead || candidate.read_bytes >= group_bytes_[entry->first];
      if (candidate.ready && candidate.readers == 0 && done &&
          (oldest == entries_.end() || candidate.last_used < oldest->second.last_used)) {
        oldest = entry;
      }
    }
    if (oldest == entries_.end()) {
      return false;
    }
    used_bytes_ -= group_bytes_[oldest->first];
    spare_ = std::move(oldest->second.records);
    entries_.erase(oldest);
  }
  return true;
}

/// What is in its memory is for decode() to say.
DecodedGroups::Entry& DecodedGroups::insert(std::size_t group) {
  const auto bytes = static_cast<std::size_t>(round_up(group_bytes_[group], kernel_page_bytes));
  AddressRange records = std::exchange(spare_, AddressRange());
  if (records.size() != bytes) {
    records = AddressRange::reserve(bytes, kernel_page_bytes, PROT_READ | PROT_WRITE);
  }
  Entry& entry = entries_[group];
  entry.records = std::move(records);
  entry.last_used = ++uses_;
  used_bytes_ += group_bytes_[group];
  return entry;
}

/// Of an entry that was inserted; without the lock meanwhile.
int DecodedGroups::decode(std::unique_lock<std::mutex>& lock, std::size_t group, bool ahead) {
  Entry& entry = entries_.at(group);  // It stays where it is: none but its decoder takes out one that is not ready.
  char* const records = reinterpret_cast<char*>(entry.records.data());
  lock.unlock();
  const int result = decode_(group, records, ahead);
  lock.lock();
  if (result == 0) {
    entry.ready = true;
    ++decoded_;
  } else {
    used_bytes_ -= group_bytes_[group];
    entries_.erase(group);
  }
  changed_->notify_all();
  return result;
}

int DecodedGroups::read(std::size_t group, std::uint64_t offset, char* buffer, std::size_t bytes) {
  if (::getpid() != owner_) {
    return -EBUSY;
  }
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto found = entries_.find(group);
    if (found == entries_.end()) {
      if (!make_room(group_bytes_[group], false)) {
        changed_->wait(lock);
        continue;
      }
      insert(group);
      go_ahead(group);
      if (const int result = decode(lock, group, false); result != 0) {
        return result;
      }
    } else if (!found->second.ready) {
      changed_->wait(lock);
    } else {
      break;
    }
  }
  Entry& entry = entries_.at(group);
  if (entry.read_bytes == 0) {
    go_ahead(group);  // It was fetched ahead: what follows it is to be, too.
  }
  ++entry.readers;
  entry.last_used = ++uses_;
  lock.unlock();
  std::memcpy(buffer, reinterpret_cast<const char*>(entry.records.data()) + offset, bytes);
  lock.lock();
  entry.read_bytes += bytes;
  if (--entry.readers == 0) {
    changed_->notify_all();
  }
  return 0;
}

/// Whoever read the row group before this one, or begins at the first, will want those behind it. Where there is no
/// memory or thread for that it is left.
void DecodedGroups::go_ahead(std::size_t group) noexcept {
  if (group != 0 && !was_read(group - 1)) {
    return;
  }
  const std::size_t end = std::min(group + 1 + most_threads_, group_bytes_.size());
  for (std::size_t next = group + 1; next < end; ++next) {
    if (entries_.contains(next)) {
      continue;
    }
    try {
      if (threads_.size() < most_threads_) {
        threads_.push_back(start_engine_thread("tiermap-parquet", [this] { run(); }));
      }
      if (!make_room(group_bytes_[next], true)) {
        return;
      }
      ahead_.push_back(next);
      insert(next);
    } catch (const std::exception&) {
      if (!ahead_.empty() && !entries_.contains(ahead_.back())) {
        ahead_.pop_back();
      }
      return;
    }
    wanted_->notify_one();
  }
}

void DecodedGroups::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_->wait(lock, [this] { return ending_ || !ahead_.empty(); });
    if (ending_) {
      return;
    }
    const std::size_t group = ahead_.front();
    ahead_.pop_front();
    decode(lock, group, true);
  }
}

}  // namespace tiermap
