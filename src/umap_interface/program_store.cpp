#include "umap_interface/program_store.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <unordered_map>
#include <utility>

#include "platform/page_sizes.hpp"

namespace tiermap::umap_interface {

struct ProgramStore::Liveness {
  explicit Liveness(Umap::Store& program_store) : store(&program_store) {}
  std::atomic<Umap::Store*> store;  ///< Null once it is being destroyed.
};

namespace {

thread_local unsigned calls_under_way = 0;

struct CallUnderWay {
  CallUnderWay() noexcept { ++calls_under_way; }
  ~CallUnderWay() { --calls_under_way; }
  CallUnderWay(const CallUnderWay&) = delete;
  CallUnderWay& operator=(const CallUnderWay&) = delete;
};

constinit std::mutex known_mutex;

/// Guarded by known_mutex, from its making on. Never destroyed: a program's stores may be, after everything else.
template <typename Liveness>
std::unordered_multimap<const Umap::Store*, Liveness*>& known_stores() {
  static auto& mapped = *new std::unordered_multimap<const Umap::Store*, Liveness*>;
  return mapped;
}

/// What UMap's stores return, as the engine's do.
std::int64_t result_of(ssize_t count, int error_number) noexcept {
  if (count >= 0) {
    return count;
  }
  return error_number > 0 ? -error_number : -EIO;
}

}  // namespace

/// Memory of its own for one call. Not from the heap: a thread that was interrupted in malloc() may wait for it.
class ProgramStore::Buffer {
 public:
  explicit Buffer(ProgramStore& owner) : owner_(owner) {
    {
      const std::lock_guard held(owner.buffers_mutex_);
      if (owner.free_buffers_ != nullptr) {
        memory_ = std::exchange(owner.free_buffers_, owner.free_buffers_->next);
        return;
      }
    }
    memory_ = ::mmap(nullptr, size(owner), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) {
      throw std::bad_alloc();
    }
  }
  ~Buffer() {
    const std::lock_guard held(owner_.buffers_mutex_);
    owner_.free_buffers_ = new (memory_) FreeBuffer{owner_.free_buffers_};
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* data() const noexcept { return static_cast<char*>(memory_); }
  static std::size_t size(const ProgramStore& owner) noexcept {
    return static_cast<std::size_t>(owner.page_bytes_ + kernel_page_bytes);
  }

 private:
  ProgramStore& owner_;
  void* memory_ = nullptr;
};

ProgramStore::ProgramStore(Umap::Store& store, std::uint64_t end, std::uint64_t page_bytes)
    : liveness_(std::make_shared<Liveness>(store)), end_(end), page_bytes_(page_bytes) {
  const std::lock_guard held(known_mutex);
  known_stores<Liveness>().emplace(&store, liveness_.get());
}

ProgramStore::~ProgramStore() {
  while (free_buffers_ != nullptr) {
    ::munmap(std::exchange(free_buffers_, free_buffers_->next), Buffer::size(*this));
  }
  const std::lock_guard held(known_mutex);
  std::erase_if(known_stores<Liveness>(), [&](const auto& entry) { return entry.second == liveness_.get(); });
}

void ProgramStore::forget(const Umap::Store& store) noexcept {
  const std::lock_guard held(known_mutex);
  const auto [first, end] = known_stores<Liveness>().equal_range(&store);
  for (auto entry = first; entry != end; ++entry) {
    entry->second->store.store(nullptr);
  }
}

void ProgramStore::hold_all() noexcept {
  known_mutex.lock();
}

void ProgramStore::release_all() noexcept {
  known_mutex.unlock();
}

bool ProgramStore::calling() noexcept {
  return calls_under_way > 0;
}

Umap::Store* ProgramStore::alive() const noexcept {
  return liveness_->store.load();
}

std::int64_t ProgramStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  Umap::Store* const store = alive();
  if (store == nullptr) {
    return -EBADF;
  }
  if (offset >= end_) {
    return 0;
  }
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>({bytes, end_ - offset, page_bytes_}));
  const Buffer own(*this);
  std::memset(own.data(), 0, wanted);
  const CallUnderWay under_way;
  errno = 0;
  const ssize_t count = store->read_from_store(own.data(), wanted, static_cast<off_t>(offset));
  if (count < 0) {
    return result_of(count, errno);
  }
  std::memcpy(buffer, own.data(), wanted);
  return static_cast<std::int64_t>(wanted);
}

std::int64_t ProgramStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  Umap::Store* const store = alive();
  if (store == nullptr) {
    return -EBADF;
  }
  const std::size_t wanted = std::min(bytes, static_cast<std::size_t>(page_bytes_));
  const Buffer own(*this);
  std::memcpy(own.data(), buffer, wanted);
  const CallUnderWay under_way;
  errno = 0;
  const ssize_t count = store->write_to_store(own.data(), wanted, static_cast<off_t>(offset));
  return count < 0 ? result_of(count, errno) : std::min<std::int64_t>(count, static_cast<std::int64_t>(wanted));
}

}  // namespace tiermap::umap_interface
