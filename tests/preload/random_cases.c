/* Calls in random order on several files and their mappings: what is read, what the calls return and what the files
 * hold at the end is what it is without Tiermap. Nothing behind a file's end is touched: there pages of another size
 * show. */
#include "cases.h"

#include <sys/wait.h>

enum { file_count = 6, most_pages = 200, least_pages = 100, step_count = 1200, touches = 20, least_mapped = 16 };

struct mapping {
  unsigned char* start; /* NULL: none. */
  unsigned first;       /* Where in the file it begins; all in pages. */
  unsigned pages;
  int writable;
};

struct sequence {
  uint64_t state;
  uint64_t seen; /* A checksum of all that was read and returned. */
  int descriptors[file_count];
  unsigned file_pages[file_count];
  struct mapping mapped[file_count];
};

static unsigned below(struct sequence* sequence, unsigned bound) {
  sequence->state = sequence->state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)((sequence->state >> 33) % bound);
}

static void see(struct sequence* sequence, uint64_t value) {
  sequence->seen = (sequence->seen ^ value) * 1099511628211u;
}

static void see_outcome(struct sequence* sequence, long result) {
  see(sequence, result < 0 ? (uint64_t)errno << 32 : (uint64_t)result);
}

/* How many pages of a file's mapping lie in the file. */
static unsigned touchable(const struct sequence* sequence, int file) {
  const struct mapping* mapping = &sequence->mapped[file];
  const unsigned end = mapping->first + mapping->pages;
  const unsigned least = end < sequence->file_pages[file] ? end : sequence->file_pages[file];
  return mapping->start == NULL || least <= mapping->first ? 0 : least - mapping->first;
}

static void map(struct sequence* sequence, int file) {
  struct mapping* mapping = &sequence->mapped[file];
  if (mapping->start == NULL) {
    mapping->writable = below(sequence, 3) != 0;
    mapping->first = below(sequence, most_pages - least_mapped);
    mapping->pages = least_mapped + below(sequence, most_pages - least_mapped - mapping->first + 1);
    mapping->start =
        map_file(sequence->descriptors[file], (uint64_t)mapping->pages * page_bytes,
                 PROT_READ | (mapping->writable ? PROT_WRITE : 0), MAP_SHARED, (uint64_t)mapping->first * page_bytes);
  }
}

/* All of it, or its end. */
static void unmap(struct sequence* sequence, int file) {
  struct mapping* mapping = &sequence->mapped[file];
  const unsigned kept = below(sequence, 4) == 0 ? mapping->pages / 2 : 0;
  if (mapping->start != NULL) {
    see_outcome(sequence,
                munmap(mapping->start + (size_t)kept * page_bytes, (size_t)(mapping->pages - kept) * page_bytes));
    mapping->pages = kept;
    mapping->start = kept == 0 ? NULL : mapping->start;
  }
}

static void grow(struct sequence* sequence, int file) {
  struct mapping* mapping = &sequence->mapped[file];
  const unsigned pages = mapping->pages + below(sequence, 40);
  if (mapping->start != NULL) {
    void* grown =
        mremap(mapping->start, (size_t)mapping->pages * page_bytes, (size_t)pages * page_bytes, MREMAP_MAYMOVE);
    see(sequence, grown != MAP_FAILED);
    if (grown != MAP_FAILED) {
      mapping->start = grown;
      mapping->pages = pages;
    }
  }
}

static void load(struct sequence* sequence, int file) {
  const unsigned pages = touchable(sequence, file);
  for (int touch = 0; pages != 0 && touch < touches; ++touch) {
    see(sequence, sequence->mapped[file].start[below(sequence, pages * page_bytes)]);
  }
}

static void store(struct sequence* sequence, int file) {
  const unsigned pages = touchable(sequence, file);
  for (int touch = 0; pages != 0 && sequence->mapped[file].writable && touch < touches; ++touch) {
    const unsigned at = below(sequence, pages * page_bytes);
    sequence->mapped[file].start[at] = (unsigned char)below(sequence, 256);
  }
}

static void write_file(struct sequence* sequence, int file) {
  static unsigned char bytes[10 * page_bytes];
  const unsigned at = below(sequence, sequence->file_pages[file] * page_bytes - (unsigned)sizeof bytes);
  memset(bytes, (int)below(sequence, 256), sizeof bytes);
  see_outcome(sequence,
              pwrite(sequence->descriptors[file], bytes, 1 + below(sequence, (unsigned)sizeof bytes), (off_t)at));
}

static void read_file(struct sequence* sequence, int file) {
  static unsigned char bytes[10 * page_bytes];
  const ssize_t got =
      pread(sequence->descriptors[file], bytes, sizeof bytes, (off_t)below(sequence, most_pages * page_bytes));
  see_outcome(sequence, got);
  see(sequence, got > 0 ? checksum(bytes, (uint64_t)got) : 0);
}

/* Between the mapping of one file and another file. */
static void transfer(struct sequence* sequence, int file) {
  const int other = sequence->descriptors[(file + 1) % file_count];
  const unsigned pages = touchable(sequence, file);
  const size_t bytes = (size_t)(pages < 12 ? pages : 12) * page_bytes;
  if (pages != 0 && sequence->mapped[file].writable && below(sequence, 2) == 0) {
    see_outcome(sequence, pread(other, sequence->mapped[file].start, bytes, 0));
  } else if (pages != 0) {
    see_outcome(sequence, pwrite(other, sequence->mapped[file].start, bytes, page_bytes));
  }
}

static void resize(struct sequence* sequence, int file) {
  sequence->file_pages[file] = below(sequence, 2) == 0 ? most_pages : least_pages + below(sequence, least_pages);
  see_outcome(sequence, ftruncate(sequence->descriptors[file], (off_t)sequence->file_pages[file] * page_bytes));
}

static void punch(struct sequence* sequence, int file) {
  see_outcome(sequence, fallocate(sequence->descriptors[file], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  (off_t)below(sequence, least_pages) * page_bytes,
                                  (off_t)(1 + below(sequence, 20)) * page_bytes));
}

static void copy(struct sequence* sequence, int file) {
  off64_t from = (off64_t)below(sequence, 50) * page_bytes;
  off64_t to = 60 * page_bytes;
  see_outcome(sequence,
              copy_file_range(sequence->descriptors[file], &from,
                              sequence->descriptors[(file + 1 + below(sequence, file_count - 1)) % file_count], &to,
                              20 * page_bytes, 0));
}

static void synchronise(struct sequence* sequence, int file) {
  static const int flags[] = {MS_SYNC, MS_ASYNC, MS_SYNC | MS_INVALIDATE};
  const struct mapping* mapping = &sequence->mapped[file];
  if (mapping->start != NULL) {
    see_outcome(sequence, msync(mapping->start, (size_t)mapping->pages * page_bytes, flags[below(sequence, 3)]));
  }
}

static void advise(struct sequence* sequence, int file) {
  static const int advice[] = {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED};
  const struct mapping* mapping = &sequence->mapped[file];
  if (mapping->start != NULL) {
    see_outcome(sequence, madvise(mapping->start, (size_t)mapping->pages * page_bytes, advice[below(sequence, 5)]));
  }
}

static void protect(struct sequence* sequence, int file) {
  struct mapping* mapping = &sequence->mapped[file];
  if (mapping->start != NULL) {
    mapping->writable = !mapping->writable;
    see_outcome(sequence, mprotect(mapping->start, (size_t)mapping->pages * page_bytes,
                                   PROT_READ | (mapping->writable ? PROT_WRITE : 0)));
  }
}

/* A child that stores; what it has stored is seen once it has ended. */
static void start_child(struct sequence* sequence, int file) {
  const pid_t child = fork();
  if (child == 0) {
    load(sequence, file);
    store(sequence, file);
    _exit((int)(sequence->seen % 64));
  }
  int status = 0;
  waitpid(child, &status, 0);
  see(sequence, (uint64_t)status);
}

/* How often of a thousand; what gives mappings back to the kernel is rare, so that most are served. */
static const struct {
  void (*run)(struct sequence* sequence, int file);
  unsigned share;
} steps[] = {{map, 200},       {unmap, 30},       {grow, 40},     {load, 220},  {store, 220},
             {write_file, 60}, {read_file, 60},   {transfer, 40}, {resize, 20}, {punch, 15},
             {copy, 20},       {synchronise, 30}, {advise, 35},   {protect, 6}, {start_child, 4}};

static void run_sequence(uint64_t seed) {
  struct sequence sequence = {.state = seed};
  for (int file = 0; file < file_count; ++file) {
    static char name[4200];
    static unsigned char bytes[most_pages * page_bytes];
    for (unsigned at = 0; at < sizeof bytes; ++at) {
      bytes[at] = known_byte(at + (unsigned)file);
    }
    snprintf(name, sizeof name, "%s-%d", file_path(), file);
    sequence.descriptors[file] = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    sequence.file_pages[file] = most_pages;
    check("made", pwrite(sequence.descriptors[file], bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
  }
  for (int step = 0; step < step_count; ++step) {
    unsigned chosen = below(&sequence, 1000);
    for (size_t kind = 0; kind < sizeof steps / sizeof *steps; ++kind) {
      if (chosen < steps[kind].share) {
        steps[kind].run(&sequence, (int)below(&sequence, file_count));
        break;
      }
      chosen -= steps[kind].share;
    }
    if (step % 100 == 0) {
      printf("step %d: %016llx\n", step, (unsigned long long)sequence.seen);
    }
  }
  for (int file = 0; file < file_count; ++file) {
    printf("file %d: %016llx\n", file, (unsigned long long)file_checksum(sequence.descriptors[file]));
  }
}

static void random_order(void) {
  run_sequence(1);
}
static void random_order_again(void) {
  run_sequence(20261125);
}

const struct test_case random_cases[] = {
    {"random_order", random_order},
    {"random_order_again", random_order_again},
    {NULL, NULL},
};
