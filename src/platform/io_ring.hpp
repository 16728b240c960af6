// Many reads and writes in flight from one thread: io_uring, or plain system calls where it is refused. One thread uses
// a ring: one of the engine's, since the kernel wakes every thread that has used a ring some time after that has ended,
// and whatever the thread waits for then may fail with EINTR. It may be made and destroyed by any. Not for signal
// handlers.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tiermap {

class IoRing {
 public:
  /// What became of a request.
  struct Completion {
    std::uint64_t token;
    std::int64_t result;  ///< Bytes, or a negative errno value.
  };

  /// At most `depth` requests in flight, 1 to 4096; with 0 there is no ring, and nothing may be queued.
  explicit IoRing(unsigned depth);
  ~IoRing();
  IoRing(const IoRing&) = delete;
  IoRing& operator=(const IoRing&) = delete;

  /// Whether another request fits.
  bool full() const noexcept { return in_flight_ >= depth_; }
  unsigned in_flight() const noexcept { return in_flight_; }
  /// Whether the kernel's io_uring is used.
  bool asynchronous() const noexcept;
  /// The errno value for which the kernel's io_uring is not used; 0 if it is.
  int error_number() const noexcept { return error_number_; }
  /// Readable when a completion waits; -1 without io_uring.
  int file_descriptor() const noexcept;

  /// Queues a request; the vectors must last until its completion. Requires !full().
  void read(int file_descriptor, std::span<const iovec> vectors, std::uint64_t offset, std::uint64_t token);
  void write(int file_descriptor, std::span<const iovec> vectors, std::uint64_t offset, std::uint64_t token);

  /// Hands queued requests to the kernel.
  void submit();

  /// Submits, waits until at least `least` requests completed (fewer if fewer are in flight), and returns what
  /// completed. The span is valid until the next call.
  std::span<const Completion> reap(unsigned least);

 private:
  struct Kernel;
  void open() noexcept;
  void perform(bool writing, int file_descriptor, std::span<const iovec> vectors, std::uint64_t offset,
               std::uint64_t token);
  void drain();

  std::unique_ptr<Kernel> kernel_;
  int error_number_ = 0;
  unsigned depth_;
  unsigned in_flight_ = 0;
  std::vector<Completion> completions_;  ///< Of requests performed at once, until reaped.
  std::vector<Completion> reaped_;
};

}  // namespace tiermap
