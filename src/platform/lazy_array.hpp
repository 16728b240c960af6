// An array of which only the touched parts cost memory: anonymous pages, zero until written. For tables as large as an
// address range may need, made before a signal handler could want them.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "platform/drop_pages.hpp"
#include "platform/page_sizes.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

template <typename T>
class LazyArray {
  static_assert(std::is_trivially_destructible_v<T>, "elements are never destroyed");

 public:
  LazyArray() = default;
  explicit LazyArray(std::size_t size) : size_(size) {
    if (size == 0) {
      return;
    }
    void* memory = ::mmap(nullptr, mapped_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      refuse(errno);
    }
    // Else all of it would get memory after mlockall(MCL_FUTURE).
    unlock_pages(memory, mapped_bytes());
    if (::mprotect(memory, mapped_bytes(), PROT_READ | PROT_WRITE) != 0) {
      const int error_number = errno;
      ::munmap(memory, mapped_bytes());
      refuse(error_number);
    }
    // Huge pages would make one touched element cost 2 MiB.
    ::madvise(memory, mapped_bytes(), MADV_NOHUGEPAGE);
    elements_ = static_cast<T*>(memory);
  }
  LazyArray(LazyArray&& other) noexcept
      : elements_(std::exchange(other.elements_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  LazyArray& operator=(LazyArray&& other) noexcept {
    std::swap(elements_, other.elements_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~LazyArray() {
    if (elements_ != nullptr) {
      ::munmap(elements_, mapped_bytes());
    }
  }

  T& operator[](std::size_t index) noexcept { return elements_[index]; }
  const T& operator[](std::size_t index) const noexcept { return elements_[index]; }
  T* data() noexcept { return elements_; }
  std::size_t size() const noexcept { return size_; }

 private:
  [[noreturn]] void refuse(int error_number) const {
    throw PlatformError(error_number,
                        "cannot reserve " + std::to_string(bytes()) +
                            " bytes of address space for a table: raise the limit (ulimit -v), or map less");
  }
  std::size_t bytes() const noexcept { return size_ * sizeof(T); }
  /// As the kernel has it. ThreadSanitizer goes by the number it is given: of a part of a page it would remember that
  /// it was ours when another thread has it, by a system call that it does not see.
  std::size_t mapped_bytes() const noexcept { return round_up(bytes(), kernel_page_bytes); }
  T* elements_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tiermap
