/* Bytes that go other ways than stores and plain writes, and calls that may wait or be given up. */
#include "cases.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

static void printed(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[70000] = 's';
  memory[50] = 's';
  lseek(descriptor, 0, SEEK_SET);
  check("dprintf", dprintf(descriptor, "%s %d", "HELLO", 5) == 7 && memcmp(memory, "HELLO 5", 7) == 0);
  memory[100] = 'Z';
  munmap(memory, file_bytes);
  printf("%llx\n", (unsigned long long)file_checksum(descriptor));
}

static void temporary_file(void) {
  FILE* file = tmpfile();
  int descriptor = fileno(file);
  check("long", ftruncate(descriptor, 1 << 20) == 0);
  unsigned char* memory = map_file(descriptor, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[0] = 'a';
  fputs("hello", file);
  fflush(file);
  check("printed is seen", memcmp(memory, "hello", 5) == 0);
  map_file(make_file(), file_bytes, PROT_READ, MAP_SHARED, 0);
}

static void data_and_holes(void) {
  int descriptor = make_file();
  check("empty", ftruncate(descriptor, 0) == 0 && ftruncate(descriptor, file_bytes) == 0);
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memset(memory + (2 << 20), 'd', 65536);
  printf("data from %ld\n", (long)lseek(descriptor, 0, SEEK_DATA));
}

/* What fails changes nothing. */
static void fixed_that_fails(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[0] = 'Z';
  int flags = MAP_SHARED | MAP_FIXED;
  printf("no file: %s\n", outcome((long)mmap(memory, file_bytes, PROT_READ, flags, -1, 0)));
  printf("odd offset: %s\n", outcome((long)mmap(memory, file_bytes, PROT_READ, flags, descriptor, 123)));
  printf("odd address: %s\n", outcome((long)mmap(memory + 1, 65536, PROT_READ, flags, descriptor, 0)));
  check("still there", memory[0] == 'Z' && memory[file_bytes - 1] == known_byte(file_bytes - 1));
}

static void direct_writes(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
  int direct = open(name, O_RDWR | O_DIRECT);
  if (direct < 0) {
    return;  // Some file systems have none.
  }
  check("pwrite", pwrite(direct, memory + 8192, 4096, 65536) == 4096 && memory[65536 + 9] == known_byte(8192 + 9));
  struct iovec vectors[] = {{memory, 4096}, {memory + 20480, 8192}};
  check("pwritev", pwritev(direct, vectors, 2, 131072) == 12288 && memory[131072 + 4096] == known_byte(20480));
}

static int pipe_ends[2];

static void* splice_in(void* argument) {
  loff_t at = 4096;
  return splice(pipe_ends[0], NULL, *(int*)argument, &at, 5, 0) == 5 ? argument : NULL;
}

/* A pipe that has nothing yet holds up only the thread that waits for it. */
static void splice_from_pipe(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[4000] = 's';
  pthread_t thread;
  if (pipe(pipe_ends) != 0 || pthread_create(&thread, NULL, splice_in, &descriptor) != 0) {
    exit(3);
  }
  usleep(50000);
  check("mapping meanwhile",
        memory[5000] == known_byte(5000) && map_file(descriptor, 65536, PROT_READ, MAP_SHARED, 0)[9] == known_byte(9));
  check("pipe", write(pipe_ends[1], "later", 5) == 5);
  void* result = NULL;
  pthread_join(thread, &result);
  check("spliced", result != NULL && memcmp(memory + 4096, "later", 5) == 0 && memory[4000] == 's');
}

/* A pipe that was given pages has their bytes, however long it waits. */
static void pages_sent(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  struct iovec vector = {memory, 65536};
  if (pipe(pipe_ends) != 0) {
    exit(3);
  }
  check("vmsplice", vmsplice(pipe_ends[1], &vector, 1, 0) == 65536);
  checksum(memory, file_bytes);
  unsigned char bytes[65536];
  ssize_t got = 0;
  while (got < 65536) {
    got += read(pipe_ends[0], bytes + got, (size_t)(65536 - got));
  }
  check("as they were", memcmp(bytes, memory, 65536) == 0 && bytes[99] == known_byte(99));
}

static void cancelled(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  if (!writers_are_cancelled(descriptor)) {
    puts("WRONG: not cancelled");
  }
  check("written", memcmp(memory + 1000, "xyz", 3) == 0);
}

static void* end_later(void* argument) {
  usleep(50000);
  check("goes on", ((unsigned char*)argument)[70] == 'm');
  return argument;
}

static atomic_int closers_left;

static void* open_and_close(void* argument) {
  long failures = 0;
  for (int round = 0; round < 3000; ++round) {
    int ends[2];
    failures += pipe(ends) != 0 || close(ends[0]) != 0 || close(ends[1]) != 0;
  }
  *(long*)argument = failures;
  atomic_fetch_sub(&closers_left, 1);
  return argument;
}

/* Numbers that were Tiermap's a moment before. */
static void descriptors_beside_mappings(void) {
  int descriptor = make_file();
  pthread_t threads[2];
  long failures[2];
  atomic_store(&closers_left, 2);
  for (int index = 0; index < 2; ++index) {
    if (pthread_create(&threads[index], NULL, open_and_close, &failures[index]) != 0) {
      exit(3);
    }
  }
  do {
    unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    memory[70] = 'm';
    munmap(memory, file_bytes);
  } while (atomic_load(&closers_left) > 0);
  for (int index = 0; index < 2; ++index) {
    pthread_join(threads[index], NULL);
    check("closed", failures[index] == 0);
  }
}

/* The process ends with its last thread, and has exit code 0. */
static void last_thread(void) {
  unsigned char* memory = map_file(make_file(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[70] = 'm';
  pthread_t thread;
  if (pthread_create(&thread, NULL, end_later, memory) != 0) {
    exit(3);
  }
  pthread_detach(thread);
  pthread_exit(NULL);
}

/* More at once than a small buffer holds. */
static void large_writes(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  size_t half = file_bytes / 2;
  check("pwrite",
        pwrite(descriptor, memory, half, half) == (ssize_t)half && memory[file_bytes - 1] == known_byte(half - 1));
  check("odd", pwrite(descriptor, memory + 77, half, half + 5) == (ssize_t)half && memory[half + 5] == known_byte(77));
  printf("%llx\n", (unsigned long long)file_checksum(descriptor));
}

/* The lowest descriptor is the new one, also where what it names is looked at first. */
static void redirected(void) {
  int descriptor = make_file();
  map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  int other = dup(descriptor);
  close(other);
  check("lowest", open("/dev/null", O_WRONLY | O_TRUNC) == other);
}

/* What the kernel refuses is refused, and no signal is raised. */
static void bad_pointers(void) {
  int descriptor = make_file();
  map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  struct iovec* volatile nowhere = (struct iovec*)16;
  printf("readv: %s\n", outcome(readv(descriptor, nowhere, 1)));
  printf("too many: %s\n", outcome(readv(descriptor, nowhere, 2000000000)));
  printf("writev: %s\n", outcome(writev(descriptor, nowhere, 1)));
  printf("pwritev: %s\n", outcome(pwritev(descriptor, nowhere, 1, 0)));
  printf("fcntl: %s\n", outcome(fcntl(descriptor, F_SETLK, nowhere)));
  printf("copy_file_range: %s\n", outcome(copy_file_range(descriptor, (off_t*)nowhere, descriptor, NULL, 10, 0)));
}

static sigjmp_buf out_of_call;

static void jump(int number) {
  (void)number;
  siglongjmp(out_of_call, 1);
}

/* A handler that never comes back leaves nothing behind, wherever it met the program. */
static void jumped_out(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  signal(SIGALRM, jump);
  for (volatile int round = 0; round < 50; ++round) {
    struct itimerval soon = {.it_value = {.tv_usec = 300 + 40 * round}};
    if (sigsetjmp(out_of_call, 1) == 0) {
      setitimer(ITIMER_REAL, &soon, NULL);
      for (;;) {
        memory[4096 * (round + 1)] = 'j';
        msync(memory, file_bytes, MS_SYNC);
      }
    }
  }
  memory[7] = 'Z';
  unsigned char seen = 0;
  check("seen", pread(descriptor, &seen, 1, 7) == 1 && seen == 'Z');
}

static void leave(int number) {
  (void)number;
  _exit(0);
}

/* A handler that ends the program in the middle of a fork() does. */
static void ended_in_fork(void) {
  int descriptor = make_file();
  fflush(stdout);
  for (int round = 0; round < 5; ++round) {
    if (fork() == 0) {
      checksum(map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0), file_bytes);
      signal(SIGALRM, leave);
      struct itimerval soon = {.it_value = {.tv_usec = 20000 + 1000 * round}};
      setitimer(ITIMER_REAL, &soon, NULL);
      for (;;) {
        if (fork() == 0) {
          signal(SIGALRM, SIG_DFL);
          _exit(0);
        }
        wait(NULL);
      }
    }
    int status = 1;
    wait(&status);
    check("ended", status == 0);
  }
}

/* By this process, as another one sees it. */
static int is_locked(int descriptor) {
  fflush(stdout);
  if (fork() == 0) {
    struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    _exit(fcntl(descriptor, F_GETLK, &asked) == 0 && asked.l_type == F_WRLCK ? 0 : 1);
  }
  int status = 1;
  wait(&status);
  return status == 0;
}

/* Record locks stay where a mapping cannot be made, or a wish is not granted. */
static void lock_beside_mappings(void) {
  int descriptor = make_file();
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  check("lock", fcntl(descriptor, F_SETLK, &lock) == 0);
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  mmap(memory, file_bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  mmap(memory, file_bytes, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, descriptor, 0);
  check("held", is_locked(descriptor));
}

/* They stay where what serves a mapping cannot be opened: the scratch file, or the file itself. */
static void lock_without_descriptors(void) {
  enum { most = 64 };
  map_file(make_file(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0)[70000] = 's';
  unlink(file_path());
  int descriptor = make_file();
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  check("lock", fcntl(descriptor, F_SETLK, &lock) == 0);
  setenv("TMPDIR", "/nowhere/at/all", 1);
  map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0)[70000] = 'p';
  check("no scratch file", is_locked(descriptor));
  check("limit", setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, most}) == 0);
  int others[most];
  int count = 0;
  while (count < most && (others[count] = open("/dev/null", O_RDONLY)) >= 0) {
    ++count;
  }
  close(others[--count]);
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  check("one descriptor", is_locked(descriptor) && memory[70000] == known_byte(70000));
  while (count > 0) {
    close(others[--count]);
  }
}

/* Of files that a program has done with nothing is kept. */
static void many_files(void) {
  enum { rounds = 8000, most_kept = 320 << 10 };
  unsigned char* memory = map_file(make_file(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[70000] = 'm';
  size_t before = mallinfo2().uordblks;
  for (int round = 0; round < rounds; ++round) {
    int descriptor = memfd_create("one-of-many", MFD_CLOEXEC);
    if (ftruncate(descriptor, page_bytes) != 0) {
      exit(3);
    }
    munmap(map_file(descriptor, page_bytes, PROT_READ, MAP_SHARED, 0), page_bytes);
    close(descriptor);
  }
  check("kept", mallinfo2().uordblks < before + most_kept);
}

/* What fails changes nothing. */
static void remap_that_fails(void) {
  int descriptor = make_file();
  unsigned char* from = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  unsigned char* to = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  printf("stays: %s\n", outcome((long)mremap(from, file_bytes, file_bytes, MREMAP_FIXED, to)));
  printf("odd: %s\n", outcome((long)mremap(from, file_bytes, file_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to + 5)));
  check("there", to[5] == known_byte(5) && from[5] == known_byte(5));
}

/* Two processes that each lock and change words of their own, in the same blocks. */
static void locked_parts(void) {
  enum { rounds = 200 };
  map_file(make_file(), file_bytes, PROT_READ, MAP_SHARED, 0); /* Of the others none may be served. */
  unlink(file_path());
  int descriptor = make_file();
  check("empty", ftruncate(descriptor, 0) == 0 && ftruncate(descriptor, file_bytes) == 0);
  fflush(stdout);
  for (int number = 0; number < 2; ++number) {
    if (fork() == 0) {
      unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
      for (int round = 0; round < rounds; ++round) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number * 64, .l_len = 64};
        fcntl(descriptor, F_SETLKW, &lock);
        ++*(volatile long*)(memory + number * 64);
        lock.l_type = F_UNLCK;
        fcntl(descriptor, F_SETLK, &lock);
      }
      _exit(0);
    }
  }
  wait(NULL);
  wait(NULL);
  long counts[9] = {0};
  check("counted",
        pread(descriptor, counts, sizeof counts, 0) == sizeof counts && counts[0] == rounds && counts[8] == rounds);
}

/* A thread that is to end does so in msync(), which may wait. */
static void* synchronise_cancelled(void* argument) {
  unsigned char* memory = argument;
  int old = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
  pthread_cancel(pthread_self());
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
  msync(memory, file_bytes, MS_SYNC);
  return NULL;
}

static void cancelled_in_msync(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[70000] = 'c';
  pthread_t thread;
  void* result = NULL;
  pthread_create(&thread, NULL, synchronise_cancelled, memory);
  pthread_join(thread, &result);
  check("cancelled", result == PTHREAD_CANCELED);
  check("and not hurt", msync(memory, file_bytes, MS_SYNC) == 0 && memory[70000] == 'c');
}

static unsigned char* stored;
static int handled_by;
static volatile ssize_t written_by_handler;

static void write_stored(int number) {
  (void)number;
  written_by_handler = pwrite(handled_by, stored + 70000, 100000, 1000000);
}

/* A handler on a stack of its own, as small as they are, writes from the mapping to the file. */
static void small_stack(void) {
  handled_by = make_file();
  stored = map_file(handled_by, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  stored[70000] = 'h';
  size_t size = (size_t)sysconf(_SC_SIGSTKSZ);
  unsigned char* memory = mmap(NULL, size + 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned char* stack = memory + 65536; /* Whoever runs past it ends. */
  mprotect(stack, size, PROT_READ | PROT_WRITE);
  stack_t alternative = {.ss_sp = stack, .ss_size = size};
  struct sigaction action = {.sa_handler = write_stored, .sa_flags = SA_ONSTACK};
  check("ready", sigaltstack(&alternative, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
  raise(SIGUSR1);
  check("written", written_by_handler == 100000 && stored[1000000] == 'h');
}

/* What a call on the file is told lies in a mapping of the same file, in pages that it changes. */
static void arguments_in_the_mapping(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  char elsewhere[2][10] = {"aaaaaaaaa", "bbbbbbbbb"};
  struct iovec* vectors = (struct iovec*)memory;
  vectors[0] = (struct iovec){elsewhere[0], 10};
  vectors[1] = (struct iovec){elsewhere[1], 10};
  lseek(descriptor, 200, SEEK_SET);
  check("writev", writev(descriptor, vectors, 2) == 20 && memory[200] == 'a' && memory[210] == 'b');
  check("pwritev", pwritev(descriptor, vectors, 2, 300) == 20 && memory[310] == 'b');
  loff_t* offsets = (loff_t*)(memory + 8192);
  offsets[0] = 300;
  offsets[1] = 8192 + 400;
  check("copy_file_range", copy_file_range(descriptor, offsets, descriptor, offsets + 1, 20, 0) == 20 &&
                               offsets[0] == 320 && offsets[1] == 8612 && memory[8602] == 'b');
  off_t* from = (off_t*)(memory + 16384);
  *from = 300;
  lseek(descriptor, 16384 + 100, SEEK_SET);
  check("sendfile", sendfile(descriptor, descriptor, from, 20) == 20 && *from == 320 && memory[16484] == 'a');
  char* path = (char*)memory + 32768;
  strcpy(path, file_path());
  check("truncate", truncate(path, file_bytes / 2) == 0);
  int again = open(path, O_RDWR | O_TRUNC);
  check("open", again >= 0 && lseek(again, 0, SEEK_END) == 0);
}

const struct test_case passing_cases[] = {
    {"printed", printed},
    {"temporary_file", temporary_file},
    {"data_and_holes", data_and_holes},
    {"fixed_that_fails", fixed_that_fails},
    {"direct_writes", direct_writes},
    {"large_writes", large_writes},
    {"redirected", redirected},
    {"bad_pointers", bad_pointers},
    {"jumped_out", jumped_out},
    {"ended_in_fork", ended_in_fork},
    {"lock_beside_mappings", lock_beside_mappings},
    {"lock_without_descriptors", lock_without_descriptors},
    {"many_files", many_files},
    {"remap_that_fails", remap_that_fails},
    {"splice_from_pipe", splice_from_pipe},
    {"pages_sent", pages_sent},
    {"cancelled", cancelled},
    {"descriptors_beside_mappings", descriptors_beside_mappings},
    {"last_thread", last_thread},
    {"locked_parts", locked_parts},
    {"cancelled_in_msync", cancelled_in_msync},
    {"small_stack", small_stack},
    {"arguments_in_the_mapping", arguments_in_the_mapping},
    {NULL, NULL},
};
