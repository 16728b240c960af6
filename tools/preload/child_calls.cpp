// Children that are started without fork(), and the ends of children. To the kernel's mappings of a file and to every
// process it is one: what the program has stored a child finds there, and what a child has written the program.
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "preload/library.hpp"
#include "preload/next_call.hpp"

using tiermap::preload::Mappings;
using tiermap::preload::NextCall;
using tiermap::preload::served_mappings;

namespace {

using Spawn = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const[],
                  char* const[]);

void before_child() noexcept {
  if (Mappings* mappings = served_mappings(); mappings != nullptr && mappings->owned_by_caller()) {
    const int saved = errno;
    mappings->before_child();
    errno = saved;
  }
}

/// What a wait for a child returned.
template <typename Result>
Result after_child(Result result) noexcept {
  if (Mappings* mappings = served_mappings(); mappings != nullptr && mappings->owned_by_caller()) {
    const int saved = errno;
    mappings->after_child();
    errno = saved;
  }
  return result;
}

/// Where SIGCHLD is ignored children leave nothing behind to wait for: who waits is told so once they have ended.
bool all_have_ended() noexcept {
  return errno == ECHILD;
}

pid_t waited(pid_t child) noexcept {
  return child > 0 || (child < 0 && all_have_ended()) ? after_child(child) : child;
}

}  // namespace

TIERMAP_EXPORTED int posix_spawn(pid_t* child, const char* path, const posix_spawn_file_actions_t* actions,
                                 const posix_spawnattr_t* attributes, char* const arguments[],
                                 char* const environment[]) {
  static constinit NextCall<Spawn> next("posix_spawn");
  before_child();
  return next(child, path, actions, attributes, arguments, environment);
}
TIERMAP_EXPORTED int posix_spawnp(pid_t* child, const char* file, const posix_spawn_file_actions_t* actions,
                                  const posix_spawnattr_t* attributes, char* const arguments[],
                                  char* const environment[]) {
  static constinit NextCall<Spawn> next("posix_spawnp");
  before_child();
  return next(child, file, actions, attributes, arguments, environment);
}
TIERMAP_EXPORTED int system(const char* command) {
  static constinit NextCall<decltype(::system)> next("system");
  before_child();
  return after_child(next(command));
}
TIERMAP_EXPORTED FILE* popen(const char* command, const char* mode) {
  static constinit NextCall<decltype(::popen)> next("popen");
  before_child();
  return next(command, mode);
}
TIERMAP_EXPORTED int pclose(FILE* stream) {
  static constinit NextCall<decltype(::pclose)> next("pclose");
  return after_child(next(stream));
}

TIERMAP_EXPORTED pid_t wait(int* status) {
  static constinit NextCall<decltype(::wait)> next("wait");
  return waited(next(status));
}
TIERMAP_EXPORTED pid_t waitpid(pid_t child, int* status, int options) {
  static constinit NextCall<decltype(::waitpid)> next("waitpid");
  return waited(next(child, status, options));
}
TIERMAP_EXPORTED pid_t wait3(int* status, int options, rusage* usage) noexcept {
  static constinit NextCall<pid_t(int*, int, rusage*)> next("wait3");
  return waited(next(status, options, usage));
}
TIERMAP_EXPORTED pid_t wait4(pid_t child, int* status, int options, rusage* usage) noexcept {
  static constinit NextCall<pid_t(pid_t, int*, int, rusage*)> next("wait4");
  return waited(next(child, status, options, usage));
}
TIERMAP_EXPORTED int waitid(idtype_t kind, id_t id, siginfo_t* info, int options) {
  static constinit NextCall<decltype(::waitid)> next("waitid");
  const int result = next(kind, id, info, options);
  const bool none = result != 0 ? !all_have_ended() : info != nullptr && info->si_pid == 0;
  return none ? result : after_child(result);
}

#if defined(__x86_64__)
/// Returns the C library's vfork().
extern "C" __attribute__((visibility("hidden"), used)) void* tiermap_before_vfork() {
  static constinit NextCall<pid_t()> next("vfork");
  before_child();
  return reinterpret_cast<void*>(next.get());
}

// It returns twice on one stack, which the child has changed by then: so nothing may lie there, and the C library's is
// jumped to.
asm(R"(
  .text
  .globl vfork
  .type vfork, @function
vfork:
  endbr64
  subq $8, %rsp
  call tiermap_before_vfork
  addq $8, %rsp
  jmp *%rax
  .size vfork, .-vfork
)");
#endif
