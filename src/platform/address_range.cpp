#include "platform/address_range.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "platform/drop_pages.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr int mapping_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Of a range that is PROT_NONE. Returns what mprotect() does.
int prepare(void* data, std::size_t bytes, int protection) noexcept {
  // A child would see holes where pages are: better that it faults at once. Moving pages also needs them unshared.
  ::madvise(data, bytes, MADV_DONTFORK);
  // Where the program has the kernel merge equal pages (PR_SET_MEMORY_MERGE): a merged page loses its write-protection,
  // and what is written to it then is never heard of. It cannot be moved either.
  ::madvise(data, bytes, MADV_UNMERGEABLE);
  // After mlockall(MCL_FUTURE) the kernel would give memory to all of it, which may be as much as the machine has.
  unlock_pages(data, bytes);
  return protection == PROT_NONE ? 0 : ::mprotect(data, bytes, protection);
}

bool replace(void* address, std::size_t bytes) noexcept {
  return ::mmap(address, bytes, PROT_NONE, mapping_flags | MAP_FIXED, -1, 0) != MAP_FAILED;
}

[[noreturn]] void refuse_reservation(int error_number, std::size_t bytes) {
  const char* const limit = error_number == EAGAIN ? "ulimit -l (the program locks its memory)" : "ulimit -v";
  throw PlatformError(
      error_number, "cannot reserve " + std::to_string(bytes) + " bytes of address space: map less, or raise " + limit);
}

}  // namespace

std::string hexadecimal(const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", address);
  return text;
}

bool reserve_exactly(void* address, std::size_t bytes) noexcept {
  void* const reserved = ::mmap(address, bytes, PROT_NONE, mapping_flags | MAP_FIXED_NOREPLACE, -1, 0);
  if (reserved != MAP_FAILED && reserved != address) {  // Kernels before 4.17 take the address as a hint.
    ::munmap(reserved, bytes);
    errno = EEXIST;
    return false;
  }
  return reserved == address;
}

AddressRange AddressRange::reserve(std::size_t bytes, std::size_t alignment, int protection) {
  const std::size_t slack = alignment > 4096 ? alignment : 0;
  void* raw = ::mmap(nullptr, bytes + slack, PROT_NONE, mapping_flags, -1, 0);
  if (raw == MAP_FAILED) {
    refuse_reservation(errno, bytes);
  }
  auto* first = static_cast<std::byte*>(raw);
  const std::size_t misalignment = reinterpret_cast<std::uintptr_t>(first) & (alignment - 1);
  const std::size_t head = misalignment == 0 ? 0 : alignment - misalignment;
  if (head > 0) {
    ::munmap(first, head);
  }
  if (slack > head) {
    ::munmap(first + head + bytes, slack - head);
  }
  AddressRange range{first + head, bytes};
  if (prepare(range.data(), bytes, protection) != 0) {
    refuse_reservation(errno, bytes);
  }
  return range;
}

AddressRange AddressRange::reserve_at(void* address, std::size_t bytes, int protection, Replacement replacement) {
  const bool reserved = replacement == Replacement::none ? reserve_exactly(address, bytes) : replace(address, bytes);
  if (!reserved) {
    const char* cause = errno == EEXIST ? "something is mapped there already" : "that place may not be mapped";
    throw PlatformError(errno, "cannot map " + std::to_string(bytes) + " bytes at " + hexadecimal(address) + ": " +
                                   cause + ", choose another address or none");
  }
  AddressRange range{static_cast<std::byte*>(address), bytes};
  range.stays_reserved_ = replacement == Replacement::reservation;
  if (prepare(address, bytes, protection) != 0) {
    refuse_reservation(errno, bytes);
  }
  return range;
}

AddressRange::~AddressRange() {
  if (data_ != nullptr) {
    give_up(data_, size_);
  }
}

void AddressRange::give_up(std::byte* start, std::size_t bytes) const noexcept {
  if (!stays_reserved_ || !replace(start, bytes)) {
    ::munmap(start, bytes);
  }
}

bool AddressRange::extend(std::size_t bytes, int protection) noexcept {
  std::byte* end = data_ + size_;
  if (!reserve_exactly(end, bytes - size_)) {
    return false;
  }
  if (prepare(end, bytes - size_, protection) != 0) {
    ::munmap(end, bytes - size_);
    return false;
  }
  size_ = bytes;
  return true;
}

void AddressRange::truncate(std::size_t bytes) noexcept {
  if (bytes < size_) {
    give_up(data_ + bytes, size_ - bytes);
    size_ = bytes;
  }
}

}  // namespace tiermap
