/* Threads that use a file, while another maps and unmaps it. */
#include "cases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

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

const struct test_case thread_cases[] = {
    {"writes_beside_unmapping", writes_beside_unmapping},
    {NULL, NULL},
};
