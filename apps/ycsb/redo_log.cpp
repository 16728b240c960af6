#include "ycsb/redo_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "tiermap/error.hpp"
#include "ycsb/log_frames.hpp"

namespace tiermap {

void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

std::unique_ptr<RedoLog> RedoLog::create(const std::string& path, std::uint64_t identity, Durability durability) {
  return std::unique_ptr<RedoLog>(new RedoLog(path, identity, durability, true));
}

std::unique_ptr<RedoLog> RedoLog::open(const std::string& path, std::uint64_t identity, Durability durability) {
  return std::unique_ptr<RedoLog>(new RedoLog(path, identity, durability, false));
}

RedoLog::RedoLog(std::string path, std::uint64_t identity, Durability durability, bool create)
    : path_(std::move(path)), identity_(identity), durability_(durability), gathered_(sizeof(FrameHead)) {
  // A FIFO would not be waited for.
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | (create ? O_CREAT | O_EXCL : 0), 0644);
  if (descriptor_ < 0) {
    const int number = errno;
    throw StoreError(number, fmt::format("{}, the pool's redo log, cannot be {}: {}; pool and log belong together",
                                         path_, create ? "made" : "opened", std::generic_category().message(number)));
  }
  struct stat status{};
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 || ::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw StoreError(EBUSY, fmt::format("{} is another process's at present, or no plain file: wait for that, or name "
                                        "another --file",
                                        path_));
  }
  end_ = static_cast<std::uint64_t>(status.st_size);
  if (!create) {
    // Who was killed may have left a frame that the disk has not: the pool is not written before it has.
    sync();
  } else {
    LogHeader header;
    header.identity = identity_;
    header.checksum = header.computed_checksum();
    write(std::as_bytes(std::span(&header, 1)), 0);
    sync();
    sync_folder_of(path_);
    end_ = sizeof(header);
  }
}

RedoLog::~RedoLog() {
  ::close(descriptor_);
}

void RedoLog::fail(const char* what) const {
  const int number = errno;
  throw StoreError(number, fmt::format("{} cannot be {}: {}", path_, what, std::generic_category().message(number)));
}

void RedoLog::write(std::span<const std::byte> bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno != EINTR) {
      fail("written");
    }
    const std::uint64_t written = count < 0 ? 0 : static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
}

void RedoLog::sync() const {
  if (::fdatasync(descriptor_) != 0) {
    fail("made durable");
  }
}

// The kernel would let unwritten bytes gather until they are a good part of memory, where pages are to be.
void RedoLog::begin_writing_to_disk(std::uint64_t begin, std::uint64_t end) const noexcept {
  constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20U;
  const std::uint64_t piece = end / piece_bytes;
  if (begin / piece_bytes == piece) {
    return;
  }
  const auto begun = static_cast<off_t>(begin / piece_bytes * piece_bytes);
  const auto next = static_cast<off_t>(piece * piece_bytes);
  // Only advice: it may fail.
  ::sync_file_range(descriptor_, begun, next - begun, SYNC_FILE_RANGE_WRITE);
  if (const off_t before = begun - static_cast<off_t>(piece_bytes); before >= 0) {
    ::sync_file_range(descriptor_, before, begun - before, SYNC_FILE_RANGE_WAIT_BEFORE);
    ::posix_fadvise(descriptor_, before, begun - before, POSIX_FADV_DONTNEED);
  }
}

LogContents RedoLog::contents() const {
  return {path_, end_, [this](std::uint64_t offset, std::span<std::byte> into) {
            while (!into.empty()) {
              const ssize_t count = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
              if (count == 0) {
                errno = EIO;  // It was longer.
              }
              if (count <= 0 && errno != EINTR) {
                fail("read");
              }
              const std::uint64_t got = count < 0 ? 0 : static_cast<std::uint64_t>(count);
              into = into.subspan(static_cast<std::size_t>(got));
              offset += got;
            }
          }};
}

void RedoLog::commit(std::span<const std::byte> changes) {
  std::unique_lock lock(mutex_);
  gathered_.insert(gathered_.end(), changes.begin(), changes.end());
  const std::uint64_t mine = gathering_;
  while (written_ < mine) {
    if (failed_) {
      throw StoreError(EIO, path_ + " could not be written before: see to its disk, and run it again");
    }
    if (writing_) {
      written_changed_.wait(lock);
    } else {
      write_gathered(lock);
    }
  }
}

void RedoLog::write_gathered(std::unique_lock<std::mutex>& lock) {
  std::vector<std::byte> frame(sizeof(FrameHead));
  frame.swap(gathered_);
  const std::uint64_t number = gathering_++;
  const std::uint64_t offset = end_;
  writing_ = true;
  lock.unlock();
  try {
    FrameHead head;
    head.number = number;
    head.payload_bytes = frame.size() - sizeof(head);
    head.payload_checksum = checksum_of(std::span(frame).subspan(sizeof(head)), identity_);
    head.head_checksum = head.computed_checksum(identity_);
    std::memcpy(frame.data(), &head, sizeof(head));
    write(frame, offset);
    if (durability_ == Durability::sync) {
      sync();
    } else {
      begin_writing_to_disk(offset, offset + frame.size());
    }
  } catch (...) {
    lock.lock();
    failed_ = true;
    writing_ = false;
    written_changed_.notify_all();
    throw;
  }
  lock.lock();
  end_ += frame.size();
  logged_bytes_ += frame.size();
  written_ = number;
  writing_ = false;
  written_changed_.notify_all();
}

void RedoLog::empty() {
  const std::lock_guard lock(mutex_);
  if (::ftruncate(descriptor_, sizeof(LogHeader)) != 0) {
    fail("emptied");
  }
  sync();
  end_ = sizeof(LogHeader);
}

std::uint64_t RedoLog::bytes() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

std::uint64_t RedoLog::logged_bytes() const {
  const std::lock_guard lock(mutex_);
  return logged_bytes_;
}

std::uint64_t RedoLog::frames() const {
  const std::lock_guard lock(mutex_);
  return written_;
}

}  // namespace tiermap
