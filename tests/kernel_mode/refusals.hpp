// System calls taken away for real, by a seccomp filter.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tiermap {

/// System calls that fail from install() on, of this thread and those it starts.
class Refusals {
 public:
  Refusals& refuse(unsigned call, int error_number = EPERM) {
    check_call(call, 1);
    give(SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error_number));
    return *this;
  }
  /// Only with this value of an argument's lower half, looked at through a mask.
  Refusals& refuse_if(unsigned call, unsigned argument, std::uint32_t mask, std::uint32_t value,
                      int error_number = EPERM) {
    check_argument(call, argument, mask, value);
    give(SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error_number));
    return *this;
  }
  /// Such a call ends the process with SIGSYS: it shows that the call was made.
  Refusals& kill_if(unsigned call, unsigned argument, std::uint32_t mask, std::uint32_t value) {
    check_argument(call, argument, mask, value);
    give(SECCOMP_RET_KILL_PROCESS);
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
  void check_argument(unsigned call, unsigned argument, std::uint32_t mask, std::uint32_t value) {
    check_call(call, 4);
    program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                static_cast<std::uint32_t>(offsetof(seccomp_data, args) + std::size_t{argument} * 8)));
    program_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
  }
  void give(std::uint32_t answer) { program_.push_back(BPF_STMT(BPF_RET | BPF_K, answer)); }

  std::vector<sock_filter> program_;
};

}  // namespace tiermap
