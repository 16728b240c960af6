// Threads that write back for threads of the program, when these sync, unmap or resize: a thread of the program must
// not use a ring (platform/io_ring.hpp).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "fault/pager.hpp"
#include "fault/write_back.hpp"

namespace tiermap {

class Writers {
 public:
  explicit Writers(Pager& pager);
  /// Requires that nobody is in run().
  ~Writers();
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  /// Does `work` in a thread of the engine's, and returns when it has ended; what it throws is thrown here. There are
  /// as many threads as were wanted at one time; where there can be none more it is done in the calling thread.
  void run(const std::function<void(WriteBack&)>& work);

 private:
  class Writer;

  Writer* take();
  void put_back(Writer& writer);

  Pager& pager_;
  std::mutex mutex_;  ///< Guards both lists, with signals blocked.
  std::vector<std::unique_ptr<Writer>> writers_;
  std::vector<Writer*> idle_;  ///< Has room for all of them.
};

}  // namespace tiermap
