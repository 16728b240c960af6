/* Programs that close, replace or look at all descriptors that there can be. */
#include "cases.h"

#include <errno.h>
#include <sys/syscall.h>

static void close_everything(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[5] = 'k';
  int closed = 0;
  for (int number = 3; number < 256; ++number) {
    closed += close(number) == 0;
  }
  printf("%d closed\n", closed);
  check("close_range", close_range(3, ~0U, 0) == 0);
  check("served on", checksum(memory, file_bytes) != 0 && memory[5] == 'k');
  memset(memory, 'z', file_bytes);
  check("unmap", munmap(memory, file_bytes) == 0);
  printf("%llx\n", (unsigned long long)file_checksum(open(file_path(), O_RDONLY)));
}

/* What is written to a private mapping and does not fit in memory lies in a file that the program does not know of. */
static void close_everything_private(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0);
  int open_ones = 0;
  for (int number = 3; number < 1000; ++number) {
    open_ones += fcntl(number, F_GETFD) >= 0;
  }
  printf("%d open\n", open_ones);
  memset(memory, 'a', file_bytes / 2);
  check("close_range", close_range(3, ~0U, 0) == 0);
  memset(memory + file_bytes / 4, 'b', file_bytes / 2);
  int closed = 0;
  for (int number = 3; number < 1024; ++number) {
    closed += close(number) == 0;
  }
  printf("%d closed\n", closed);
  int other = open("/dev/zero", O_RDONLY); /* Whose number may have been one of those. */
  int right = 1;
  for (uint64_t at = 0; at < file_bytes; at += 1000) {
    right = right && memory[at] == (at < file_bytes / 4 ? 'a' : at < file_bytes / 4 * 3 ? 'b' : known_byte(at));
  }
  check("served on", right && other >= 0);
  check("unmap", munmap(memory, file_bytes) == 0);
}

/* As programs do that were made where the C library had no close_range(). */
static void close_by_number(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[5] = 'n';
  check("dup2", syscall(SYS_dup2, descriptor, descriptor) == descriptor);
  check("dup3", syscall(SYS_dup3, descriptor, descriptor, 0) == -1 && errno == EINVAL);
  int closed = 0;
  for (int number = 3; number < 256; ++number) {
    closed += syscall(SYS_close, number) == 0;
  }
  printf("%d closed\n", closed);
  check("close_range", syscall(SYS_close_range, 3, ~0U, 0) == 0);
  check("refused", syscall(SYS_close_range, 9, 3, 0) == -1 && errno == EINVAL);
  check("others", syscall(SYS_getpid) == getpid() && syscall(SYS_lseek, -1, 0, 0) == -1 && errno == EBADF);
  memset(memory + 4096, 'z', file_bytes - 4096);
  check("served on", memory[5] == 'n' && memory[6] == known_byte(6) && memory[file_bytes - 1] == 'z');
  check("unmap", munmap(memory, file_bytes) == 0);
  printf("%llx\n", (unsigned long long)file_checksum(open(file_path(), O_RDONLY)));
}

/* Whose numbers the program wants for itself. */
static void replace_any_descriptor(void) {
  int descriptor = make_file();
  for (int round = 0; round < 2; ++round) {
    unsigned char* memory =
        map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, round == 0 ? MAP_SHARED : MAP_PRIVATE, 0);
    memory[70000] = 'r';
    printf("closed: %s\n", outcome(dup2(99, descriptor + 1)));
    int done = 0;
    for (int number = descriptor + 1; number < 64; ++number) {
      done += (number % 2 == 0 ? dup2(STDIN_FILENO, number) : dup3(STDIN_FILENO, number, O_CLOEXEC)) == number;
    }
    printf("%d replaced\n", done);
    check("still there", memory[70000] == 'r' && memory[file_bytes - 1] == known_byte(file_bytes - 1));
    check("unmap", munmap(memory, file_bytes) == 0);
  }
  unsigned char stored = 0;
  check("stored", pread(descriptor, &stored, 1, 70000) == 1 && stored == 'r');
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  check("mapped again", memory[70000] == 'r');
}

/* What is open, as far as a program can ask. */
static void open_numbers(void) {
  unsigned char* memory = map_file(make_file(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[70000] = 'n';
  int open_ones = 0;
  for (int number = 3; number < 1000; ++number) {
    open_ones += fcntl(number, F_GETFD) >= 0;
  }
  printf("%d open\n", open_ones);
}

const struct test_case descriptor_cases[] = {
    {"close_everything", close_everything}, {"close_everything_private", close_everything_private},
    {"close_by_number", close_by_number},   {"replace_any_descriptor", replace_any_descriptor},
    {"open_numbers", open_numbers},         {NULL, NULL},
};
