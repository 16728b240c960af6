/* Locks that are given up: whoever gets them next finds in the file what was stored before. */
#include "cases.h"

#include <sys/file.h>

enum { place = 70000 };

static int what_it_read(FILE* output) {
  int value = -1;
  value = fscanf(output, "%d", &value) == 1 ? value : -1;
  pclose(output);
  return value;
}

/* What another process reads there; it takes no lock itself. */
static int others_read(void) {
  char command[8192];
  snprintf(command, sizeof command, "LD_PRELOAD= od -An -tu1 -j %d -N 1 '%s'", place, file_path());
  return what_it_read(popen(command, "r"));
}

static int open_again(void) {
  return open(file_path(), O_RDWR | O_CLOEXEC);
}

static unsigned char* map_to_write(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[5] = '5';
  return memory;
}

/* The lock of the open file ends with its last descriptor. */
static void flock_ends(void) {
  unsigned char* memory = map_to_write();
  int descriptor = open_again();
  check("lock", flock(descriptor, LOCK_EX) == 0);
  memory[place] = 1;
  check("close", close(descriptor) == 0 && others_read() == 1);
  descriptor = open_again();
  check("lock again", flock(descriptor, LOCK_EX) == 0);
  memory[place] = 2;
  check("dup2", dup2(STDIN_FILENO, descriptor) == descriptor && others_read() == 2);
  close(descriptor);
  descriptor = open_again();
  check("and again", flock(descriptor, LOCK_EX) == 0);
  memory[place] = 3;
  check("dup3", dup3(STDIN_FILENO, descriptor, O_CLOEXEC) == descriptor && others_read() == 3);
  close(descriptor);
  descriptor = open_again();
  check("the last time", flock(descriptor, LOCK_EX) == 0);
  memory[place] = 4;
  check("close_range", close_range((unsigned)descriptor, (unsigned)descriptor, 0) == 0 && others_read() == 4);
}

/* A mapping has the opening of the file, and so its lock, until it is unmapped; also one that is changed meanwhile. */
static void flock_lasts(void) {
  for (int changed = 0; changed < 2; ++changed) {
    int descriptor = make_file();
    unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    memory[place] = 1;
    check("lock", flock(descriptor, LOCK_EX) == 0 && close(descriptor) == 0);
    check("change", !changed || mprotect(memory, page_bytes, PROT_READ) == 0);
    int other = open_again();
    check("kept", flock(other, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK);
    check("unmap", munmap(memory, file_bytes) == 0 && others_read() == 1);
    check("free", flock(other, LOCK_EX | LOCK_NB) == 0);
    close(other);
  }
}

/* The process's lock ends with any descriptor of the file. */
static void record_lock_ends(void) {
  unsigned char* memory = map_to_write();
  int descriptor = open_again();
  int another = open_again();
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  check("lock", fcntl(descriptor, F_SETLK, &lock) == 0);
  memory[place] = 1;
  check("close", close(another) == 0 && others_read() == 1);
}

/* Another process waits for its lock, and reads. */
static FILE* start_waiting(void) {
  char command[8192];
  snprintf(command, sizeof command, "LD_PRELOAD= flock -s '%s' od -An -tu1 -j %d -N 1 '%s'", file_path(), place,
           file_path());
  FILE* output = popen(command, "r");
  usleep(100000);
  return output;
}

/* From alone to shared. */
static void downgrades(void) {
  unsigned char* memory = map_to_write();
  int descriptor = open_again();
  check("flock", flock(descriptor, LOCK_EX) == 0);
  FILE* waiting = start_waiting();
  memset(memory, 1, file_bytes);
  check("shared", flock(descriptor, LOCK_SH) == 0 && what_it_read(waiting) == 1);
  check("unlock", flock(descriptor, LOCK_UN) == 0);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  check("fcntl", fcntl(descriptor, F_SETLK, &lock) == 0);
  memory[place] = 2;
  lock.l_type = F_RDLCK;
  check("for reading", fcntl(descriptor, F_SETLK, &lock) == 0 && others_read() == 2);
}

const struct test_case lock_cases[] = {
    {"flock_ends", flock_ends},
    {"flock_lasts", flock_lasts},
    {"record_lock_ends", record_lock_ends},
    {"downgrades", downgrades},
    {NULL, NULL},
};
