#include "channel_store.hpp"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "platform/clock.hpp"
#include "platform/signals_blocked.hpp"
#include "tiermap/error.hpp"

namespace tiermap::python {
namespace {

constexpr std::uint32_t kind_read = 1;
constexpr std::uint32_t kind_write = 2;
constexpr std::uint32_t kind_flush = 3;

bool send_request(int socket, const ChannelRequest& request) {
  while (true) {
    const ssize_t sent = ::send(socket, &request, sizeof request, MSG_NOSIGNAL);
    if (sent >= 0 || errno != EINTR) {
      return sent == static_cast<ssize_t>(sizeof request);
    }
  }
}

bool receive_reply(int socket, ChannelReply& reply) {
  while (true) {
    const ssize_t got = ::recv(socket, &reply, sizeof reply, 0);
    if (got >= 0 || errno != EINTR) {
      return got == static_cast<ssize_t>(sizeof reply);
    }
  }
}

std::int64_t now_in_milliseconds() {
  return static_cast<std::int64_t>(now_nanoseconds() / 1'000'000);
}

/// All stores of this process. Never freed: the thread that loses patience may run to the very end.
struct LiveStores {
  std::mutex mutex;
  std::set<ChannelStore*> stores;
};
LiveStores* live = new LiveStores;

/// Processes that were still at work when their stores ended: forked children may have channels to them. Never freed:
/// another thread may have had the mutex when this process was forked.
struct Unreaped {
  std::mutex mutex;
  std::vector<pid_t> processes;
};
Unreaped* unreaped = new Unreaped;

bool has_ended(pid_t process) {
  const pid_t ended = ::waitpid(process, nullptr, WNOHANG);
  return ended == process || (ended < 0 && errno != EINTR);
}

/// The process at the other end has been told by the closing of its sockets: waits a moment until it has closed what it
/// has, and leaves it to a later call otherwise.
void reap(pid_t process) {
  const std::lock_guard one_at_a_time(unreaped->mutex);
  std::erase_if(unreaped->processes, has_ended);
  constexpr int rounds = 200;
  for (int round = 0; round < rounds; ++round) {
    if (has_ended(process)) {
      return;
    }
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
  unreaped->processes.push_back(process);
}

[[noreturn]] void give_up_stuck_ones() {
  const std::int64_t began = now_in_milliseconds();
  while (true) {
    constexpr std::chrono::milliseconds interval{20};
    std::this_thread::sleep_for(interval);
    const std::lock_guard lock(live->mutex);
    for (ChannelStore* const store : live->stores) {
      store->give_up_if_stuck(began, now_in_milliseconds());
    }
  }
}

}  // namespace

void lose_patience() {
  const SignalsBlocked inherited;
  try {
    std::thread(give_up_stuck_ones).detach();
  } catch (const std::system_error&) {
    // Where no thread is to be had, stores are waited for: what is still to be written must not depend on this.
  }
}

void forget_channel_stores() {
  live = new LiveStores;
  unreaped = new Unreaped;
}

class ChannelStore::Held {
 public:
  explicit Held(ChannelStore& store) : store_(store) {
    std::unique_lock lock(store.mutex_);
    store.freed_.wait(lock, [&] { return !store.free_.empty(); });
    index_ = store.free_.back();
    store.free_.pop_back();
  }
  ~Held() {
    {
      const std::lock_guard lock(store_.mutex_);
      store_.free_.push_back(index_);
    }
    store_.freed_.notify_one();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  std::size_t index() const { return index_; }
  char* slot() const { return store_.slots_ + index_ * store_.ends_.slot_bytes; }

 private:
  ChannelStore& store_;
  std::size_t index_ = 0;
};

ChannelStore::ChannelStore(ChannelEnds ends, std::uint64_t size, bool writable, std::string name,
                           double patience_seconds)
    : ends_(std::move(ends)),
      size_(size),
      writable_(writable),
      name_(std::move(name)),
      patience_milliseconds_(static_cast<std::int64_t>(patience_seconds * 1000)),
      owner_(::getpid()),
      under_way_(ends_.sockets.size()) {
  const std::size_t bytes = ends_.sockets.size() * ends_.slot_bytes;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ends_.memory, 0);
  if (memory == MAP_FAILED) {
    throw StoreError(errno, "no memory to share with the process of " + name_ + ": " + std::strerror(errno));
  }
  ::madvise(memory, bytes, MADV_DONTFORK);
  slots_ = static_cast<char*>(memory);
  free_.resize(ends_.sockets.size());
  std::iota(free_.begin(), free_.end(), std::size_t{0});
  const std::lock_guard lock(live->mutex);
  live->stores.insert(this);
}

ChannelStore::~ChannelStore() {
  if (::getpid() != owner_) {
    return;  // A forked child has a copy of this; the channels are its parent's.
  }
  {
    const std::lock_guard lock(live->mutex);
    live->stores.erase(this);
  }
  ::munmap(slots_, ends_.sockets.size() * ends_.slot_bytes);
  for (const int socket : ends_.sockets) {
    ::shutdown(socket, SHUT_RDWR);  // Forked children may have it too: the other end is told all the same.
    ::close(socket);
  }
  ::close(ends_.memory);
  if (ends_.control >= 0 && ends_.process > 0) {
    ::shutdown(ends_.control, SHUT_RDWR);
  }
  if (ends_.control >= 0) {
    ::close(ends_.control);
  }
  if (ends_.process > 0) {
    reap(ends_.process);
  }
}

void ChannelStore::keep_error(const char* text, std::size_t bytes) {
  const std::lock_guard lock(error_mutex_);
  error_bytes_ = std::min(bytes, sizeof error_);
  std::memcpy(error_, text, error_bytes_);
}

std::string ChannelStore::last_error() const {
  const std::lock_guard lock(error_mutex_);
  return std::string(error_, error_bytes_);
}

// The other end is told as well, which ends when it sees that its call does not.
void ChannelStore::give_up_if_stuck(std::int64_t since_milliseconds, std::int64_t now_milliseconds) {
  for (const CallUnderWay& call : under_way_) {
    const std::int64_t began = call.began_milliseconds.load();
    if (began == 0 || now_milliseconds - std::max(began, since_milliseconds) < patience_milliseconds_ ||
        given_up_.exchange(true)) {
      continue;
    }
    constexpr const char* verbs[] = {"be called", "read", "write", "flush"};
    char text[200];
    const int length = std::snprintf(
        text, sizeof text, "the store was to %s %llu bytes at %llu, and has not returned for %.3g s",
        verbs[std::min<std::uint32_t>(call.kind.load(), kind_flush)],
        static_cast<unsigned long long>(call.bytes.load()), static_cast<unsigned long long>(call.offset.load()),
        static_cast<double>(patience_milliseconds_) / 1000);
    keep_error(text, static_cast<std::size_t>(length));
    constexpr char told = 0;
    ::send(ends_.control, &told, sizeof told, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (const int socket : ends_.sockets) {
      ::shutdown(socket, SHUT_RDWR);
    }
  }
}

std::int64_t ChannelStore::call(std::size_t channel, std::uint32_t kind, std::uint64_t offset, std::size_t bytes) {
  const int socket = ends_.sockets[channel];
  ChannelReply reply;
  const ChannelRequest request{.kind = kind, .bytes = static_cast<std::uint32_t>(bytes), .offset = offset};
  CallUnderWay& call = under_way_[channel];
  call.kind.store(kind);
  call.bytes.store(bytes);
  call.offset.store(offset);
  call.began_milliseconds.store(now_in_milliseconds());
  const bool answered = send_request(socket, request) && receive_reply(socket, reply);
  call.began_milliseconds.store(0);
  if (!answered) {
    if (given_up_.load()) {
      return -ETIMEDOUT;
    }
    constexpr char ended[] = "the process that served the store has ended";
    keep_error(ended, sizeof ended - 1);
    return -EIO;
  }
  if (reply.result < 0 && reply.text_bytes > 0) {
    keep_error(slots_ + channel * ends_.slot_bytes, std::min<std::uint64_t>(reply.text_bytes, ends_.slot_bytes));
  }
  return reply.result > static_cast<std::int64_t>(bytes) ? -EIO : reply.result;
}

// Who asks for whole pages asks for more than there is: of that the store in Python is not asked.
std::int64_t ChannelStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (offset >= size_) {
    return 0;
  }
  bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, size_ - offset));
  const Held held(*this);
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t piece = std::min<std::size_t>(bytes - done, ends_.slot_bytes);
    const std::int64_t got = call(held.index(), kind_read, offset + done, piece);
    if (got <= 0) {
      return done > 0 ? static_cast<std::int64_t>(done) : got;
    }
    std::memcpy(static_cast<char*>(buffer) + done, held.slot(), static_cast<std::size_t>(got));
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::int64_t>(done);
}

std::int64_t ChannelStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (!writable_) {
    return -EROFS;
  }
  const Held held(*this);
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t piece = std::min<std::size_t>(bytes - done, ends_.slot_bytes);
    std::memcpy(held.slot(), static_cast<const char*>(buffer) + done, piece);
    const std::int64_t put = call(held.index(), kind_write, offset + done, piece);
    if (put <= 0) {
      return done > 0 ? static_cast<std::int64_t>(done) : (put == 0 ? -EIO : put);
    }
    done += static_cast<std::size_t>(put);
  }
  return static_cast<std::int64_t>(done);
}

int ChannelStore::flush() {
  const Held held(*this);
  const std::int64_t result = call(held.index(), kind_flush, 0, 0);
  return result > 0 ? -EIO : static_cast<int>(result);
}

}  // namespace tiermap::python
