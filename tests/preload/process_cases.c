/* fork(), exec(), the end of the process, descriptors and threads. */
#include "cases.h"

#undef NDEBUG

#include <assert.h>
#include <errno.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}

static void fork_reads(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  uint64_t sum = checksum(memory, file_bytes / 2);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    unsigned char* again = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
    _exit(checksum(memory, file_bytes / 2) == sum && checksum(again, file_bytes) == checksum(memory, file_bytes) ? 7
                                                                                                                 : 8);
  }
  printf("child %d\n", wait_for(child));
  check("parent", checksum(memory, file_bytes / 2) == sum && memory[file_bytes - 1] == known_byte(file_bytes - 1));
}

static void fork_writes(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  unlink(file_path());
  int another = make_file();
  unsigned char* own = map_file(another, file_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0);
  memory[70000] = 'a';
  own[70000] = 'p';
  own[70001] = 'q';
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int right = memory[70000] == 'a' && own[70000] == 'p' && own[90000] == known_byte(90000);
    memory[80000] = 'c';
    own[70001] = 'c';
    _exit(right ? 7 : 8);
  }
  printf("child %d\n", wait_for(child));
  check("parent sees the child's", memory[80000] == 'c' && own[70001] == 'q');
  memory[80001] = 'd';
  munmap(memory, file_bytes);
  printf("%llx %llx\n", (unsigned long long)file_checksum(descriptor), (unsigned long long)file_checksum(another));
}

static void spawn(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[5] = 'v';
  check("system", system("exit 3") == 3 << 8);
  pid_t child = vfork();
  if (child == 0) {
    execlp("true", "true", (char*)NULL);
    _exit(9);
  }
  printf("vfork %d\n", wait_for(child));
  check("still", memory[5] == 'v' && memory[70000] == known_byte(70000));
}

/* Children that share no memory see what was stored, and what they write is seen once they have ended. */
static void children_see(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  check("before", memory[70001] == known_byte(70001));
  char read[4096];
  char write[4096];
  snprintf(read, sizeof read, "tail -c +70001 '%s' | head -c 2", file_path());
  snprintf(write, sizeof write, "printf w | dd of='%s' bs=1 seek=70001 conv=notrunc 2>/dev/null", file_path());
  char* const reads[] = {"sh", "-c", read, NULL};
  char* const writes[] = {"sh", "-c", write, NULL};
  memcpy(memory + 70000, "sy", 2);
  check("system", system(read) == 0);
  memcpy(memory + 70000, "po", 2);
  char two[3] = "";
  FILE* pipe = popen(read, "r");
  check("popen", fread(two, 1, 2, pipe) == 2 && pclose(pipe) == 0 && memcmp(two, "po", 2) == 0);
  memcpy(memory + 70000, "sp", 2);
  pid_t child = 0;
  posix_spawnp(&child, "sh", NULL, NULL, reads, environ);
  check("posix_spawn", wait_for(child) == 0);
  memcpy(memory + 70000, "vf", 2);
  child = vfork();
  if (child == 0) {
    execvp("sh", reads);
    _exit(9);
  }
  check("vfork", wait_for(child) == 0);
  posix_spawnp(&child, "sh", NULL, NULL, writes, environ);
  check("written by a child", wait_for(child) == 0 && memcmp(memory + 70000, "vw", 2) == 0);
  memory[70001] = 'o';
  check("written by a command", system(write) == 0 && memory[70001] == 'w');
}

/* Another process, which has written at byte 70001 of the file and goes on for a moment. */
static FILE* start_writer(void) {
  char command[8192];
  snprintf(command, sizeof command,
           "printf w | dd of='%s' bs=1 seek=70001 conv=notrunc 2>/dev/null; echo done; sleep 0.2", file_path());
  usleep(50000); /* The file's last change is not to look like this one. */
  FILE* output = popen(command, "r");
  char line[16] = "";
  check("writer", fgets(line, sizeof line, output) != NULL && strcmp(line, "done\n") == 0);
  return output;
}

/* What a child has written is seen once it has ended, also where the program or another child came in between. */
static void children_among_others(void) {
  for (int how = 0; how < 3; ++how) {
    int descriptor = make_file();
    unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
    check("before", memory[70001] == known_byte(70001) && memory[file_bytes - 1] == known_byte(file_bytes - 1));
    FILE* output = start_writer();
    if (how == 0) {
      check("own", pwrite(descriptor, "o", 1, file_bytes - 1) == 1 && memory[file_bytes - 1] == 'o');
    } else {
      usleep(50000);
      check("another child", system("true") == 0);
    }
    if (how == 2) {
      check("lock", flock(descriptor, LOCK_SH) == 0);
    } else {
      pclose(output);
    }
    check("after", memory[70001] == 'w');
    if (how == 2) {
      pclose(output);
    }
    munmap(memory, file_bytes);
    close(descriptor);
  }
}

/* Also where it has set the file's time back, as programs do that copy into a file. */
static void child_sets_time_back(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  check("before", memory[70001] == known_byte(70001));
  char command[16384];
  snprintf(command, sizeof command,
           "touch -r '%s' '%s.time'; printf w | dd of='%s' bs=1 seek=70001 conv=notrunc 2>/dev/null; "
           "touch -r '%s.time' '%s'; rm '%s.time'",
           file_path(), file_path(), file_path(), file_path(), file_path(), file_path());
  usleep(50000);
  check("after", system(command) == 0 && memory[70001] == 'w');
}

/* A program that ignores its children's ends is told that it has none any more, and sees what they have written. */
static void children_are_ignored(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  check("before", memory[70001] == known_byte(70001));
  usleep(50000);
  signal(SIGCHLD, SIG_IGN);
  for (int how = 0; how < 2; ++how) {
    unsigned char mark = how == 0 ? 'w' : 'i';
    fflush(stdout);
    if (fork() == 0) {
      _exit(pwrite(descriptor, &mark, 1, 70001) == 1 ? 0 : 1);
    }
    siginfo_t info;
    int ended = how == 0 ? wait(NULL) == -1 : waitid(P_ALL, 0, &info, WEXITED) == -1;
    check("after", ended && errno == ECHILD && memory[70001] == mark);
    usleep(50000);
  }
}

/* A database whose log other processes move is theirs also once a stream was open on it. */
static void stream_on_logged_database(void) {
  char name[8192];
  snprintf(name, sizeof name, "%s-shm", file_path());
  int descriptor = make_file();
  int index = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  check("index", ftruncate(index, 32768) == 0);
  map_file(index, 32768, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  check("stream", fclose(fopen(file_path(), "r")) == 0);
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  check("before", memory[70001] == known_byte(70001));
  FILE* output = start_writer();
  check("seen", memory[70001] == 'w');
  pclose(output);
  unlink(name);
  unlink(file_path());
  check("another file", map_file(make_file(), file_bytes, PROT_READ, MAP_SHARED, 0)[9] == known_byte(9));
}

static void exec_keeps(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memset(memory + 100, 'e', 50);
  memcpy(memory, "line\n", 5);
  fflush(stdout);
  execlp("head", "head", "-n1", file_path(), (char*)NULL);
}

static void exit_keeps(void) {
  int descriptor = make_file();
  for (int how = 0; how < 6; ++how) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
      memset(memory + how * 100000, 'x', 100);
      if (how == 0) {
        _exit(0);
      }
      if (how == 1) {
        exit(0);
      }
      if (how == 2) {
        abort();
      }
      how == 3 ? raise(SIGTERM) : how == 4 && setpgid(0, 0) == 0 ? killpg(getpid(), SIGTERM) : kill(getpid(), SIGTERM);
    }
    int code = wait_for(child);
    unsigned char bytes[100];
    check(how == 2  ? "abort"
          : how < 2 ? "exit"
                    : "signal",
          code == (how < 2 ? 0 : 200) && pread(descriptor, bytes, 100, how * 100000) == 100 && bytes[99] == 'x');
  }
}

/* Each time the program takes a number of the engine's, that ends, and another one starts. */
static void engine_ends_again(void) {
  enum { rounds = 20 };
  int descriptor = make_file();
  int right = 1;
  for (int round = 0; round < rounds; ++round) {
    unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    memory[70000] = (unsigned char)round;
    usleep(8000 + 300 * (useconds_t)round);
    for (int number = descriptor + 1; number < descriptor + 12; ++number) {
      right = right && dup2(STDIN_FILENO, number) == number && close(number) == 0;
    }
    right = right && memory[70000] == round && munmap(memory, file_bytes) == 0;
  }
  check("all rounds", right);
}

/* The kernel lets no process with several threads do that. */
static void own_namespace(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[5] = 'u';
  printf("unshare: %s\n", outcome(unshare(CLONE_NEWUSER)));
  printf("setns: %s\n", outcome(setns(-1, CLONE_NEWUSER)));
  check("still there", memory[5] == 'u' && memory[file_bytes - 1] == known_byte(file_bytes - 1));
  check("unmap", munmap(memory, file_bytes) == 0);
  memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  check("mapped again", memory[5] == 'u' && memory[file_bytes - 1] == known_byte(file_bytes - 1));
}

enum { workers = 3, cells = 512 };
static atomic_int stop;
static unsigned char* counted;
static _Atomic uint64_t done[workers];

/* Each counts in cells of its own, spread over the file. */
static void* count_up(void* argument) {
  uint64_t worker = (uint64_t)(uintptr_t)argument;
  for (uint64_t turn = 0; atomic_load(&stop) == 0; ++turn) {
    uint64_t cell = (turn * 7919) % cells;
    ++*(uint64_t*)(counted + cell * (file_bytes / cells) + worker * 64);
    atomic_fetch_add(&done[worker], 1);
  }
  return NULL;
}

/* For a while, and until each has counted on, however long others keep the processors. */
static int count_further(void) {
  enum { pause_microseconds = 30000, most_pauses = 1000, some = 16 };
  uint64_t before[workers];
  for (int worker = 0; worker < workers; ++worker) {
    before[worker] = atomic_load(&done[worker]);
  }
  int further = 0;
  for (int pauses = 0; pauses < most_pauses && further < workers; ++pauses) {
    usleep(pause_microseconds);
    further = 0;
    for (int worker = 0; worker < workers; ++worker) {
      further += atomic_load(&done[worker]) >= before[worker] + some;
    }
  }
  return further == workers;
}

/* The mapping changes hands under threads that store to it. */
static void threads(void) {
  for (int how = 0; how < 4; ++how) {
    unlink(file_path()); /* The descriptors stay open: each file is another one. */
    int descriptor = make_file();
    for (int worker = 0; worker < workers; ++worker) {
      atomic_store(&done[worker], 0);
    }
    atomic_store(&stop, 0);
    ftruncate(descriptor, 0);
    ftruncate(descriptor, file_bytes + page_bytes);
    counted =
        map_file(descriptor, file_bytes + page_bytes, PROT_READ | PROT_WRITE, how == 3 ? MAP_PRIVATE : MAP_SHARED, 0);
    pthread_t threads[workers];
    for (uint64_t worker = 0; worker < workers; ++worker) {
      pthread_create(&threads[worker], NULL, count_up, (void*)(uintptr_t)worker);
    }
    check("begun", count_further());
    if (how == 0) {
      munmap(counted + file_bytes, page_bytes);
    } else if (how == 1 || how == 3) {
      pid_t child = fork();
      if (child == 0) {
        _exit(0);
      }
      wait_for(child);
    } else {
      unsigned char bytes[100];
      for (int round = 0; round < 100; ++round) {
        pwrite(descriptor, "bytes", 5, 4096 * round + 3000);
        pread(descriptor, bytes, 100, 4096 * round);
        msync(counted, file_bytes, MS_ASYNC);
      }
    }
    check("going on", count_further());
    atomic_store(&stop, 1);
    uint64_t expected = 0;
    uint64_t found = 0;
    for (uint64_t worker = 0; worker < workers; ++worker) {
      pthread_join(threads[worker], NULL);
      expected += done[worker];
      for (uint64_t cell = 0; cell < cells; ++cell) {
        found += *(uint64_t*)(counted + cell * (file_bytes / cells) + worker * 64);
      }
    }
    check("nothing lost", expected == found);
    munmap(counted, file_bytes + page_bytes);
  }
}

/* What the child inherited and what it maps itself are one memory. */
static void fork_then_map(void) {
  int descriptor = make_file();
  unsigned char* inherited = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  check("before", inherited[0] == known_byte(0));
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    unsigned char* own = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    own[0] = '1';
    int right = inherited[0] == '1';
    mprotect(inherited, file_bytes, PROT_READ | PROT_WRITE);
    inherited[1] = '2';
    own[2] = '3';
    munmap(own, file_bytes);
    munmap(inherited, file_bytes);
    _exit(right ? 7 : 8);
  }
  printf("child %d\n", wait_for(child));
  char bytes[3];
  check("stored", pread(descriptor, bytes, 3, 0) == 3 && memcmp(bytes, "123", 3) == 0);
}

static void assertion_keeps(void) {
  int descriptor = make_file();
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    memory[70000] = 'Z';
    close(STDERR_FILENO);
    assert(memory[70000] == 'a');
  }
  printf("child %d\n", wait_for(child));
  char byte = 0;
  check("stored", pread(descriptor, &byte, 1, 70000) == 1 && byte == 'Z');
}

/* It goes on, and what it stores then is written at its end. */
static void exec_fails(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[0] = 'b';
  printf("exec: %s\n", outcome(execl("/nowhere/at/all", "at-all", (char*)NULL)));
  memory[1] = 'a';
  fflush(stdout);
  char command[8192];
  snprintf(command, sizeof command, "LD_PRELOAD= head -c2 '%s'", file_path());
  fsync(descriptor);
  check("goes on", system(command) == 0);
}

/* A thread that gets a table of descriptors of its own maps as before. */
static void own_table(int how) {
  int descriptor = make_file();
  unsigned char* first = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  check("before", first[70000] == known_byte(70000));
  check("own", how == 0 ? unshare(CLONE_FILES) == 0 : close_range(60, ~0U, CLOSE_RANGE_UNSHARE) == 0);
  unsigned char* second = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  second[70000] = 'o';
  unsigned char byte = 0;
  check("after", first[70000] == 'o' && checksum(first, file_bytes) == checksum(second, file_bytes) &&
                     msync(second, file_bytes, MS_SYNC) == 0 && pread(descriptor, &byte, 1, 70000) == 1 && byte == 'o');
  munmap(first, file_bytes);
  munmap(second, file_bytes);
}

static void own_tables(void) {
  own_table(0);
  own_table(1);
}

/* A child of vfork() does what it likes with its numbers, and the parent keeps its own. */
static void vfork_redirects(void) {
  unsigned char* memory = map_file(make_file(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[70000] = 'v';
  pid_t child = vfork();
  if (child == 0) {
    int done = 0;
    for (int number = 3; number < 100; ++number) {
      done += dup2(STDIN_FILENO, number) == number && close(number) == 0;
    }
    _exit(done);
  }
  printf("in the child %d\n", wait_for(child));
  unsigned char byte = 0;
  int descriptor = open(file_path(), O_RDONLY);
  check("served", memory[file_bytes - 1] == known_byte(file_bytes - 1) && memory[70000] == 'v' &&
                      pread(descriptor, &byte, 1, 70000) == 1 && byte == 'v');
}

/* Where there is no /proc nobody can tell whose descriptors are whose. */
static void without_proc(void) {
  char root[4096];
  char name[4200];
  snprintf(root, sizeof root, "%s.root", file_path());
  snprintf(name, sizeof name, "%s/file", root);
  check("root", mkdir(root, 0700) == 0 || errno == EEXIST);
  int descriptor = open(name, O_RDWR | O_CREAT, 0600);
  check("file", ftruncate(descriptor, file_bytes) == 0);
  unsigned char* memory = map_file(make_file(), file_bytes, PROT_READ, MAP_SHARED, 0);
  check("before", memory[70000] == known_byte(70000));
  pid_t child = fork();
  if (child == 0) {
    if (chroot(root) != 0) { /* Without the right to, nothing is shown. */
      _exit(0);
    }
    alarm(20);
    memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    memory[70000] = 'p';
    close_range(3, ~0U, 0);
    int right = memory[file_bytes - 1] == 0 && memory[70000] == 'p' && msync(memory, file_bytes, MS_SYNC) == 0;
    syscall(SYS_exit_group, right ? 0 : 1); /* No report: in that root there is no folder for it. */
  }
  printf("in the child %d\n", wait_for(child));
  unsigned char byte = 0;
  printf("stored %d\n", pread(descriptor, &byte, 1, 70000) == 1 && byte == 'p');
}

const struct test_case process_cases[] = {
    {"fork_reads", fork_reads},
    {"fork_writes", fork_writes},
    {"spawn", spawn},
    {"exec_keeps", exec_keeps},
    {"exit_keeps", exit_keeps},
    {"engine_ends_again", engine_ends_again},
    {"own_namespace", own_namespace},
    {"threads", threads},
    {"fork_then_map", fork_then_map},
    {"assertion_keeps", assertion_keeps},
    {"exec_fails", exec_fails},
    {"own_tables", own_tables},
    {"children_see", children_see},
    {"children_among_others", children_among_others},
    {"child_sets_time_back", child_sets_time_back},
    {"children_are_ignored", children_are_ignored},
    {"stream_on_logged_database", stream_on_logged_database},
    {"vfork_redirects", vfork_redirects},
    {"without_proc", without_proc},
    {NULL, NULL},
};
