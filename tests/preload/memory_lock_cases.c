/* Programs that lock all of their memory, or limit it: what the engine keeps in reserve is not locked with it, nor does
 * it count. */
#include "cases.h"

#include <sys/resource.h>
#include <sys/wait.h>

/* Whether this program may lock what it likes: where it may not, nothing is shown. */
static int may_lock(void) {
  const size_t much = (size_t)4 << 30;
  void* addresses = mmap(NULL, much, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  int locked = addresses != MAP_FAILED && mlock2(addresses, much, MLOCK_ONFAULT) == 0;
  munmap(addresses, much);
  return locked;
}

/* Of /proc/self/status, in KiB. */
static long status_of(const char* name) {
  char line[256];
  long found = -1;
  FILE* file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) {
      found = atol(line + strlen(name) + 1);
    }
  }
  if (file != NULL) {
    fclose(file);
  }
  return found;
}

/* A program of this size locks some MiB. */
static int little_is_locked(void) {
  return status_of("VmLck") < 256 << 10;
}

static void use(int descriptor, const char* what, unsigned char mark) {
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[70000] = mark;
  unsigned char stored = 0;
  check(what, memory[file_bytes - 1] == known_byte(file_bytes - 1) && msync(memory, file_bytes, MS_SYNC) == 0 &&
                  pread(descriptor, &stored, 1, 70000) == 1 && stored == mark);
  check("unmap", munmap(memory, file_bytes) == 0);
}

/* What is mapped then is locked, with all else that the program has. */
static void lock_all(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[5] = 'l';
  if (!may_lock()) {
    return;
  }
  printf("current: %s\n", outcome(mlockall(MCL_CURRENT)));
  check("little is locked", little_is_locked());
  unsigned char present = 0;
  check("this is", mincore(memory + file_bytes - page_bytes, page_bytes, &present) == 0 && (present & 1) == 1 &&
                       status_of("VmLck") >= file_bytes >> 10);
  check("is still there", memory[5] == 'l' && memory[file_bytes - 1] == known_byte(file_bytes - 1));
  check("unmap", munmap(memory, file_bytes) == 0);
  use(descriptor, "mapped later", 'a');
  printf("current again: %s\n", outcome(mlockall(MCL_CURRENT | MCL_ONFAULT)));
  check("little is locked again", little_is_locked());
  use(descriptor, "mapped after that", 'b');
  check("unlock", munlockall() == 0 && status_of("VmLck") == 0);
}

/* What is mapped from then on is locked too, until the program says otherwise. */
static void lock_future(void) {
  int descriptor = make_file();
  use(descriptor, "before", 'a');
  unsigned char* served = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  if (!may_lock()) {
    return;
  }
  printf("future: %s\n", outcome(mlockall(MCL_FUTURE)));
  check("read on", served[file_bytes - 1] == known_byte(file_bytes - 1) && little_is_locked());
  printf("all: %s\n", outcome(mlockall(MCL_CURRENT | MCL_FUTURE)));
  check("little is locked", little_is_locked());
  const long before = status_of("VmLck");
  unsigned char* locked = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  check("more is locked", status_of("VmLck") - before >= file_bytes >> 10);
  locked[70000] = 'f';
  check("one memory", served[70000] == 'f');
  check("unlock", munlockall() == 0 && status_of("VmLck") == 0);
  munmap(locked, file_bytes);
  munmap(served, file_bytes);
  use(descriptor, "after", 'b');
}

/* A child has no locks. */
static void lock_and_fork(void) {
  int descriptor = make_file();
  use(descriptor, "before", 'a');
  if (!may_lock()) {
    return;
  }
  printf("all: %s\n", outcome(mlockall(MCL_CURRENT | MCL_FUTURE)));
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    use(descriptor, "in the child", 'c');
    check("nothing is locked", status_of("VmLck") == 0);
    exit(0);
  }
  int status = 0;
  check("child", waitpid(child, &status, 0) == child && status == 0);
}

/* What the kernel refuses changes nothing. */
static void lock_refused(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  printf("no flag: %s\n", outcome(mlockall(0)));
  printf("unknown flag: %s\n", outcome(mlockall(MCL_CURRENT | 64)));
  check("read on", memory[file_bytes - 1] == known_byte(file_bytes - 1));
  munmap(memory, file_bytes);
  use(descriptor, "mapped later", 'r');
}

/* A limit of addresses, or of data, is the program's own: what it has not used of that it can have. */
static void limits(void) {
  for (int data = 0; data < 2; ++data) {
    int descriptor = make_file();
    unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    memory[5] = 'l';
    struct rlimit before;
    int kind = data ? RLIMIT_DATA : RLIMIT_AS;
    check("without", getrlimit(kind, &before) == 0);
    struct rlimit limit = {.rlim_cur = (rlim_t)1 << 30, .rlim_max = before.rlim_max};
    check("limit", (data ? prlimit(0, kind, &limit, NULL) : setrlimit(kind, &limit)) == 0);
    volatile unsigned char* own = malloc(200 << 20);
    check("memory", own != NULL);
    own[0] = 1;
    free((void*)own);
    check("is still there", memory[5] == 'l' && memory[file_bytes - 1] == known_byte(file_bytes - 1));
    check("unmap", munmap(memory, file_bytes) == 0);
    use(descriptor, "mapped under the limit", 'u');
    check("again without", setrlimit(kind, &before) == 0);
    use(descriptor, "mapped later", 'w');
  }
}

const struct test_case memory_lock_cases[] = {
    {"lock_all", lock_all},         {"lock_future", lock_future}, {"lock_and_fork", lock_and_fork},
    {"lock_refused", lock_refused}, {"limits", limits},           {NULL, NULL},
};
