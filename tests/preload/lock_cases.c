/* Locks that are given up: whoever gets them next finds in the file what was stored before. */
#include "cases.h"

#include <dirent.h>
#include <sys/file.h>
#include <sys/wait.h>

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

static int open_descriptors(void) {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != NULL) {
    ++count;
  }
  closedir(folder);
  return count;
}

/* Of other files nothing stays open that the program has done with. */
static void record_lock_keeps_no_others(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s.locked", file_path());
  int locked = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  check("lock", fcntl(locked, F_SETLK, &lock) == 0);
  int after_first = 0;
  for (int round = 0; round < 6; ++round) {
    int descriptor = make_file();
    unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    memory[place] = 1;
    close(descriptor);
    munmap(memory, file_bytes);
    unlink(file_path());
    after_first = round == 0 ? open_descriptors() : after_first;
  }
  check("closed", open_descriptors() == after_first);
  unlink(path);
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

/* Another process, started before anything is mapped, stores each byte that it is told under a lock. */
static void store_for_others(int orders, int answers) {
  unsigned char value;
  int descriptor = open_again();
  while (read(orders, &value, 1) == 1) {
    int stored =
        flock(descriptor, LOCK_EX) == 0 && pwrite(descriptor, &value, 1, place) == 1 && flock(descriptor, LOCK_UN) == 0;
    if (!stored || write(answers, &value, 1) != 1) {
      break;
    }
  }
  _exit(0);
}

/* However soon one change follows the other: those who take turns see each. */
static void others_changes_under_locks(void) {
  int orders[2];
  int answers[2];
  close(make_file());
  if (pipe(orders) != 0 || pipe(answers) != 0) {
    exit(3);
  }
  if (fork() == 0) {
    close(orders[1]);
    store_for_others(orders[0], answers[1]);
  }
  int descriptor = open_again();
  volatile unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  int right = 1;
  for (int round = 0; round < 60; ++round) {
    unsigned char value = (unsigned char)(round + 1);
    int stored = write(orders[1], &value, 1) == 1 && read(answers[0], &value, 1) == 1;
    right = right && stored && flock(descriptor, LOCK_EX) == 0 && memory[place] == value;
    if (round % 3 == 2) {
      right = right && pwrite(descriptor, &value, 1, place + page_bytes) == 1 && memory[place + page_bytes] == value;
    }
    right = flock(descriptor, LOCK_UN) == 0 && right;
  }
  close(orders[1]);
  check("each is seen", wait(NULL) > 0 && right);
}

const struct test_case lock_cases[] = {
    {"flock_ends", flock_ends},
    {"flock_lasts", flock_lasts},
    {"record_lock_ends", record_lock_ends},
    {"record_lock_keeps_no_others", record_lock_keeps_no_others},
    {"downgrades", downgrades},
    {"others_changes_under_locks", others_changes_under_locks},
    {NULL, NULL},
};
