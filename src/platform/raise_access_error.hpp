// Telling the program of a forbidden access after the fact.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tiermap {

/// Sends SIGSEGV to the process, with the address where a handler looks for it; si_code is SI_QUEUE, for the kernel
/// lets nobody else claim that the processor found it. Which thread gets it is the kernel's choice. Safe in signal
/// handlers.
inline void raise_access_error(void* address) noexcept {
  siginfo_t information{};
  information.si_signo = SIGSEGV;
  information.si_code = SI_QUEUE;
  information.si_addr = address;
  ::syscall(SYS_rt_sigqueueinfo, ::getpid(), SIGSEGV, &information);
}

}  // namespace tiermap
