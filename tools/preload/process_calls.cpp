// The ends of a process: what is dirty is written back, as the kernel would keep it.
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include <chrono>
#include <thread>
#include <vector>

#include "platform/engine_thread.hpp"
#include "preload/library.hpp"
#include "preload/next_call.hpp"
#include "preload/program_threads.hpp"

using tiermap::preload::Ending;
using tiermap::preload::Mappings;
using tiermap::preload::mappings_for_caller;
using tiermap::preload::NextCall;

namespace {

void at_end() {
  if (auto* mappings = mappings_for_caller()) {
    mappings->at_process_end();
  }
}

void before_exec() {
  if (auto* mappings = mappings_for_caller()) {
    const int saved = errno;
    mappings->at_end(Ending::program);
    errno = saved;
  }
}

/// An exec() that returned.
int failed(int result) noexcept {
  if (auto* mappings = mappings_for_caller(); mappings != nullptr && mappings->owned_by_caller()) {
    mappings->go_on();
  }
  return result;
}

/// The arguments of execl() and its like, the null pointer included; `rest` stands behind it then.
std::vector<char*> arguments_of(const char* first, va_list& rest) {
  std::vector<char*> arguments;
  for (const char* argument = first; argument != nullptr; argument = va_arg(rest, const char*)) {
    arguments.push_back(const_cast<char*>(argument));
  }
  arguments.push_back(nullptr);
  return arguments;
}

/// A process ends with its last thread, and the engine's do not end: once the first thread has left, somebody has to
/// see when the program's last one does.
void watch_for_last_thread() {
  static constexpr auto interval = std::chrono::milliseconds(20);
  tiermap::start_engine_thread("tiermap-last", [] {
    while (tiermap::preload::other_threads_run(0)) {
      std::this_thread::sleep_for(interval);
    }
    std::exit(0);
  }).detach();
}

}  // namespace

TIERMAP_EXPORTED void pthread_exit(void* value) {
  static constinit NextCall<void(void*)> call("pthread_exit");
  if (::syscall(SYS_gettid) == ::syscall(SYS_getpid) && mappings_for_caller() != nullptr) {
    watch_for_last_thread();
  }
  call(value);
  __builtin_unreachable();
}

/// Python's package is another copy of the library, in the same program: whichever of the two has taken over the signal
/// that ends that writes for both. Given what writes for the other; returns what writes for this one.
TIERMAP_EXPORTED void (*tiermap_ends_with(void (*write_back)()) noexcept)() {
  if (auto* mappings = mappings_for_caller()) {
    mappings->end_with(write_back);
  }
  return [] { at_end(); };
}

TIERMAP_EXPORTED void _exit(int code) {
  at_end();
  ::syscall(SYS_exit_group, code);
  __builtin_unreachable();
}
TIERMAP_EXPORTED void _Exit(int code) noexcept {
  _exit(code);
}
TIERMAP_EXPORTED void abort() noexcept {
  at_end();
  static constinit NextCall<void()> call("abort");
  call();
  __builtin_unreachable();
}

// The C library ends the program by an abort() of its own here.
// NOLINTBEGIN(bugprone-reserved-identifier): the C library chose these names.
TIERMAP_EXPORTED void __assert_fail(const char* assertion, const char* file, unsigned line,
                                    const char* function) noexcept {
  at_end();
  static constinit NextCall<void(const char*, const char*, unsigned, const char*)> call("__assert_fail");
  call(assertion, file, line, function);
  __builtin_unreachable();
}
TIERMAP_EXPORTED void __assert_perror_fail(int error, const char* file, unsigned line, const char* function) noexcept {
  at_end();
  static constinit NextCall<void(int, const char*, unsigned, const char*)> call("__assert_perror_fail");
  call(error, file, line, function);
  __builtin_unreachable();
}
// NOLINTEND(bugprone-reserved-identifier)

TIERMAP_EXPORTED int execve(const char* path, char* const arguments[], char* const environment[]) noexcept {
  before_exec();
  return failed(static_cast<int>(::syscall(SYS_execve, path, arguments, environment)));
}
TIERMAP_EXPORTED int execv(const char* path, char* const arguments[]) noexcept {
  return execve(path, arguments, environ);
}
TIERMAP_EXPORTED int execvpe(const char* file, char* const arguments[], char* const environment[]) noexcept {
  before_exec();
  return failed(NextCall<int(const char*, char* const[], char* const[])>("execvpe")(file, arguments, environment));
}
TIERMAP_EXPORTED int execvp(const char* file, char* const arguments[]) noexcept {
  return execvpe(file, arguments, environ);
}
TIERMAP_EXPORTED int fexecve(int descriptor, char* const arguments[], char* const environment[]) noexcept {
  before_exec();
  return failed(NextCall<int(int, char* const[], char* const[])>("fexecve")(descriptor, arguments, environment));
}
TIERMAP_EXPORTED int execveat(int directory, const char* path, char* const arguments[], char* const environment[],
                              int flags) noexcept {
  before_exec();
  return failed(static_cast<int>(::syscall(SYS_execveat, directory, path, arguments, environment, flags)));
}
TIERMAP_EXPORTED int execl(const char* path, const char* first, ...) noexcept {
  va_list rest;
  va_start(rest, first);
  const std::vector<char*> arguments = arguments_of(first, rest);
  va_end(rest);
  return execve(path, arguments.data(), environ);
}
TIERMAP_EXPORTED int execlp(const char* file, const char* first, ...) noexcept {
  va_list rest;
  va_start(rest, first);
  const std::vector<char*> arguments = arguments_of(first, rest);
  va_end(rest);
  return execvpe(file, arguments.data(), environ);
}
TIERMAP_EXPORTED int execle(const char* path, const char* first, ...) noexcept {
  va_list rest;
  va_start(rest, first);
  const std::vector<char*> arguments = arguments_of(first, rest);
  char* const* environment = va_arg(rest, char* const*);
  va_end(rest);
  return execve(path, arguments.data(), environment);
}
