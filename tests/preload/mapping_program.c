/* mapping_program CASE FILE: runs one case of those below; without arguments it lists those that do the same without
 * Tiermap. */
#include "cases.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

static const char* path;
static sigjmp_buf escape;

static const struct test_case* const all_cases[] = {
    address_cases, file_cases,   process_cases, descriptor_cases, passing_cases,   lock_cases,      memory_lock_cases,
    thread_cases,  random_cases, signal_cases,  sharing_cases,    unwritten_cases, unreported_cases};

const char* file_path(void) {
  return path;
}

unsigned char known_byte(uint64_t offset) {
  return (unsigned char)((offset * 2654435761u) >> 13);
}

int make_file(void) {
  static unsigned char bytes[file_bytes];
  for (uint64_t offset = 0; offset < file_bytes; ++offset) {
    bytes[offset] = known_byte(offset);
  }
  int descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0 || pwrite(descriptor, bytes, file_bytes, 0) != file_bytes) {
    perror(path);
    exit(3);
  }
  return descriptor;
}

unsigned char* map_file(int descriptor, uint64_t bytes, int protection, int flags, uint64_t offset) {
  void* memory = mmap(NULL, bytes, protection, flags, descriptor, (off_t)offset);
  if (memory == MAP_FAILED) {
    perror("mmap");
    exit(3);
  }
  return memory;
}

uint64_t checksum(const unsigned char* bytes, uint64_t count) {
  uint64_t sum = 14695981039346656037u;
  for (uint64_t index = 0; index < count; ++index) {
    sum = (sum ^ bytes[index]) * 1099511628211u;
  }
  return sum;
}

uint64_t file_checksum(int descriptor) {
  struct stat status;
  fstat(descriptor, &status);
  unsigned char* bytes = malloc((size_t)status.st_size + 1);
  ssize_t got = pread(descriptor, bytes, (size_t)status.st_size, 0);
  uint64_t sum = got == status.st_size ? checksum(bytes, (uint64_t)got) : 0;
  free(bytes);
  return sum;
}

const char* outcome(long result) {
  return result != -1 ? "ok" : strerrorname_np(errno);
}

static void on_signal(int number) {
  siglongjmp(escape, number);
}

static const char* try_access(volatile unsigned char* address, int write) {
  struct sigaction action = {.sa_handler = on_signal};
  struct sigaction before_bus;
  struct sigaction before_segment;
  const char* result = "ok";
  sigaction(SIGBUS, &action, &before_bus);
  sigaction(SIGSEGV, &action, &before_segment);
  int number = sigsetjmp(escape, 1);
  if (number != 0) {
    result = number == SIGBUS ? "SIGBUS" : "SIGSEGV";
  } else if (write) {
    *address = *address;
  } else {
    (void)*address;
  }
  sigaction(SIGBUS, &before_bus, NULL);
  sigaction(SIGSEGV, &before_segment, NULL);
  return result;
}

const char* try_read(volatile const unsigned char* address) {
  return try_access((volatile unsigned char*)address, 0);
}

const char* try_write(volatile unsigned char* address) {
  return try_access(address, 1);
}

void check(const char* name, int right) {
  printf("%s: %s\n", name, right ? "ok" : "WRONG");
  fflush(stdout);
}

static void* write_on(void* argument) {
  while (pwrite(*(int*)argument, "xyz", 3, 1000) == 3) {
  }
  return argument;
}

/* A busy machine may not have started the thread yet. */
static void wait_until_written(int descriptor) {
  char there[3] = "";
  while (pread(descriptor, there, sizeof there, 1000) != sizeof there || memcmp(there, "xyz", sizeof there) != 0) {
    usleep(1000);
  }
}

int writers_are_cancelled(int descriptor) {
  int cancelled = 1;
  for (int round = 0; round < 20; ++round) {
    pthread_t thread;
    void* result = NULL;
    if (pthread_create(&thread, NULL, write_on, &descriptor) != 0) {
      exit(3);
    }
    usleep(2000);
    if (round == 0) {
      wait_until_written(descriptor);
    }
    pthread_cancel(thread);
    pthread_join(thread, &result);
    cancelled = cancelled && result == PTHREAD_CANCELED;
  }
  return cancelled;
}

int main(int argc, char** argv) {
  path = argc > 2 ? argv[2] : "";
  for (size_t list = 0; list < sizeof all_cases / sizeof *all_cases; ++list) {
    for (const struct test_case* test = all_cases[list]; test->name != NULL; ++test) {
      if (argc == 1) {
        if (all_cases[list] != unwritten_cases && all_cases[list] != unreported_cases) {
          puts(test->name);
        }
      } else if (strcmp(test->name, argv[1]) == 0) {
        test->run();
        return 0;
      }
    }
  }
  return argc == 1 ? 0 : 2;
}
