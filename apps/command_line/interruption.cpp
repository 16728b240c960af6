#include "command_line/interruption.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>

#include "command_line/orderly_end.hpp"
#include "platform/ignored_signal.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// What is to be removed should the process be interrupted.
struct MadePaths {
  std::mutex mutex;
  std::set<std::string> paths;
};

/// Never destroyed: the interruption thread may outlive main().
MadePaths& made_paths() {
  static auto* paths = new MadePaths;
  return *paths;
}

/// For the signal handler.
struct Interrupted {
  const char* program = nullptr;
  pid_t process = 0;  ///< Whose thread waits for signals: a forked child has none.
  std::atomic_flag told;
};
Interrupted interrupted;

/// What an OrderlyEnd holds back.
struct HeldEnd {
  std::mutex mutex;
  bool held = false;
  std::atomic<int> signal{0};  ///< That was asked with meanwhile.
};
HeldEnd held_end;

/// How a thread that cannot go on, such as one that hit failing memory, wakes the one that removes; nobody else sends
/// it.
int failed_signal() {
  return SIGRTMIN + 1;
}

void tell_of_failed_memory() noexcept {
  const char* const texts[] = {interrupted.program,
                               ": mapped data cannot be read or written: its file was cut off, its disk failed or is "
                               "full, or memory is, or its memory server is gone, which the line before this one then "
                               "names: see to that, and run it again\n"};
  iovec pieces[2];
  for (int piece = 0; piece < 2; ++piece) {
    pieces[piece] = {const_cast<char*>(texts[piece]), std::strlen(texts[piece])};
  }
  // There is nothing to be done if even this cannot be written.
  static_cast<void>(!::writev(STDERR_FILENO, pieces, 2));
}

void handle_bus_error(int /*signal_number*/, siginfo_t* information, void* /*context*/) {
  if (::getpid() != interrupted.process || information->si_code <= 0) {  // In a child, or sent by kill().
    ::signal(SIGBUS, SIG_DFL);
    if (information->si_code <= 0) {
      ::raise(SIGBUS);
    }
    return;
  }
  if (!interrupted.told.test_and_set()) {
    tell_of_failed_memory();
    end_after_failure();
  }
  while (true) {  // The access cannot be finished.
    ::pause();
  }
}

void catch_bus_errors() {
  struct sigaction action{};
  action.sa_sigaction = handle_bus_error;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

/// Whether the work ends by itself.
bool is_left_to_work(int signal) {
  const std::lock_guard lock(held_end.mutex);
  if (held_end.held) {
    held_end.signal = signal;
  }
  return held_end.held;
}

/// False, with the reason in errno, also where something has the name `to`.
bool rename_without_replacing(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return true;
  }
  // Not every file system can promise to replace nothing.
  struct stat status{};
  return errno == EINVAL && ::lstat(to.c_str(), &status) != 0 && errno == ENOENT &&
         ::rename(from.c_str(), to.c_str()) == 0;
}

/// Other threads go on until the process has ended: what they put into a folder between its being emptied and being
/// removed would keep it. Under another name they do not find it.
void remove_while_it_is_filled(const std::string& path) {
  const std::string aside = path + ".interrupted";
  remove_made(rename_without_replacing(path, aside) ? aside : path);
}

}  // namespace

void end_after_failure() noexcept {
  ::kill(interrupted.process, failed_signal());
}

std::unique_lock<std::mutex> hold_interruptions() {
  return std::unique_lock(made_paths().mutex);
}

void remove_if_interrupted(const std::string& path, const std::unique_lock<std::mutex>& /*held*/) {
  made_paths().paths.insert(path);
}

void remove_if_interrupted(const std::string& path) {
  remove_if_interrupted(path, hold_interruptions());
}

void keep_if_interrupted(const std::string& path) noexcept {
  const std::unique_lock held = hold_interruptions();
  made_paths().paths.erase(path);
}

void remove_made(const std::string& path) noexcept {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) {
    std::filesystem::remove(path, error);
  }
}

std::string partial_path(const std::string& path) {
  // A folder may be named with a slash at its end.
  const std::size_t last = path.find_last_not_of('/');
  return path.substr(0, last == std::string::npos ? path.size() : last + 1) + ".partial";
}

void rename_made(const std::string& from, const std::string& to) {
  make_uninterrupted(to, [&] {
    const bool renamed = rename_without_replacing(from, to);
    if (!renamed) {
      const int number = errno == EINVAL ? EEXIST : errno;
      throw StoreError(number, fmt::format("{} cannot be given the name {} ({}): name another file", from, to,
                                           std::generic_category().message(number)));
    }
    return renamed;
  });
  keep_if_interrupted(from);
}

MadePath::MadePath(std::string path) : path_(std::move(path)) {
  remove_if_interrupted(path_);
}

MadePath::~MadePath() {
  if (!path_.empty()) {
    remove_made(path_);
    keep();
  }
}

void MadePath::rename_to(const std::string& path) {
  rename_made(path_, path);
  path_ = path;
}

void MadePath::keep() noexcept {
  keep_if_interrupted(path_);
  path_.clear();
}

OrderlyEnd::OrderlyEnd() {
  const std::lock_guard lock(held_end.mutex);
  held_end.held = true;
  held_end.signal = 0;
}

OrderlyEnd::~OrderlyEnd() {
  {
    const std::lock_guard lock(held_end.mutex);
    held_end.held = false;
  }
  // What went wrong meanwhile has a line to be written first.
  if (held_end.signal != 0 && std::uncaught_exceptions() == 0) {
    end_as_asked();
  }
}

void OrderlyEnd::check() const {
  if (held_end.signal.load(std::memory_order_relaxed) != 0) {
    throw WorkInterrupted();
  }
}

void end_as_asked() noexcept {
  ::kill(interrupted.process, held_end.signal);
  while (true) {
    ::pause();
  }
}

void remove_scratch_on_interruption(const char* program) {
  interrupted.program = program;
  interrupted.process = ::getpid();
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, failed_signal());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(signal)) {
      sigaddset(&signals, signal);
    }
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  catch_bus_errors();
  // Who writes past what a file may have (ulimit -f), or to a pipe that nobody reads any more, is told by the call, as
  // of a full disk, not ended.
  ::signal(SIGXFSZ, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  // Whoever started this may ignore it, which is inherited: nobody could wait for processes then.
  ::signal(SIGCHLD, SIG_DFL);
  std::thread([signals] {
    int received = 0;
    do {
      if (sigwait(&signals, &received) != 0) {
        return;
      }
    } while (received != failed_signal() && is_left_to_work(received));
    MadePaths& made = made_paths();
    made.mutex.lock();  // Never unlocked: nothing may be made from here on.
    for (const std::string& path : made.paths) {
      remove_while_it_is_filled(path);
    }
    ::_exit(received == failed_signal() ? 1 : 128 + received);
  }).detach();
}

}  // namespace tiermap
