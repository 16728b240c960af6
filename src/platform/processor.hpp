// What this processor has beyond the least of its architecture.
#pragma once

namespace tiermap {

#if defined(__x86_64__)
/// Registers of 256 bits. Asked once: checksums of small pieces ask for it each time.
inline const bool processor_has_avx2 = __builtin_cpu_supports("avx2") != 0;
#endif

}  // namespace tiermap
