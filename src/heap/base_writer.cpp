#include "heap/base_writer.hpp"

#include <algorithm>
#include <cerrno>

#include "platform/engine_thread.hpp"

namespace tiermap {
namespace {

/// A disk gains little from more in flight.
constexpr unsigned most_in_flight = 64;
/// Longer writes are cut, so that they are in flight side by side too.
constexpr std::size_t most_request_bytes = 512 << 10;
constexpr std::uint64_t aligned_bytes = 4096;

unsigned depth_for(const Store& store) {
  const unsigned liked = store.max_writes_in_flight();
  return liked == 0 ? most_in_flight : std::min(liked, most_in_flight);
}

}  // namespace

BaseWriter::BaseWriter(Store& store) : store_(store) {}

BaseWriter::~BaseWriter() {
  while (ring_ != nullptr && ring_->in_flight() > 0) {
    ring_->reap(1);
  }
}

void BaseWriter::write(const std::byte* bytes, std::size_t count, std::uint64_t offset) {
  while (count > 0 && result_ == 0) {
    const std::size_t wanted = std::min(count, most_request_bytes);
    Extent extent;
    const bool located =
        wanted % aligned_bytes == 0 && store_.locate_write(offset, wanted, extent) && !extent.hole && extent.bytes > 0;
    const std::size_t taken =
        located ? static_cast<std::size_t>(std::min<std::uint64_t>(extent.bytes, wanted)) : wanted;
    if (located) {
      // Not written to: iovec is for reading as well.
      requests_.push_back({{const_cast<std::byte*>(bytes), taken}, extent.file_descriptor, extent.offset, offset});
    } else {
      write_now(bytes, taken, offset);
    }
    bytes += taken;
    offset += taken;
    count -= taken;
  }
}

int BaseWriter::finish() {
  if (requests_.size() == 1 && ring_ == nullptr) {
    const Request& only = requests_.front();
    write_now(static_cast<const std::byte*>(only.bytes.iov_base), only.bytes.iov_len, only.offset);
    requests_.clear();
  }
  if (!requests_.empty()) {
    do_in_engine_thread("tiermap-write", [this] { write_at_once(); });
  }
  requests_.clear();
  return result_;
}

void BaseWriter::write_at_once() {
  if (ring_ == nullptr) {
    ring_ = std::make_unique<IoRing>(depth_for(store_));
  }
  for (std::size_t request = 0; request < requests_.size() && result_ == 0; ++request) {
    if (ring_->full()) {
      reap(1);
    }
    const Request& next = requests_[request];
    ring_->write(next.file_descriptor, {&next.bytes, 1}, next.file_offset, request);
  }
  while (ring_->in_flight() > 0) {
    reap(ring_->in_flight());
  }
}

/// What was not done as a whole is asked for again, of the store: that does it, or names the error.
void BaseWriter::reap(unsigned least) {
  for (const IoRing::Completion& done : ring_->reap(least)) {
    const Request& request = requests_[done.token];
    if (done.result != static_cast<std::int64_t>(request.bytes.iov_len)) {
      const std::size_t put = done.result > 0 ? static_cast<std::size_t>(done.result) : 0;
      write_now(static_cast<const std::byte*>(request.bytes.iov_base) + put, request.bytes.iov_len - put,
                request.offset + put);
    }
  }
}

void BaseWriter::write_now(const std::byte* bytes, std::size_t count, std::uint64_t offset) {
  while (count > 0 && result_ == 0) {
    const std::int64_t put = store_.write(bytes, count, offset);
    if (put == -EINTR) {
      continue;
    }
    if (put <= 0 || put > static_cast<std::int64_t>(count)) {
      result_ = put < 0 ? static_cast<int>(put) : put == 0 ? -ENOSPC : -EIO;
      return;
    }
    bytes += put;
    offset += static_cast<std::uint64_t>(put);
    count -= static_cast<std::size_t>(put);
  }
}

}  // namespace tiermap
