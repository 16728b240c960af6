// A store that another process serves: a store written in Python. The thread that faults may hold this interpreter's
// lock, so whoever fills the page must never want it; the process at the other end has an interpreter of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "tiermap/store.hpp"

namespace tiermap::python {

/// What goes over a channel, native byte order: 24 bytes there and 16 back. Data lies in the channel's slot of the
/// shared memory. python/tiermap/_store_server.py is the other end.
struct ChannelRequest {
  std::uint32_t kind = 0;  ///< 1 read, 2 write, 3 flush.
  std::uint32_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t number = 0;  ///< Comes back with the answer.
};
struct ChannelReply {
  std::int64_t result = 0;  ///< Bytes done, 0 for a flush, or a negative errno value: then the slot begins with a text.
  std::uint32_t text_bytes = 0;
  std::uint32_t number = 0;
};

/// What there is of the other end: a connected SOCK_SEQPACKET socket a channel, and one slot of memory each.
struct ChannelEnds {
  std::vector<int> sockets;  ///< Taken over.
  int memory = -1;           ///< memfd of sockets.size() slots. Taken over.
  std::uint64_t slot_bytes = 0;
  int control = -1;  ///< By which a forked child asks the other end for channels of its own. Taken over.
  int process = 0;   ///< Reaped when the store ends; 0: another process's, which has the control to end.
};

/// What one channel is asked for, for who looks whether it is ever answered.
struct CallUnderWay {
  std::atomic<std::int64_t> began_milliseconds{0};  ///< 0: nothing.
  std::atomic<std::uint32_t> kind{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> offset{0};
};

/// From here on no store is waited for longer than its patience in one call: it is given up then, and all its calls
/// fail (ETIMEDOUT). For the end of the program.
void lose_patience();

/// In a forked child: the stores are its parent's.
void forget_channel_stores();

/// Thread-safe. As many calls are under way at once as there are channels.
class ChannelStore final : public Store {
 public:
  /// Throws StoreError when the memory cannot be mapped.
  ChannelStore(ChannelEnds ends, std::uint64_t size, bool writable, std::string name, double patience_seconds);
  ~ChannelStore() override;
  ChannelStore(const ChannelStore&) = delete;
  ChannelStore& operator=(const ChannelStore&) = delete;

  std::uint64_t size_bytes() const override { return size_; }
  bool writable() const override { return writable_; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int flush() override;
  std::uint32_t max_reads_in_flight() const override { return static_cast<std::uint32_t>(ends_.sockets.size()); }
  std::uint32_t max_writes_in_flight() const override { return max_reads_in_flight(); }
  std::string name() const override { return name_; }

  int control() const { return ends_.control; }

  /// Gives the store up if one of its calls takes longer than its patience, reckoned from `since` at the earliest.
  void give_up_if_stuck(std::int64_t since_milliseconds, std::int64_t now_milliseconds);

  /// What the other end said of its last failure; "" if it had none.
  std::string last_error() const;

 private:
  class Held;  // A channel for as long as one call lasts.

  std::int64_t call(std::size_t channel, std::uint32_t kind, std::uint64_t offset, std::size_t bytes);
  void keep_error(const char* text, std::size_t bytes);

  const ChannelEnds ends_;
  const std::uint64_t size_;
  const bool writable_;
  const std::string name_;
  const std::int64_t patience_milliseconds_;
  const int owner_;
  char* slots_ = nullptr;

  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::size_t> free_;        ///< Channels that no call uses. Guarded by mutex_.
  std::vector<CallUnderWay> under_way_;  ///< Of each channel.
  std::atomic<bool> given_up_{false};

  mutable std::mutex error_mutex_;
  std::size_t error_bytes_ = 0;  ///< Guarded by error_mutex_, like the text: fillers must not allocate.
  char error_[8192];
};

}  // namespace tiermap::python
