// What a container's seccomp profile or an unprivileged user's limits take away, taken away for real in a child
// process: the engine that is picked, what it says, and that the program still runs and loses nothing. What is refused
// already on a machine is no reason to skip, unless the test needs it.
#include "kernel_mode/refused_calls.hpp"

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// What makes the system call work.
constexpr const char* system_call_remedy = "set sysctl vm.unprivileged_userfaultfd=1";

/// What makes the device work: permission, or a kernel that has it.
std::string device_remedy() {
  return ::access("/dev/userfaultfd", F_OK) == 0 ? "give the user read and write permission on /dev/userfaultfd"
                                                 : "Linux 6.1 and later have the device";
}

TEST_F(RefusedCalls, WithoutUserfaultfdAtAllTheKernelPages) {
  with(no_device().refuse(SYS_userfaultfd), [&] {
    return writes_with(automatic(), FaultMode::kernel,
                       {device, system_call, user_mode_only_call, device_remedy(), system_call_remedy});
  });
}

TEST_F(RefusedCalls, WithUserModeFaultsOnlyThreadsServeThemselves) {
  if (!works(user_mode_only_call)) {
    GTEST_SKIP() << "the user-mode-only system call is refused here";
  }
  constexpr std::uint32_t user_mode_only = 1;
  with(no_device().refuse_if(SYS_userfaultfd, 0, user_mode_only, 0), [&] {
    return writes_with(automatic(), FaultMode::self_serving, {device, device_remedy(), system_call_remedy});
  });
}

TEST_F(RefusedCalls, TheSystemCallIsTriedWhateverTheDeviceSaid) {
  if (!works(system_call)) {
    GTEST_SKIP() << "the userfaultfd system call is refused here";
  }
  with(no_device(), [&] { return writes_with(automatic(), FaultMode::notify, {system_call}); });
}

TEST_F(RefusedCalls, WhatWasAskedForAndCannotBeHadIsAnErrorWithRemedies) {
  with(no_device().refuse(SYS_userfaultfd), [&]() -> std::string {
    CacheOptions options = automatic();
    options.fault_mode = FaultMode::notify;
    try {
      const Cache cache(options);
    } catch (const PlatformError& error) {
      const std::string text = error.what();
      bool complete = text.find('\n') == std::string::npos;
      for (const std::string& part : {std::string(device), device_remedy(), std::string(system_call_remedy),
                                      std::string("use fault mode kernel")}) {
        complete = complete && text.find(part) != std::string::npos;
      }
      return complete ? "" : text;
    }
    return "no error";
  });
}

TEST_F(RefusedCalls, WithoutPartsOfFilesBeingSyncedRegionsAreCutAndUnmapped) {
  for (const int error : {ENOSYS, EPERM}) {
    with(Refusals().refuse(SYS_sync_file_range, error), [&]() -> std::string {
      Cache cache(kernel_options(mebibyte));
      Region region = cache.map(path(), writable(file_bytes));
      region.data()[0] = region.data()[file_bytes - 1] = std::byte{'b'};
      region.resize(file_bytes / 2);
      region.unmap();
      const std::string content = read_file(path());
      return content.front() == 'b' && content.back() == 'b' ? "" : "the file lacks what was written";
    });
  }
}

TEST_F(RefusedCalls, WithoutIoUringPlainCallsReadAndWrite) {
  if (!can_run(FaultMode::self_serving)) {
    GTEST_SKIP() << "userfaultfd is refused here";
  }
  for (const FaultMode mode : {FaultMode::notify, FaultMode::self_serving}) {
    if (!can_run(mode)) {
      continue;  // User-mode faults only: the other mode has been looked at.
    }
    // Some profiles let a ring be made, and nothing be done with it.
    for (const unsigned call : {static_cast<unsigned>(SYS_io_uring_setup), static_cast<unsigned>(SYS_io_uring_enter)}) {
      write_file(path(), std::string(file_bytes, 'a'));
      with(Refusals().refuse(call), [&] {
        CacheOptions options = automatic();
        options.fault_mode = mode;
        return writes_with(options, mode, {});
      });
    }
  }
}

}  // namespace
}  // namespace tiermap
