/* Threads that use a file, while another maps and unmaps it. */
#include "cases.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/uio.h>
#include <time.h>

enum { writers = 8, lanes_begin = 65536, lane_bytes = 1000, rounds = 8 };

struct writer {
  pthread_t thread;
  int descriptor;
  int index;
  long failures;
  unsigned char last;
};

static atomic_int ended;

/* Each its own bytes, by many vectors. */
static void* write_lane(void* argument) {
  struct writer* writer = argument;
  unsigned char bytes[lane_bytes];
  struct iovec vectors[sizeof bytes];
  unsigned round = 0;
  do {
    ++round;
    memset(bytes, (int)(round % 256), sizeof bytes);
    for (size_t index = 0; index < sizeof bytes; ++index) {
      vectors[index] = (struct iovec){bytes + index, 1};
    }
    off_t place = lanes_begin + (off_t)writer->index * lane_bytes;
    writer->failures += pwritev(writer->descriptor, vectors, sizeof bytes, place) != sizeof bytes;
    writer->last = bytes[0];
  } while (atomic_load(&ended) == 0);
  return NULL;
}

/* What was served when a call began may be nobody's before it has ended. */
static void writes_beside_unmapping(void) {
  int descriptor = make_file();
  struct writer all[writers];
  for (int index = 0; index < writers; ++index) {
    all[index] = (struct writer){.descriptor = descriptor, .index = index};
    if (pthread_create(&all[index].thread, NULL, write_lane, &all[index]) != 0) {
      exit(3);
    }
  }
  for (int round = 0; round < rounds; ++round) {
    unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    memory[round] = 'm';
    munmap(memory, file_bytes);
  }
  atomic_store(&ended, 1);
  for (int index = 0; index < writers; ++index) {
    pthread_join(all[index].thread, NULL);
    unsigned char now = 0;
    check("written", all[index].failures == 0 &&
                         pread(descriptor, &now, 1, lanes_begin + (index + 1) * lane_bytes - 1) == 1 &&
                         now == all[index].last);
  }
  unsigned char stored[rounds];
  check("stored", pread(descriptor, stored, rounds, 0) == rounds && stored[0] == 'm' && stored[rounds - 1] == 'm');
}

enum { block_writers = 8, first_block = 16, mappings = 40 };

/* Each in a block of its own, and looks at once whether it is there. */
static void* write_block(void* argument) {
  struct writer* writer = argument;
  unsigned char bytes[lane_bytes];
  struct iovec vectors[sizeof bytes];
  const off_t place = (off_t)(first_block + writer->index) * page_bytes;
  do {
    ++writer->last;
    memset(bytes, writer->last, sizeof bytes);
    for (size_t index = 0; index < sizeof bytes; ++index) {
      vectors[index] = (struct iovec){bytes + index, 1};
    }
    unsigned char now = 0;
    writer->failures += pwritev(writer->descriptor, vectors, sizeof bytes, place) != sizeof bytes ||
                        pread(writer->descriptor, &now, 1, place + lane_bytes - 1) != 1 || now != writer->last;
  } while (atomic_load(&ended) == 0);
  return NULL;
}

/* Nothing of the file is mapped when the writes begin, and what is stored beside them undoes none. */
static void first_mapping_beside_writes(void) {
  int descriptor = make_file();
  struct writer all[block_writers];
  for (int index = 0; index < block_writers; ++index) {
    all[index] = (struct writer){.descriptor = descriptor, .index = index};
    if (pthread_create(&all[index].thread, NULL, write_block, &all[index]) != 0) {
      exit(3);
    }
  }
  int stored = 1;
  for (int round = 1; round <= mappings; ++round) {
    unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    for (int index = 0; index < block_writers; ++index) {
      memory[(first_block + index) * page_bytes + 2 * lane_bytes] = (unsigned char)round;
    }
    munmap(memory, file_bytes);
    for (int index = 0; index < block_writers; ++index) {
      unsigned char now = 0;
      stored = stored && pread(descriptor, &now, 1, (first_block + index) * page_bytes + 2 * lane_bytes) == 1 &&
               now == round;
    }
  }
  atomic_store(&ended, 1);
  check("stored", stored);
  for (int index = 0; index < block_writers; ++index) {
    pthread_join(all[index].thread, NULL);
    check("written", all[index].failures == 0);
  }
}

/* A thread that is cancelled in a write holds up nobody who maps the file. */
static void cancelled_before_mapping(void) {
  int descriptor = make_file();
  check("cancelled", writers_are_cancelled(descriptor));
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  check("written", memcmp(memory + 1000, "xyz", 3) == 0);
}

static int pipe_ends[2];

static void* splice_in(void* argument) {
  loff_t at = page_bytes;
  return splice(pipe_ends[0], NULL, *(int*)argument, &at, 5, 0) == 5 ? argument : NULL;
}

/* A call that waits for others before anything of the file is mapped, and goes on then. */
static void splice_before_mapping(void) {
  int descriptor = make_file();
  pthread_t thread;
  if (pipe(pipe_ends) != 0 || pthread_create(&thread, NULL, splice_in, &descriptor) != 0) {
    exit(3);
  }
  usleep(50000);
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[page_bytes + 100] = 's';
  check("pipe", write(pipe_ends[1], "later", 5) == 5);
  void* result = NULL;
  pthread_join(thread, &result);
  check("spliced", result != NULL && memcmp(memory + page_bytes, "later", 5) == 0 && memory[page_bytes + 100] == 's');
  check("unmap", munmap(memory, file_bytes) == 0);
  memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  check("again", memcmp(memory + page_bytes, "later", 5) == 0 && memory[page_bytes + 100] == 's');
}

static void* touch_all(void* memory) {
  unsigned char seen = 0;
  do {
    for (uint64_t place = 0; place < file_bytes; place += page_bytes) {
      seen |= ((volatile unsigned char*)memory)[place + 9];
    }
  } while (atomic_load(&ended) == 0);
  return seen == 0 ? memory : NULL;
}

/* Another mapping of the file takes the place of `memory` at once: who reads there meanwhile notices nothing. */
static void replace_while_read(const char* what, int descriptor, unsigned char* memory) {
  pthread_t reader;
  void* nothing_seen = NULL;
  atomic_store(&ended, 0);
  if (pthread_create(&reader, NULL, touch_all, memory) != 0) {
    exit(3);
  }
  usleep(2000);
  int flags = MAP_SHARED | MAP_FIXED;
  check(what, mmap(memory, file_bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0) == memory);
  usleep(1000);
  atomic_store(&ended, 1);
  pthread_join(reader, &nothing_seen);
  check("read", nothing_seen == NULL && memory[9] == known_byte(9));
  memory[5] = 's';
  munmap(memory, file_bytes);
  unsigned char stored = 0;
  check("stored", pread(descriptor, &stored, 1, 5) == 1 && stored == 's');
}

static void replaced_while_read(void) {
  int descriptor = make_file();
  for (int round = 0; round < 3; ++round) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    replace_while_read("of the file", descriptor,
                       map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0));
    replace_while_read("of memory", descriptor, map_file(-1, file_bytes, PROT_READ | PROT_WRITE, flags, 0));
  }
}

enum { record_writers = 4, records = 80, long_record_bytes = 30000, short_record_bytes = 5000, record_rounds = 10 };
static atomic_int records_left;

/* Where the descriptor stands, which others move. */
static void* write_records(void* argument) {
  struct writer* writer = argument;
  unsigned char bytes[long_record_bytes];
  memset(bytes, writer->last, sizeof bytes);
  size_t count = writer->index == 0 ? long_record_bytes : short_record_bytes;
  for (int record = 0; record < records; ++record) {
    writer->failures += write(writer->descriptor, bytes, count) != (ssize_t)count;
  }
  atomic_fetch_sub(&records_left, 1);
  return NULL;
}

/* The mapping shows what threads write by one descriptor, each behind the others. */
static void records_at_one_position(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  int right = 1;
  for (int round = 0; round < record_rounds; ++round) {
    struct writer all[record_writers];
    atomic_store(&records_left, record_writers);
    lseek(descriptor, 0, SEEK_SET);
    for (int index = 0; index < record_writers; ++index) {
      unsigned char what = (unsigned char)(1 + round * record_writers + index);
      all[index] = (struct writer){.descriptor = descriptor, .index = index, .last = what};
      if (pthread_create(&all[index].thread, NULL, write_records, &all[index]) != 0) {
        exit(3);
      }
    }
    do {
      checksum(memory, file_bytes);
    } while (atomic_load(&records_left) > 0);
    for (int index = 0; index < record_writers; ++index) {
      pthread_join(all[index].thread, NULL);
      right = right && all[index].failures == 0;
    }
    right = right && checksum(memory, file_bytes) == file_checksum(descriptor);
  }
  check("seen", right);
}

static void* use_file(void* argument) {
  int descriptor = *(int*)argument;
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[7] = 's';
  unsigned char stored = 0;
  int right = pread(descriptor, &stored, 1, 7) == 1 && stored == 's' && pwrite(descriptor, "t", 1, 8) == 1 &&
              memory[8] == 't' && msync(memory, file_bytes, MS_SYNC) == 0;
  return munmap(memory, file_bytes) == 0 && right ? argument : NULL;
}

/* A thread that has little, and below it nothing that can be touched. */
static void thread_of_small_stack(void) {
  enum { stack_bytes = 32 << 10, nothing_bytes = 64 << 10 };
  int descriptor = make_file();
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  unsigned char* memory = map_file(-1, nothing_bytes + stack_bytes, PROT_NONE, flags, 0);
  pthread_attr_t attributes;
  pthread_t thread;
  if (mprotect(memory + nothing_bytes, stack_bytes, PROT_READ | PROT_WRITE) != 0 ||
      pthread_attr_init(&attributes) != 0 ||
      pthread_attr_setstack(&attributes, memory + nothing_bytes, stack_bytes) != 0) {
    exit(3);
  }
  for (int round = 0; round < 2; ++round) {
    void* result = NULL;
    if (pthread_create(&thread, &attributes, use_file, &descriptor) != 0) {
      exit(3);
    }
    pthread_join(thread, &result);
    check("used", result != NULL);
  }
}

enum { waiting_writers = 300 };

static void* fill_pipe(void* argument) {
  static const char bytes[page_bytes];
  while (write(*(int*)argument, bytes, sizeof bytes) > 0) {
  }
  return NULL;
}

/* Any number of threads may wait in a write to somebody who does not read: no file changes by that. */
static void mapped_beside_waiting_writers(void) {
  enum { stack_bytes = 64 << 10, longest = 2 };
  int ends[2];
  pthread_attr_t attributes;
  pthread_t threads[waiting_writers];
  int descriptor = make_file();
  signal(SIGPIPE, SIG_IGN);
  if (pipe(ends) != 0 || pthread_attr_init(&attributes) != 0 ||
      pthread_attr_setstacksize(&attributes, stack_bytes) != 0) {
    exit(3);
  }
  for (int index = 0; index < waiting_writers; ++index) {
    if (pthread_create(&threads[index], &attributes, fill_pipe, &ends[1]) != 0) {
      exit(3);
    }
  }
  usleep(200000);
  struct timespec begin;
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  check("used", use_file(&descriptor) != NULL);
  clock_gettime(CLOCK_MONOTONIC, &end);
  check("soon", end.tv_sec - begin.tv_sec <= longest);
  close(ends[0]);
  for (int index = 0; index < waiting_writers; ++index) {
    pthread_join(threads[index], NULL);
  }
}

const struct test_case thread_cases[] = {
    {"thread_of_small_stack", thread_of_small_stack},
    {"mapped_beside_waiting_writers", mapped_beside_waiting_writers},
    {"replaced_while_read", replaced_while_read},
    {"writes_beside_unmapping", writes_beside_unmapping},
    {"records_at_one_position", records_at_one_position},
    {"first_mapping_beside_writes", first_mapping_beside_writes},
    {"cancelled_before_mapping", cancelled_before_mapping},
    {"splice_before_mapping", splice_before_mapping},
    {NULL, NULL},
};
