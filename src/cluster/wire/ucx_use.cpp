#include "cluster/wire/ucx_use.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Which process has it open, and how many times, in one word: no lock that a fork() could leave taken.
std::atomic<std::uint64_t> users{0};
constexpr unsigned process_shift = 32;

std::uint64_t this_process() noexcept {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(::getpid())) << process_shift;
}

std::uint64_t count_in(std::uint64_t word) noexcept {
  return word & UINT32_MAX;
}

}  // namespace

UcxUse::UcxUse() {
  const std::uint64_t here = this_process();
  std::uint64_t before = users.load();
  do {
    if (count_in(before) != 0 && before - count_in(before) != here) {
      throw StoreError(ENOTSUP,
                       "other nodes cannot be reached from the child of a process that had them open when it forked: "
                       "start it as a program of its own (in Python: spawn or forkserver), or fork before");
    }
  } while (!users.compare_exchange_weak(before, here + count_in(before) + 1));
}

UcxUse::~UcxUse() {
  std::uint64_t before = users.load();
  while (before - count_in(before) == this_process() && !users.compare_exchange_weak(before, before - 1)) {
  }
}

}  // namespace tiermap
