#include "platform/io_ring.hpp"

#include <liburing.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>

#include "platform/engine_thread.hpp"
#include "platform/thread_sanitizer.hpp"

namespace tiermap {

struct IoRing::Kernel {
  io_uring ring{};
};

namespace {

// COOP_TASKRUN spares the interrupt that would otherwise force each completion into this thread. Returns 0 or a
// negative errno value.
int make_ring(io_uring& ring, unsigned depth) noexcept {
  int result = io_uring_queue_init(depth, &ring, IORING_SETUP_COOP_TASKRUN);
  if (result != 0) {
    result = io_uring_queue_init(depth, &ring, 0);
  }
  AddressesOrderedByKernel::have_been_taken();
  return result;
}

void give_up(io_uring& ring) noexcept {
  AddressesOrderedByKernel::will_be_given_back();
  io_uring_queue_exit(&ring);
}

// Some sandboxes let a ring be made, and nothing be done with it. Returns 0 or a negative errno value.
int try_out(io_uring& ring) noexcept {
  io_uring_cqe* entry = nullptr;
  io_uring_prep_nop(io_uring_get_sqe(&ring));
  if (const int submitted = io_uring_submit(&ring); submitted != 1) {
    return submitted < 0 ? submitted : -EIO;
  }
  if (const int waited = io_uring_wait_cqe(&ring, &entry); waited != 0) {
    return waited;
  }
  io_uring_cqe_seen(&ring, entry);
  return 0;
}

/// A ring cannot be renumbered. One that has a standard stream's number is held until the next one has another: others
/// may give such numbers up at any moment.
int make_ring_above_standard_streams(io_uring& ring, unsigned depth) noexcept {
  const int made = make_ring(ring, depth);
  if (made != 0 || ring.ring_fd > STDERR_FILENO) {
    return made;
  }
  io_uring low = ring;
  const int made_again = make_ring_above_standard_streams(ring, depth);
  give_up(low);
  return made_again;
}

}  // namespace

IoRing::IoRing(unsigned depth) : kernel_(depth == 0 ? nullptr : std::make_unique<Kernel>()), depth_(depth) {
  if (kernel_ != nullptr) {
    do_in_engine_thread("tiermap-ring", [this] { open(); });  // Whoever makes a ring counts as one who has used it.
  }
  completions_.reserve(depth);
  reaped_.reserve(depth);
}

void IoRing::open() noexcept {
  if (const int made = make_ring_above_standard_streams(kernel_->ring, depth_); made != 0) {
    error_number_ = -made;
    kernel_.reset();
  } else if (const int tried = try_out(kernel_->ring); tried != 0) {
    error_number_ = -tried;
    give_up(kernel_->ring);
    kernel_.reset();
  }
}

IoRing::~IoRing() {
  if (kernel_ != nullptr) {
    // Buffers of requests in flight belong to the caller: none may be left to the kernel.
    while (in_flight_ > 0) {
      reap(1);
    }
    give_up(kernel_->ring);
  }
}

bool IoRing::asynchronous() const noexcept {
  return kernel_ != nullptr;
}

int IoRing::file_descriptor() const noexcept {
  return kernel_ == nullptr ? -1 : kernel_->ring.ring_fd;
}

void IoRing::perform(bool writing, int file_descriptor, std::span<const iovec> vectors, std::uint64_t offset,
                     std::uint64_t token) {
  const auto count = static_cast<int>(vectors.size());
  const auto position = static_cast<off_t>(offset);
  ssize_t result = 0;
  do {
    result = writing ? ::pwritev(file_descriptor, vectors.data(), count, position)
                     : ::preadv(file_descriptor, vectors.data(), count, position);
  } while (result < 0 && errno == EINTR);
  completions_.push_back({token, result < 0 ? -errno : result});
}

void IoRing::read(int file_descriptor, std::span<const iovec> vectors, std::uint64_t offset, std::uint64_t token) {
  ++in_flight_;
  io_uring_sqe* entry = kernel_ == nullptr ? nullptr : io_uring_get_sqe(&kernel_->ring);
  if (entry == nullptr) {
    return perform(false, file_descriptor, vectors, offset, token);
  }
  io_uring_prep_readv(entry, file_descriptor, vectors.data(), static_cast<unsigned>(vectors.size()), offset);
  io_uring_sqe_set_data64(entry, token);
}

void IoRing::write(int file_descriptor, std::span<const iovec> vectors, std::uint64_t offset, std::uint64_t token) {
  ++in_flight_;
  io_uring_sqe* entry = kernel_ == nullptr ? nullptr : io_uring_get_sqe(&kernel_->ring);
  if (entry == nullptr) {
    return perform(true, file_descriptor, vectors, offset, token);
  }
  io_uring_prep_writev(entry, file_descriptor, vectors.data(), static_cast<unsigned>(vectors.size()), offset);
  io_uring_sqe_set_data64(entry, token);
}

void IoRing::submit() {
  // The kernel may want memory for requests, and have none at the moment.
  while (kernel_ != nullptr && io_uring_sq_ready(&kernel_->ring) > 0 && io_uring_submit(&kernel_->ring) < 0) {
    ::sched_yield();
  }
}

void IoRing::drain() {
  io_uring_cqe* entry = nullptr;
  while (io_uring_peek_cqe(&kernel_->ring, &entry) == 0) {
    reaped_.push_back({io_uring_cqe_get_data64(entry), entry->res});
    io_uring_cqe_seen(&kernel_->ring, entry);
  }
}

std::span<const IoRing::Completion> IoRing::reap(unsigned least) {
  submit();
  reaped_.clear();
  reaped_.swap(completions_);
  if (kernel_ != nullptr) {
    drain();
    const unsigned wanted = least < in_flight_ ? least : in_flight_;
    while (reaped_.size() < wanted) {
      io_uring_cqe* entry = nullptr;
      io_uring_wait_cqe(&kernel_->ring, &entry);
      drain();
    }
  }
  in_flight_ -= static_cast<unsigned>(reaped_.size());
  return reaped_;
}

}  // namespace tiermap
