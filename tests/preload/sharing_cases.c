/* Several processes that map one file: what one of them stores the others see, as soon as it is there. */
#include "cases.h"

#undef NDEBUG

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

/* In memory that parent and children share. */
struct meeting {
  pthread_barrier_t all;
  atomic_int wrong;
};

static struct meeting* make_meeting(unsigned processes) {
  struct meeting* made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_barrierattr_t shared;
  assert(made != MAP_FAILED && pthread_barrierattr_init(&shared) == 0);
  assert(pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) == 0);
  assert(pthread_barrier_init(&made->all, &shared, processes) == 0);
  return made;
}

static void meet(struct meeting* meeting) {
  pthread_barrier_wait(&meeting->all);
}

/* Something is served in any case: a file of the program's own. */
static int make_another_file(void) {
  unsigned char* own = map_file(make_file(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  own[5] = 'o';
  unlink(file_path());
  return make_file();
}

static int end_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

static void note(struct meeting* meeting, int right) {
  atomic_fetch_add(&meeting->wrong, !right);
}

static void end_both(struct meeting* meeting, pid_t child) {
  if (child == 0) {
    _exit(0);
  }
  check("child", end_of(child) == 0);
  check("seen", meeting->wrong == 0);
}

enum { processes = 4, row_bytes = 64 };

/* Every fourth row, of all. */
static void store_rows(unsigned char* memory, unsigned process, unsigned char value) {
  for (uint64_t at = process * row_bytes; at < file_bytes; at += processes * row_bytes) {
    memset(memory + at, value + (int)process, row_bytes);
  }
}

static int all_rows_are_there(const unsigned char* memory, unsigned char value) {
  for (uint64_t at = 0; at < file_bytes; ++at) {
    if (memory[at] != value + at / row_bytes % processes) {
      return 0;
    }
  }
  return 1;
}

static void write_in_turns(struct meeting* meeting, int descriptor, unsigned process) {
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  for (unsigned char round = 0; round < 3; ++round) {
    store_rows(memory, process, (unsigned char)(round * 10));
    meet(meeting);
    note(meeting, all_rows_are_there(memory, (unsigned char)(round * 10)));
    meet(meeting);
  }
}

static void several_writers(void) {
  int descriptor = make_another_file();
  struct meeting* meeting = make_meeting(processes);
  pid_t children[processes];
  for (unsigned process = 1; process < processes; ++process) {
    children[process] = fork();
    if (children[process] == 0) {
      write_in_turns(meeting, descriptor, process);
      _exit(0);
    }
  }
  write_in_turns(meeting, descriptor, 0);
  for (unsigned process = 1; process < processes; ++process) {
    check("ended", end_of(children[process]) == 0);
  }
  check("rows", meeting->wrong == 0);
  printf("%llx\n", (unsigned long long)file_checksum(descriptor));
}

/* A child that reads, through a mapping from before or after the parent's, what the parent stores bit by bit. */
static void let_child_read(int child_first) {
  enum { rounds = 50 };
  int descriptor = make_another_file();
  struct meeting* meeting = make_meeting(2);
  pid_t child = fork();
  unsigned char* memory = NULL;
  if ((child == 0) != child_first) {
    meet(meeting);
  }
  memory = map_file(descriptor, file_bytes, child == 0 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  uint64_t sum = checksum(memory, file_bytes);
  if ((child == 0) == child_first) {
    meet(meeting);
  }
  for (int round = 0; round < rounds; ++round) {
    if (child != 0) {
      memory[round * 70000] = (unsigned char)(round + 1);
    }
    meet(meeting);
    note(meeting, memory[round * 70000] == round + 1);
    meet(meeting);
  }
  note(meeting, sum != 0);
  end_both(meeting, child);
}

static void reader_before_writer(void) {
  let_child_read(1);
}

static void writer_before_reader(void) {
  let_child_read(0);
}

static void made_writable_among_readers(void) {
  int descriptor = make_another_file();
  struct meeting* meeting = make_meeting(2);
  pid_t child = fork();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  uint64_t sum = checksum(memory, file_bytes);
  meet(meeting);
  if (child != 0) {
    check("protect", mprotect(memory, file_bytes, PROT_READ | PROT_WRITE) == 0);
    memory[70000] = 'p';
  }
  meet(meeting);
  note(meeting, memory[70000] == 'p' && sum != 0);
  end_both(meeting, child);
}

/* Windows of one page, which are too small to be served. */
static void windows_of_another(void) {
  enum { windows = 64 };
  int descriptor = make_another_file();
  struct meeting* meeting = make_meeting(2);
  pid_t child = fork();
  unsigned char* memory = child == 0 ? NULL : map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  uint64_t sum = child == 0 ? 0 : checksum(memory, file_bytes);
  meet(meeting);
  for (uint64_t number = 0; number < windows; ++number) {
    if (child == 0) {
      unsigned char* window =
          map_file(descriptor, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, number * 16 * page_bytes);
      window[7] = 'w';
      munmap(window, page_bytes);
    }
    meet(meeting);
    note(meeting, child == 0 || memory[number * 16 * page_bytes + 7] == 'w');
  }
  note(meeting, child == 0 || sum != 0);
  end_both(meeting, child);
}

/* Small windows are the kernel's: whoever serves the file that they show gives it back. */
static void small_windows_read(void) {
  int descriptor = make_another_file();
  struct meeting* meeting = make_meeting(2);
  pid_t child = fork();
  uint64_t length = child == 0 ? page_bytes : file_bytes;
  int protection = child == 0 ? PROT_READ : PROT_READ | PROT_WRITE;
  for (unsigned char round = 1; round <= 4; ++round) {
    unsigned char* memory = NULL;
    int first = (round % 2 == 0) == (child == 0);
    if (first) {
      memory = map_file(descriptor, length, protection, MAP_SHARED, 0);
      note(meeting, child != 0 || memory[7] + 1 != 0);
    }
    meet(meeting);
    if (!first) {
      memory = map_file(descriptor, length, protection, MAP_SHARED, 0);
    }
    meet(meeting);
    for (unsigned char value = 0; value < 20; ++value) {
      if (child != 0) {
        memory[7] = (unsigned char)(round * 20 + value);
      }
      meet(meeting);
      note(meeting, memory[7] == round * 20 + value);
      meet(meeting);
    }
    munmap(memory, length);
  }
  end_both(meeting, child);
}

/* What the kernel maps, as it could not be read at first, or need not be served. */
static void made_writable_later(void) {
  int descriptor = make_another_file();
  struct meeting* meeting = make_meeting(2);
  pid_t child = fork();
  unsigned char* memory = map_file(descriptor, file_bytes, child == 0 ? PROT_READ : PROT_NONE, MAP_SHARED, 0);
  uint64_t sum = child == 0 ? checksum(memory, file_bytes) : 1;
  meet(meeting);
  if (child != 0) {
    check("protect", mprotect(memory + 16 * page_bytes, 2 * page_bytes, PROT_READ | PROT_WRITE) == 0);
    memory[16 * page_bytes + 7] = 'p';
  }
  meet(meeting);
  note(meeting, memory[16 * page_bytes + 7] == 'p' && sum != 0);
  end_both(meeting, child);
}

/* Mapped to be read by all, and changed by calls, as LMDB has it. */
static void written_by_calls_among_readers(void) {
  int descriptor = make_another_file();
  struct meeting* meeting = make_meeting(2);
  pid_t child = fork();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  uint64_t sum = checksum(memory, file_bytes);
  meet(meeting);
  for (unsigned char round = 1; round < 40; ++round) {
    uint64_t at = round * 20000;
    if ((child == 0) == (round % 2 == 0)) {
      note(meeting, pwrite(descriptor, &round, 1, (off_t)at) == 1);
    }
    meet(meeting);
    note(meeting, memory[at] == round && sum != 0);
    meet(meeting);
  }
  end_both(meeting, child);
}

/* What the kernel maps, as it is small: nobody sees what the program changes by calls then. */
static void written_by_calls_beside_a_window(void) {
  int descriptor = make_another_file();
  struct meeting* meeting = make_meeting(2);
  pid_t child = fork();
  unsigned char* memory = child == 0 ? map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0) : NULL;
  uint64_t sum = child == 0 ? checksum(memory, file_bytes) : 1;
  meet(meeting);
  if (child != 0) {
    memory = map_file(descriptor, page_bytes, PROT_READ, MAP_SHARED, 0);
    note(meeting, pwrite(descriptor, "ww", 2, 7) == 2);
  }
  meet(meeting);
  note(meeting, memory[7] == 'w' && sum != 0);
  end_both(meeting, child);
}

struct counting {
  volatile uint64_t* counter;
  atomic_int* stop;
  uint64_t counted;
};

static void* count(void* argument) {
  struct counting* counting = argument;
  while (!atomic_load(counting->stop)) {
    ++*counting->counter;
    ++counting->counted;
  }
  return NULL;
}

/* Threads go on storing while another process comes, for which the file is given back. */
static void given_back_under_threads(void) {
  enum { threads = 4 };
  int descriptor = make_another_file();
  struct meeting* meeting = make_meeting(2);
  pid_t child = fork();
  if (child == 0) {
    meet(meeting);
    unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    memory[file_bytes - 1] = 'c';
    meet(meeting);
    meet(meeting);
    _exit(*(uint64_t*)(memory + page_bytes) == 0);
  }
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memset(memory, 0, file_bytes);
  atomic_int stop = 0;
  pthread_t started[threads];
  struct counting counting[threads];
  for (int number = 0; number < threads; ++number) {
    counting[number] =
        (struct counting){.counter = (uint64_t*)(memory + (number + 1) * page_bytes), .stop = &stop, .counted = 0};
    assert(pthread_create(&started[number], NULL, count, &counting[number]) == 0);
  }
  usleep(20000);
  meet(meeting);
  meet(meeting);
  usleep(20000);
  atomic_store(&stop, 1);
  int right = memory[file_bytes - 1] == 'c';
  for (int number = 0; number < threads; ++number) {
    pthread_join(started[number], NULL);
    uint64_t stored = 0;
    right = right && *counting[number].counter == counting[number].counted &&
            pread(descriptor, &stored, sizeof stored, (number + 1) * page_bytes) == sizeof stored &&
            stored == counting[number].counted;
  }
  meet(meeting);
  check("child", end_of(child) == 0);
  check("counted", right);
}

/* What dies has nothing to give back, and nobody waits for it. */
static void killed_among_writers(void) {
  int descriptor = make_another_file();
  struct meeting* meeting = make_meeting(2);
  for (int round = 0; round < 3; ++round) {
    pid_t child = fork();
    if (child == 0) {
      unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
      memory[round] = 'k';
      msync(memory, file_bytes, MS_SYNC);
      meet(meeting);
      pause();
    }
    meet(meeting);
    kill(child, SIGKILL);
    check("killed", end_of(child) == SIGKILL);
    unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    check("stored", memory[round] == 'k');
    memory[70000 + round] = 'p';
    munmap(memory, file_bytes);
  }
  printf("%llx\n", (unsigned long long)file_checksum(descriptor));
}

/* Maps and unmaps all the time, and counts in a place of its own, in one block with the others'. */
static void count_in_mappings(int descriptor, unsigned process) {
  for (int round = 0; round < 60; ++round) {
    unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    ++*(volatile uint64_t*)(memory + process * sizeof(uint64_t));
    munmap(memory, file_bytes);
  }
}

static void mapped_in_turns(void) {
  int descriptor = make_another_file();
  uint64_t counts[processes] = {0};
  assert(pwrite(descriptor, counts, sizeof counts, 0) == sizeof counts);
  pid_t children[processes];
  for (unsigned process = 1; process < processes; ++process) {
    children[process] = fork();
    if (children[process] == 0) {
      count_in_mappings(descriptor, process);
      _exit(0);
    }
  }
  count_in_mappings(descriptor, 0);
  for (unsigned process = 1; process < processes; ++process) {
    check("ended", end_of(children[process]) == 0);
  }
  assert(pread(descriptor, counts, sizeof counts, 0) == sizeof counts);
  for (unsigned process = 0; process < processes; ++process) {
    printf("%d counted\n", (int)counts[process]);
  }
}

const struct test_case sharing_cases[] = {
    {"several_writers", several_writers},
    {"reader_before_writer", reader_before_writer},
    {"writer_before_reader", writer_before_reader},
    {"made_writable_among_readers", made_writable_among_readers},
    {"windows_of_another", windows_of_another},
    {"small_windows_read", small_windows_read},
    {"made_writable_later", made_writable_later},
    {"written_by_calls_among_readers", written_by_calls_among_readers},
    {"written_by_calls_beside_a_window", written_by_calls_beside_a_window},
    {"given_back_under_threads", given_back_under_threads},
    {"killed_among_writers", killed_among_writers},
    {"mapped_in_turns", mapped_in_turns},
    {NULL, NULL},
};
