#include "store/s3/written_store.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <random>
#include <thread>

#include "platform/engine_thread.hpp"
#include "store/s3/parts.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t most_object_bytes = 50ULL << 40;  // S3's own limit.
constexpr std::uint64_t least_room_bytes = 1ULL << 40;
constexpr int most_beginnings = 3;  // Where others write at the same time.

/// Different in every object that is made.
std::string new_mark() {
  std::random_device device;
  std::string text;
  for (int digit = 0; digit < 32; ++digit) {
    text += "0123456789abcdef"[device() % 16];
  }
  return text;
}

}  // namespace

S3WrittenStore::S3WrittenStore(std::shared_ptr<S3Client> client, S3Version version, std::uint64_t bytes)
    : client_(std::move(client)),
      base_(std::make_shared<S3ObjectStore>(client_, version)),
      overlay_(std::make_shared<OverlayStore>(base_, bytes)),
      changed_(static_cast<std::size_t>(std::max(least_room_bytes, 2 * bytes) / mark_bytes)),
      base_limit_(version.bytes),
      process_(::getpid()) {}

// Who wants to know whether that goes well calls flush(), or unmaps the region.
S3WrittenStore::~S3WrittenStore() {
  bool written = false;
  for (std::size_t mark = 0; mark * mark_bytes < size_bytes() && !written; ++mark) {
    written = changed_[mark].load(std::memory_order_acquire) != 0;
  }
  if ((written || (base_->version()->exists() && size_bytes() != base_->size_bytes())) && process_ == ::getpid()) {
    flush();
  }
}

void S3WrittenStore::mark(std::uint64_t begin, std::uint64_t end) noexcept {
  for (std::uint64_t mark = begin / mark_bytes; mark * mark_bytes < end; ++mark) {
    changed_[static_cast<std::size_t>(mark)].store(1, std::memory_order_release);
  }
}

std::vector<bool> S3WrittenStore::take_marks(std::uint64_t bytes) {
  std::vector<bool> taken((bytes + mark_bytes - 1) / mark_bytes);
  for (std::size_t mark = 0; mark < taken.size(); ++mark) {
    taken[mark] = changed_[mark].exchange(0, std::memory_order_acq_rel) != 0;
  }
  return taken;
}

std::int64_t S3WrittenStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  return overlay_->read(buffer, bytes, offset);
}

std::int64_t S3WrittenStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (process_ != ::getpid()) {
    return -EBUSY;
  }
  if (bytes == 0) {
    return 0;
  }
  if (const std::uint64_t end = offset + bytes; end > size_bytes()) {
    const std::lock_guard lock(size_mutex_);
    const int result = end <= size_bytes() ? 0 : end > most_object_bytes ? -EFBIG : overlay_->resize(end);
    if (result != 0) {
      return result;
    }
  }
  const std::int64_t written = overlay_->write(buffer, bytes, offset);
  if (written > 0) {
    mark(offset, offset + static_cast<std::uint64_t>(written));
  }
  return written;
}

int S3WrittenStore::resize(std::uint64_t bytes) {
  if (process_ != ::getpid()) {
    return -EBUSY;
  }
  if (bytes > most_object_bytes) {
    return -EFBIG;
  }
  const std::lock_guard lock(size_mutex_);
  const std::uint64_t before = size_bytes();
  if (const int result = overlay_->resize(bytes); result != 0) {
    return result;
  }
  if (bytes < before) {
    base_limit_.store(std::min(base_limit_.load(), bytes), std::memory_order_release);
    mark(bytes, before);  // If it grows again these are zeros, and not what the object has.
  }
  return 0;
}

bool S3WrittenStore::has_to_be_made(std::uint64_t bytes) const {
  const std::shared_ptr<const S3Version> there = base_->version();
  return !there->exists() || there->bytes != bytes;
}

int S3WrittenStore::flush() {
  if (process_ != ::getpid()) {
    return -EBUSY;
  }
  try {
    const std::lock_guard lock(making_);
    return make_object();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (const std::exception&) {
    return -EIO;
  }
}

int S3WrittenStore::make_object() {
  const std::uint64_t bytes = size_bytes();
  const std::vector<bool> changed = take_marks(bytes);
  if (std::find(changed.begin(), changed.end(), true) == changed.end() && !has_to_be_made(bytes)) {
    return 0;
  }
  S3Failure failure;
  try {
    for (int beginning = 0; beginning < most_beginnings; ++beginning) {
      const std::shared_ptr<const S3Version> before = base_->version();
      failure = make_new_version(bytes, changed);
      const bool stale = failure.error_number == ESTALE && !failure.conflict;
      if (failure.error_number == 0 || !(failure.conflict || (stale && base_->take_own_version(before)))) {
        break;
      }
    }
  } catch (const std::bad_alloc&) {
    failure = {ENOMEM, false, false, "out of memory", "choose a smaller part="};
  } catch (const std::exception& error) {
    failure = {EIO, false, false, s3_line(error.what()), "flush again"};
  }
  if (failure.error_number == 0) {
    return 0;
  }
  for (std::size_t taken = 0; taken < changed.size(); ++taken) {
    if (changed[taken]) {
      mark(taken * mark_bytes, taken * mark_bytes + 1);
    }
  }
  return base_->report(failure);
}

S3Failure S3WrittenStore::make_new_version(std::uint64_t bytes, const std::vector<bool>& changed) {
  const S3Client::Change change{*base_->version(), new_mark()};
  return bytes <= client_->options().part_bytes ? put(change, bytes) : upload(change, bytes, changed);
}

S3Failure S3WrittenStore::put(const S3Client::Change& change, std::uint64_t bytes) {
  std::vector<char> content(static_cast<std::size_t>(bytes));
  S3Failure failure = fill(content, 0);
  if (failure.error_number != 0) {
    return failure;
  }
  return base_->replace(change.commit, [&](S3Version& made) { return client_->put(change, content, made); });
}

S3Failure S3WrittenStore::upload(const S3Client::Change& change, std::uint64_t bytes,
                                 const std::vector<bool>& changed) {
  S3PartsWanted wanted{bytes, client_->options().part_bytes, change.from.bytes, {}};
  wanted.unchanged = [&](std::uint64_t first, std::uint64_t count) {
    const auto from = changed.begin() + static_cast<std::ptrdiff_t>(first / mark_bytes);
    const auto to = changed.begin() + static_cast<std::ptrdiff_t>((first + count - 1) / mark_bytes + 1);
    return std::find(from, to, true) == to;
  };
  std::vector<S3Client::Part> parts = plan_s3_parts(wanted);
  std::string id;
  S3Failure failure = client_->begin_upload(change, id);
  if (failure.error_number != 0) {
    return failure;
  }
  failure = upload_parts(change, id, parts);
  if (failure.error_number == 0) {
    failure = base_->replace(change.commit,
                             [&](S3Version& made) { return client_->complete_upload(change, id, parts, made); });
  }
  if (failure.error_number != 0) {
    client_->give_up_upload(id);
  }
  return failure;
}

// Several at once, and none is begun any more where one has failed.
S3Failure S3WrittenStore::upload_parts(const S3Client::Change& change, const std::string& upload,
                                       std::vector<S3Client::Part>& parts) {
  std::atomic<std::size_t> next{0};
  std::mutex failure_mutex;
  S3Failure first_failure;
  const auto work = [&] {
    S3Failure failure;
    try {
      std::vector<char> content;
      for (std::size_t index = next++; index < parts.size() && failure.error_number == 0; index = next++) {
        S3Client::Part& part = parts[index];
        if (part.copied) {
          failure = client_->copy_part(change, upload, part);
          continue;
        }
        content.resize(static_cast<std::size_t>(part.bytes));
        failure = fill(content, part.offset);
        failure = failure.error_number != 0 ? failure : client_->upload_part(upload, content, part);
      }
    } catch (const std::exception&) {
      failure = {ENOMEM, false, false, "out of memory", "choose a smaller part="};
    }
    if (failure.error_number != 0) {
      next = parts.size();
      const std::lock_guard lock(failure_mutex);
      first_failure = first_failure.error_number == 0 ? failure : first_failure;
    }
  };
  const std::size_t at_once = std::max<std::size_t>(client_->options().max_writes_in_flight, 1);
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < std::min(at_once, parts.size())) {
      threads.push_back(start_engine_thread("tm-s3-upload", work));
    }
  } catch (const std::exception&) {  // Then with those there are.
  }
  work();
  for (std::thread& thread : threads) {
    thread.join();
  }
  return first_failure;
}

// What the object has in one request, and what was written over it: block by block it would be as many requests.
S3Failure S3WrittenStore::fill(std::vector<char>& content, std::uint64_t offset) {
  constexpr std::uint64_t block_bytes = OverlayStore::block_bytes;
  const std::uint64_t end = offset + content.size();
  const std::uint64_t last_block = (end + block_bytes - 1) / block_bytes;
  std::uint64_t first_missing = offset / block_bytes;
  while (first_missing < last_block && overlay_->is_written(first_missing)) {
    ++first_missing;
  }
  const std::uint64_t limit = std::min(end, base_limit_.load(std::memory_order_acquire));
  std::fill(content.begin(), content.end(), char{0});
  if (first_missing < last_block && offset < limit) {
    const S3Failure failure = client_->read(*base_->version(), {content.data(), limit - offset}, offset);
    if (failure.error_number != 0) {
      return failure;
    }
  }
  for (std::uint64_t block = offset / block_bytes; block < last_block;) {
    std::uint64_t behind = block;
    while (behind < last_block && overlay_->is_written(behind)) {
      ++behind;
    }
    if (behind == block) {
      ++block;
      continue;
    }
    const std::uint64_t from = std::max(offset, block * block_bytes);
    for (std::uint64_t at = from; at < std::min(end, behind * block_bytes);) {
      const std::int64_t got =
          overlay_->read(content.data() + (at - offset), std::min(end, behind * block_bytes) - at, at);
      if (got < 0) {
        return {static_cast<int>(-got), false, false, "what was written cannot be read back from $TMPDIR",
                "flush again"};
      }
      if (got == 0) {
        break;  // It was made shorter meanwhile.
      }
      at += static_cast<std::uint64_t>(got);
    }
    block = behind;
  }
  return {};
}

}  // namespace tiermap
