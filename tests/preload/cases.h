/* What the cases of mapping_program have in common. A case does something with a mapping and prints what came of it;
 * nothing that it prints depends on addresses, times or who serves the mapping. */
#ifndef TIERMAP_TESTS_PRELOAD_CASES_H
#define TIERMAP_TESTS_PRELOAD_CASES_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { page_bytes = 4096, file_bytes = 4 << 20 };

/* A fresh file of file_bytes known bytes at the path that the program was given. */
int make_file(void);
const char* file_path(void);
unsigned char known_byte(uint64_t offset);

/* Maps, or ends the program. */
unsigned char* map_file(int descriptor, uint64_t bytes, int protection, int flags, uint64_t offset);

/* Of memory, and of the file by pread(). */
uint64_t checksum(const unsigned char* bytes, uint64_t count);
uint64_t file_checksum(int descriptor);

/* "ok", or the name of the errno value, of the call that returned `result`. */
const char* outcome(long result);

/* "ok" if the byte can be read (or written), else the name of the signal. */
const char* try_read(volatile const unsigned char* address);
const char* try_write(volatile unsigned char* address);

/* Prints a line: the name, then "ok" if `right`, else "WRONG". */
void check(const char* name, int right);

/* Whether each of 20 threads, one after the other, which write "xyz" at byte 1000 all the time, ends when cancelled. */
int writers_are_cancelled(int descriptor);

struct test_case {
  const char* name;
  void (*run)(void);
};
extern const struct test_case address_cases[];
extern const struct test_case file_cases[];
extern const struct test_case process_cases[];
extern const struct test_case descriptor_cases[];
extern const struct test_case passing_cases[];
extern const struct test_case lock_cases[];
extern const struct test_case memory_lock_cases[];
extern const struct test_case thread_cases[];
extern const struct test_case random_cases[];
extern const struct test_case signal_cases[];
extern const struct test_case sharing_cases[];
/* Not those that do what the kernel does. */
extern const struct test_case unwritten_cases[];
/* What hangs where a report is asked for and nothing is served, so for a test of its own as well. */
extern const struct test_case unreported_cases[];

#endif
