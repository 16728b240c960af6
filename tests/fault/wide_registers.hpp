// Whether the upper halves of this processor's registers of 256 bits are in use, as the processor itself tells.
#pragma once

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tiermap {

#if defined(__x86_64__)
namespace wide_registers {

/// XGETBV with 1: the parts of the state that are not as they are at first; bit 2 is the upper halves.
inline bool in_use() {
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return (low & 4U) != 0;
}
[[gnu::target("avx")]] inline void clear() {
  _mm256_zeroupper();
}
inline void use() {
  __asm__ volatile("vcmpps $15, %%ymm15, %%ymm15, %%ymm15" ::: "xmm15");
}
inline bool can_be_told() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned extended_state = 13;
  if (__builtin_cpu_supports("avx2") == 0 || __get_cpuid_count(extended_state, 1, &a, &b, &c, &d) == 0 ||
      (a & 4U) == 0) {
    return false;
  }
  use();
  const bool seen = in_use();
  clear();
  return seen && !in_use();
}

}  // namespace wide_registers
#endif

/// What `work` leaves: upper halves that are in use slow every instruction of 128 bits that follows, the program's own.
template <typename Work>
void expect_wide_registers_left_clear(const Work& work) {
#if defined(__x86_64__)
  if (!wide_registers::can_be_told()) {
    GTEST_SKIP() << "this processor does not tell whether its registers of 256 bits are in use";
  }
  wide_registers::clear();
  work();
  const bool left_in_use = wide_registers::in_use();
  wide_registers::clear();
  EXPECT_FALSE(left_in_use);
#else
  GTEST_SKIP() << "only x86-64 has upper halves that slow others down";
#endif
}

}  // namespace tiermap
