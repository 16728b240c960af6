#include "store/memory_store.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "platform/page_sizes.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_reservation = 1ULL << 30;
constexpr std::uint64_t largest = 1ULL << 46;  // Half of the address space of a process.

void* reserve(std::uint64_t bytes) {
  return ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

}  // namespace

MemoryStore::MemoryStore(std::uint64_t bytes, bool writable) : writable_(writable) {
  const std::string what = "memory store of " + std::to_string(bytes) + " bytes";
  if (bytes > largest) {
    throw StoreError(ENOMEM, what + " does not fit into the address space: choose at most 64TiB");
  }
  reserved_ = std::min(largest, std::max(least_reservation, round_up(bytes, kernel_page_bytes) * 8));
  void* memory = reserve(reserved_);
  if (memory == MAP_FAILED) {
    reserved_ = std::max(kernel_page_bytes, round_up(bytes, kernel_page_bytes));
    memory = reserve(reserved_);
  }
  if (memory == MAP_FAILED) {
    throw StoreError(errno, what + " gets no address space: " + error_text(errno) + ": choose a smaller size");
  }
  memory_ = static_cast<char*>(memory);
  if (const int result = resize(bytes); bytes != 0 && usable_ < bytes) {
    ::munmap(memory_, reserved_);
    throw StoreError(-result, what + " gets no memory: " + error_text(-result) + ": choose a smaller size");
  }
}

MemoryStore::~MemoryStore() {
  ::munmap(memory_, reserved_);
}

std::int64_t MemoryStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t size = size_bytes();
  if (offset >= size) {
    return 0;
  }
  const std::size_t take = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, size - offset));
  std::memcpy(buffer, memory_ + offset, take);
  return static_cast<std::int64_t>(take);
}

std::int64_t MemoryStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (!writable_) {
    return -EROFS;
  }
  const std::uint64_t size = size_bytes();
  if (offset >= size) {
    return bytes == 0 ? 0 : -ENOSPC;
  }
  const std::size_t take = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, size - offset));
  std::memcpy(memory_ + offset, buffer, take);
  return static_cast<std::int64_t>(take);
}

int MemoryStore::resize(std::uint64_t bytes) {
  const std::lock_guard lock(resize_mutex_);
  if (bytes > reserved_) {
    return -ENOMEM;
  }
  const std::uint64_t wanted = round_up(bytes, kernel_page_bytes);
  if (wanted > usable_) {
    if (::mprotect(memory_ + usable_, wanted - usable_, PROT_READ | PROT_WRITE) != 0) {
      return -errno;
    }
    usable_ = wanted;
  }
  const std::uint64_t before = size_.exchange(bytes, std::memory_order_acq_rel);
  if (bytes < before) {
    // What is cut off must not come back when the store grows again; whole pages are given back.
    std::memset(memory_ + bytes, 0, std::min(wanted, before) - bytes);
    if (usable_ > wanted) {
      ::madvise(memory_ + wanted, usable_ - wanted, MADV_DONTNEED);
    }
  }
  return 0;
}

}  // namespace tiermap
