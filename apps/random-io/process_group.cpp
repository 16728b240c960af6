#include "random-io/process_group.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tiermap {
namespace {

/// What the processes of a group tell each other; in shared memory.
struct Group {
  std::atomic<std::uint32_t> ready{0};
  std::atomic<bool> failed{false};
  char failure[512] = {};  ///< Of whoever set `failed`.

  void fail(const char* message) noexcept {
    if (!failed.exchange(true)) {
      std::strncpy(failure, message, sizeof failure - 1);
    }
  }
};

[[noreturn]] void run_child(const std::function<void()>& work, Group& group) noexcept {
  // The parent's thread that waits for these is not here: they end this process at once, as the parent's end does.
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    work();
  } catch (const std::exception& error) {
    group.fail(error.what());
    ::_exit(1);
  }
  ::_exit(0);
}

/// In whatever order they end: one that was killed must not keep the others waiting for it.
void wait_for_children(std::vector<pid_t> children, Group& group, const std::function<void()>& meanwhile) {
  while (true) {
    std::erase_if(children, [&](pid_t child) {
      int status = 0;
      const bool ended = ::waitpid(child, &status, WNOHANG) == child;
      if (ended && WIFSIGNALED(status)) {
        group.fail(("a process was ended by signal " + std::to_string(WTERMSIG(status))).c_str());
      }
      return ended;
    });
    if (children.empty()) {
      return;
    }
    meanwhile();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes)
    : data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)), bytes_(bytes) {
  if (data_ == MAP_FAILED) {
    throw std::bad_alloc();
  }
}

SharedMemory::~SharedMemory() {
  ::munmap(data_, bytes_);
}

void run_processes(std::uint32_t processes,
                   const std::function<void(std::uint32_t index, const std::function<void()>& wait_for_all)>& work,
                   const std::function<void()>& meanwhile) {
  if (processes == 1) {
    return work(0, [] {});
  }
  const SharedMemory memory(sizeof(Group));
  auto& group = *new (memory.data()) Group;
  const auto wait_for_all = [&] {
    ++group.ready;
    while (group.ready < processes && !group.failed) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  std::vector<pid_t> children;
  for (std::uint32_t index = 0; index < processes; ++index) {
    const pid_t child = ::fork();
    if (child == 0) {
      run_child([&] { work(index, wait_for_all); }, group);
    }
    if (child < 0) {
      group.fail(("a process cannot be started: " + std::generic_category().message(errno)).c_str());
      break;
    }
    children.push_back(child);
  }
  wait_for_children(std::move(children), group, meanwhile);
  if (group.failed) {
    throw std::runtime_error(group.failure);
  }
}

}  // namespace tiermap
