// What a container's seccomp profile or an unprivileged user's limits take away, taken away for real in a child
// process: the engine that is picked, what it says, and that the program still runs and loses nothing.
#include <gtest/gtest.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <vector>

#include "kernel_mode/kernel_cache.hpp"
#include "platform/userfaultfd.hpp"
#include "tiermap/error.hpp"

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

namespace tiermap {
namespace {

/// System calls that fail with EPERM from here on, of this thread and those it starts.
class Refusals {
 public:
  Refusals& refuse(unsigned call) {
    check_call(call, 1);
    give(SECCOMP_RET_ERRNO | EPERM);
    return *this;
  }
  /// Only with this value of an argument's lower half, looked at through a mask.
  Refusals& refuse(unsigned call, unsigned argument, std::uint32_t mask, std::uint32_t value) {
    check_call(call, 4);
    program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                static_cast<std::uint32_t>(offsetof(seccomp_data, args) + std::size_t{argument} * 8)));
    program_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    give(SECCOMP_RET_ERRNO | EPERM);
    return *this;
  }
  bool install() {
    give(SECCOMP_RET_ALLOW);
    const sock_fprog program{static_cast<unsigned short>(program_.size()), program_.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
  }

 private:
  void check_call(unsigned call, std::uint8_t skipped) {
    program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, skipped));
  }
  void give(std::uint32_t answer) { program_.push_back(BPF_STMT(BPF_RET | BPF_K, answer)); }

  std::vector<sock_filter> program_;
};

Refusals no_device() {
  return Refusals().refuse(SYS_ioctl, 1, ~0U, USERFAULTFD_IOC_NEW);
}

class RefusedCalls : public KernelModeTest {
 protected:
  static constexpr int skipped = 77;

  void SetUp() override {
    const std::vector<UserfaultfdAttempt> ways = try_every_userfaultfd_way();
    if (std::any_of(ways.begin(), ways.end(), [](const auto& way) { return way.error_number != 0; })) {
      GTEST_SKIP() << "what is to be refused is refused already";
    }
    write_file(path(), std::string(file_bytes, 'a'));
  }

  CacheOptions automatic() const {
    CacheOptions options = kernel_options(mebibyte);
    options.fault_mode = FaultMode::automatic;
    return options;
  }

  /// Runs `work` in a child with these refusals; it gives the reasons why not, or an empty string.
  void with(Refusals refusals, const std::function<std::string()>& work) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (!refusals.install()) {
        ::_exit(skipped);
      }
      std::string wrong;
      try {
        wrong = work();
      } catch (const std::exception& exception) {
        wrong = exception.what();
      }
      std::fputs(wrong.c_str(), stderr);
      ::_exit(wrong.empty() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    if (WEXITSTATUS(status) == skipped) {
      GTEST_SKIP() << "no seccomp filters here";
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }

  /// Writes more than the budget through a region, and says what is wrong with the cache or the file after it.
  std::string writes_with(const CacheOptions& options, FaultMode expected, const std::vector<std::string>& reasons) {
    Cache cache(options);
    if (cache.fault_mode() != expected) {
      return "another mode: " + cache.fault_mode_reason();
    }
    for (const std::string& reason : reasons) {
      if (cache.fault_mode_reason().find(reason) == std::string::npos) {
        return "\"" + reason + "\" is not in: " + cache.fault_mode_reason();
      }
    }
    Region region = cache.map(path(), writable(file_bytes));
    auto* bytes = reinterpret_cast<volatile char*>(region.data());
    for (std::uint64_t offset = 0; offset < file_bytes; offset += 4096) {
      if (bytes[offset] != 'a') {
        return "read something else";
      }
      bytes[offset + 1] = 'b';
    }
    region.sync();
    region.unmap();
    const std::string content = read_file(path());
    for (std::uint64_t offset = 0; offset < file_bytes; offset += 4096) {
      if (content[offset] != 'a' || content[offset + 1] != 'b') {
        return "the file has something else";
      }
    }
    return content.size() == file_bytes ? "" : "the file has another size";
  }

  static constexpr std::uint64_t file_bytes = 4 * mebibyte;
};

TEST_F(RefusedCalls, WithoutUserfaultfdAtAllTheKernelPages) {
  with(no_device().refuse(SYS_userfaultfd), [&] {
    return writes_with(automatic(), FaultMode::kernel,
                       {"/dev/userfaultfd", "userfaultfd system call", "user-mode-only system call"});
  });
}

TEST_F(RefusedCalls, WithUserModeFaultsOnlyThreadsServeThemselves) {
  constexpr std::uint32_t user_mode_only = 1;
  with(no_device().refuse(SYS_userfaultfd, 0, user_mode_only, 0), [&] {
    return writes_with(automatic(), FaultMode::self_serving, {"/dev/userfaultfd", "vm.unprivileged_userfaultfd"});
  });
}

TEST_F(RefusedCalls, TheSystemCallIsTriedWhateverTheDeviceSaid) {
  with(no_device(), [&] { return writes_with(automatic(), FaultMode::notify, {"userfaultfd system call"}); });
}

TEST_F(RefusedCalls, WhatWasAskedForAndCannotBeHadIsAnErrorWithRemedies) {
  with(no_device().refuse(SYS_userfaultfd), [&]() -> std::string {
    CacheOptions options = automatic();
    options.fault_mode = FaultMode::notify;
    try {
      const Cache cache(options);
    } catch (const PlatformError& error) {
      const std::string text = error.what();
      const bool complete = text.find("/dev/userfaultfd") != std::string::npos &&
                            text.find('\n') == std::string::npos && text.find("kernel") != std::string::npos;
      return complete ? "" : text;
    }
    return "no error";
  });
}

TEST_F(RefusedCalls, WithoutIoUringPlainCallsReadAndWrite) {
  for (const FaultMode mode : {FaultMode::notify, FaultMode::self_serving}) {
    write_file(path(), std::string(file_bytes, 'a'));
    with(Refusals().refuse(SYS_io_uring_setup), [&] {
      CacheOptions options = automatic();
      options.fault_mode = mode;
      return writes_with(options, mode, {});
    });
  }
}

}  // namespace
}  // namespace tiermap
