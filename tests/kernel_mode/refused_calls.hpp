// System calls taken away for real, in a child process, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "kernel_mode/kernel_cache.hpp"
#include "kernel_mode/refusals.hpp"
#include "platform/userfaultfd.hpp"

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

namespace tiermap {

inline Refusals no_device() {
  return Refusals().refuse_if(SYS_ioctl, 1, ~0U, USERFAULTFD_IOC_NEW);
}

class RefusedCalls : public KernelModeTest {
 protected:
  static constexpr int skipped = 77;
  static constexpr const char* device = "/dev/userfaultfd";
  static constexpr const char* system_call = "userfaultfd system call";
  static constexpr const char* user_mode_only_call = "user-mode-only system call";

  void SetUp() override { write_file(path(), std::string(file_bytes, 'a')); }

  /// Whether this machine lets a way be used, before anything is refused here.
  static bool works(const std::string& name) {
    const std::vector<UserfaultfdAttempt> ways = try_every_userfaultfd_way();
    return std::any_of(ways.begin(), ways.end(),
                       [&](const auto& way) { return way.way == name && way.error_number == 0; });
  }
  static bool can_run(FaultMode mode) {
    return works(device) || works(system_call) || (mode == FaultMode::self_serving && works(user_mode_only_call));
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

}  // namespace tiermap
