/// An unmapped place in the middle of memory of the test's own, for a region at a chosen address.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>

namespace tiermap {

/// A gap of `bytes` between two neighbours of `neighbour_bytes` each, which can be read and written, all three aligned
/// to `alignment_bytes`. Whoever has mapped something into the gap unmaps it before this object ends.
///
/// A cache's own threads and frames, and a sanitizer's memory, are mapped while the test goes on, and the kernel puts a
/// mapping into the highest room that it fits into. So ampler room is left free above the neighbours: the gap is
/// nobody's choice.
class SurroundedGap {
 public:
  SurroundedGap(std::uint64_t bytes, std::uint64_t neighbour_bytes, std::uint64_t alignment_bytes)
      : bytes_(bytes), neighbour_bytes_(neighbour_bytes) {
    constexpr std::uint64_t room_bytes = 4ULL << 30;
    whole_bytes_ = bytes + 2 * neighbour_bytes + alignment_bytes;
    // Both in one mapping: alone, the small one could fit into a hole above the room.
    void* const mapped = ::mmap(nullptr, whole_bytes_ + room_bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(), "a test's memory around a gap");
    }
    whole_ = static_cast<std::byte*>(mapped);
    ::munmap(whole_ + whole_bytes_, room_bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(whole_) + neighbour_bytes + alignment_bytes - 1;
    gap_ = reinterpret_cast<std::byte*>(address / alignment_bytes * alignment_bytes);
    ::munmap(gap_, bytes_);
  }
  SurroundedGap(const SurroundedGap&) = delete;
  SurroundedGap& operator=(const SurroundedGap&) = delete;
  ~SurroundedGap() {
    ::munmap(whole_, static_cast<std::size_t>(gap_ - whole_));
    std::byte* const behind = gap_ + bytes_;
    ::munmap(behind, static_cast<std::size_t>(whole_ + whole_bytes_ - behind));
  }

  std::byte* data() const { return gap_; }
  std::byte* before() const { return gap_ - neighbour_bytes_; }
  std::byte* behind() const { return gap_ + bytes_; }

 private:
  std::uint64_t bytes_;
  std::uint64_t neighbour_bytes_;
  std::uint64_t whole_bytes_ = 0;
  std::byte* whole_ = nullptr;
  std::byte* gap_ = nullptr;
};

}  // namespace tiermap
