// The program's threads, as the kernel lists them: which of the process's are its own, and not the engine's.
#pragma once

#include <sys/types.h>

namespace tiermap::preload {

/// Whether a thread of the program but `thread` (0: any) has not ended yet. True if it cannot be told.
bool other_threads_run(pid_t thread) noexcept;
/// Waits until those of the engine that have ended are gone for the kernel as well, as they are a moment after they
/// have been joined: for 0.1 s at most. Not to be called by one of them.
void wait_for_ended_threads() noexcept;

}  // namespace tiermap::preload
