// Many writes to a store in flight at once.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "platform/io_ring.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// For one thread. By io_uring where the store says which file its bytes are in, else one after the other by its
/// write(). Nothing is in flight once it is destroyed.
class BaseWriter {
 public:
  explicit BaseWriter(Store& store);
  ~BaseWriter();
  BaseWriter(const BaseWriter&) = delete;
  BaseWriter& operator=(const BaseWriter&) = delete;

  /// To be written by finish(), if not at once. The bytes must stay as they are until then, and ranges not overlap.
  void write(const std::byte* bytes, std::size_t count, std::uint64_t offset);
  /// Returns 0 when all is written, or the first failure as a negative errno value; after one nothing more is begun.
  int finish();

 private:
  struct Request {
    iovec bytes;
    int file_descriptor;
    std::uint64_t file_offset;
    std::uint64_t offset;  ///< In the store.
  };

  void write_at_once();
  void reap(unsigned least);
  void write_now(const std::byte* bytes, std::size_t count, std::uint64_t offset);

  Store& store_;
  std::unique_ptr<IoRing> ring_;  ///< Made when there is more than one request.
  std::vector<Request> requests_;
  int result_ = 0;
};

}  // namespace tiermap
