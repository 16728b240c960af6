// syscall(): descriptors that a program closes or replaces by the numbers of the calls, as programs do that were made
// where the C library had no close_range(). Other calls by their numbers are not seen.
//
// A source of its own: the linker sends this library's own calls of syscall() to __wrap_syscall, but for those in the
// object that has the other.
#include <sys/syscall.h>

#if defined(__x86_64__)

static_assert(SYS_close == 3 && SYS_dup2 == 33 && SYS_dup3 == 292 && SYS_close_range == 436);

// Without a frame of its own, as in the C library: such a call may return twice.
asm(R"(
  .text
  .globl syscall
  .type syscall, @function
syscall:
  endbr64
  cmpq $3, %rdi
  je tiermap_call_by_number
  cmpq $33, %rdi
  je tiermap_call_by_number
  cmpq $292, %rdi
  je tiermap_call_by_number
  cmpq $436, %rdi
  je tiermap_call_by_number
  jmp __wrap_syscall
  .size syscall, .-syscall

  .globl __wrap_syscall
  .hidden __wrap_syscall
  .type __wrap_syscall, @function
__wrap_syscall:
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  movq %rcx, %rdx
  movq %r8, %r10
  movq %r9, %r8
  movq 8(%rsp), %r9
  syscall
  cmpq $-4095, %rax
  jae 1f
  ret
1:
  negl %eax
  pushq %rax
  call __errno_location@PLT
  popq %rcx
  movl %ecx, (%rax)
  movq $-1, %rax
  ret
  .size __wrap_syscall, .-__wrap_syscall
)");

#endif
