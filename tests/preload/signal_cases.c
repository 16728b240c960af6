/* Signals that end the program by default: what it has stored is kept. */
#include "cases.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

static int pipe_ends[2];

/* Never returns: it is doing what cannot be interrupted by a handler, or waits. */
static void go_on(unsigned char* memory, int busy) {
  while (busy) {
    void* taken = malloc(1000 + (size_t)memory[9] * 200);
    memory[9] = (unsigned char)((uintptr_t)taken >> 12);
    free(taken);
  }
  for (;;) {
    pause();
  }
}

/* A child, which tells by a pipe when it has stored. */
static pid_t fork_with_pipe(void) {
  if (pipe(pipe_ends) != 0) {
    exit(3);
  }
  fflush(stdout);
  return fork();
}

static void store(unsigned char* memory, int stored) {
  for (uint64_t at = 70000; at < file_bytes; at += 70000) {
    memory[at] = (unsigned char)stored;
  }
}

static void say_stored(unsigned char* memory, int busy) {
  if (write(pipe_ends[1], "s", 1) == 1) {
    go_on(memory, busy);
  }
}

static int has_stored(void) {
  char byte = 0;
  return read(pipe_ends[0], &byte, 1) == 1;
}

static void close_pipe(void) {
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

static void store_and_wait(int number, int busy) {
  unsigned char* memory = map_file(make_file(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  store(memory, number);
  if (number == SIGPIPE) {
    int broken[2];
    if (pipe(broken) == 0 && close(broken[0]) == 0) {
      printf("written %zd\n", write(broken[1], "x", 1));
    }
    _exit(1);
  }
  say_stored(memory, busy);
}

/* Whether what store() has stored is in the file. */
static int is_in_file(int stored_number) {
  const int descriptor = open(file_path(), O_RDONLY);
  int kept = 1;
  for (uint64_t at = 70000; at < file_bytes; at += 70000) {
    unsigned char stored = 0;
    kept = kept && pread(descriptor, &stored, 1, (off_t)at) == 1 && stored == stored_number;
  }
  close(descriptor);
  return kept;
}

static void ended_by_signals(void) {
  const int numbers[] = {SIGHUP, SIGINT, SIGPIPE, SIGALRM, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};
  const struct rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (size_t index = 0; index < 2 * sizeof numbers / sizeof *numbers; ++index) {
    const int number = numbers[index / 2];
    const pid_t child = fork_with_pipe();
    if (child == 0) {
      signal(number, SIG_DFL); /* Of a job in the background a shell ignores some. */
      store_and_wait(number, index % 2 == 1);
    }
    if (number != SIGPIPE && has_stored()) {
      kill(child, number);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("signal %d ended it: %d\n", number, WIFSIGNALED(status) && WTERMSIG(status) == number);
    check("kept", is_in_file(number));
    close_pipe();
  }
}

static void raise_again(int number) {
  signal(number, SIG_DFL);
  raise(number);
}

static void kill_again(int number) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_DFL;
  sigaction(number, &action, NULL);
  kill(getpid(), number);
}

static void raise_once(int number) {
  raise(number);
}

static void thread_kill_once(int number) {
  pthread_kill(pthread_self(), number);
}

/* How a program comes to end by a signal that it had a handler for. */
static void handle(int number, int way) {
  void (*const handlers[])(int) = {raise_again, kill_again, raise_once, thread_kill_once};
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handlers[way];
  action.sa_flags = way == 2 ? (int)SA_RESETHAND : way == 3 ? (int)(SA_RESETHAND | SA_NODEFER) : 0;
  sigaction(number, &action, NULL);
}

static void check_kept(int stored) {
  unsigned char found = 0;
  const int descriptor = open(file_path(), O_RDONLY);
  check("kept", pread(descriptor, &found, 1, 70000) == 1 && found == stored);
  close(descriptor);
}

/* A handler that tidies up, and has the signal end the program as it would have without; and a signal that is set back
 * to its default after there was a mapping. */
static void ended_by_handlers(void) {
  const int numbers[] = {SIGINT, SIGTERM, SIGUSR1};
  for (int index = 0; index < 14; ++index) {
    const int number = numbers[index % 3];
    const int way = index / 3;
    const pid_t child = fork_with_pipe();
    if (child == 0) {
      unsigned char* memory = map_file(make_file(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
      way == 4 ? (void)signal(number, SIG_DFL) : handle(number, way);
      memory[70000] = (unsigned char)('a' + index);
      say_stored(memory, index % 2);
    }
    if (has_stored()) {
      kill(child, number);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("way %d, signal %d ended it: %d\n", way, number, WIFSIGNALED(status) && WTERMSIG(status) == number);
    check_kept('a' + index);
    close_pipe();
  }
}

static void leave_at_once(int number) {
  (void)number;
  _exit(7);
}

static void leave(int number) {
  (void)number;
  exit(7);
}

/* Takes and gives back memory until a handler ends it. */
static void be_busy(void) {
  void* kept[100] = {NULL};
  for (unsigned round = 0;; round = round * 1103515245u + 12345u) {
    void** place = &kept[(round >> 16) % 100];
    free(*place);
    *place = malloc(10 + (round >> 8) % 3000);
  }
}

/* The status of a child, which is killed if it hangs. */
static int wait_for_end(pid_t child) {
  int status = 0;
  for (int waited = 0; waitpid(child, &status, WNOHANG) == 0; ++waited) {
    if (waited == 10000) {
      kill(child, SIGKILL);
    }
    usleep(1000);
  }
  return status;
}

/* A child that a handler ends in the middle of what it goes on with. */
static void check_left(int end, void (*begin)(int), void (*go_on)(void)) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGALRM, end % 2 == 0 ? leave_at_once : leave);
    begin('a' + end);
    ualarm(5000, 0);
    go_on();
  }
  const int status = wait_for_end(child);
  check("ended", WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void read_a_page(int unused) {
  (void)unused;
  const unsigned char* memory = map_file(make_file(), file_bytes, PROT_READ, MAP_SHARED, 0);
  check("read", memory[70000] == known_byte(70000));
}

/* Never what was given back, which takes no lock. */
static void take_memory(void) {
  while (malloc(40) != NULL) {
  }
}

/* What is only read has an end as well. */
static void ended_while_reading(void) {
  enum { ends = 24 };
  for (int end = 0; end < ends; ++end) {
    check_left(end, read_a_page, take_memory);
  }
}

static void store_in_pages(int stored) {
  unsigned char* memory = map_file(make_file(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  for (uint64_t at = 70000; at < file_bytes; at += page_bytes) {
    memory[at] = (unsigned char)stored;
  }
}

/* The handler interrupts malloc() more often than not. */
static void ended_in_handlers(void) {
  enum { ends = 12 };
  for (int end = 0; end < ends; ++end) {
    check_left(end, store_in_pages, be_busy);
    check_kept('a' + end);
  }
}

static void raise_at_once(int number) {
  raise(number);
}

/* The same where the handler is not held back from being interrupted by the signal that it ends the program by. */
static void ended_by_open_handlers(void) {
  enum { ends = 12 };
  for (int end = 0; end < ends; ++end) {
    const int number = end % 2 == 0 ? SIGALRM : SIGVTALRM;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      struct sigaction action;
      memset(&action, 0, sizeof action);
      action.sa_handler = raise_at_once;
      action.sa_flags = (int)(SA_RESETHAND | SA_NODEFER);
      sigaction(number, &action, NULL);
      store_in_pages('a' + end);
      const struct itimerval soon = {{0, 0}, {0, 5000}};
      setitimer(number == SIGALRM ? ITIMER_REAL : ITIMER_VIRTUAL, &soon, NULL);
      be_busy();
    }
    const int status = wait_for_end(child);
    check("ended", WIFSIGNALED(status) && WTERMSIG(status) == number);
    check_kept('a' + end);
  }
}

static volatile sig_atomic_t noted;

static void note(int number) {
  noted = number;
}

/* A handler, or none, is the program's own, whenever it comes; a child has the defaults. */
static void own_handlers(void) {
  signal(SIGTERM, note);
  signal(SIGHUP, SIG_IGN);
  unsigned char* memory = map_file(make_file(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[70000] = 'h';
  signal(SIGINT, note);
  kill(getpid(), SIGTERM);
  check("before", noted == SIGTERM);
  kill(getpid(), SIGINT);
  check("after", noted == SIGINT);
  check("ignored", kill(getpid(), SIGHUP) == 0 && memory[70000] == 'h');
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    for (;;) {
      pause();
    }
  }
  kill(child, SIGALRM);
  int status = 0;
  check("child", waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGALRM && memory[70000] == 'h');
}

/* Who sets a handler for a while puts the default back after it. */
static void own_handler_for_a_while(void) {
  const pid_t child = fork_with_pipe();
  if (child == 0) {
    unsigned char* memory = map_file(make_file(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    signal(SIGTERM, note);
    signal(SIGTERM, SIG_DFL);
    store(memory, SIGTERM);
    say_stored(memory, 0);
  }
  if (has_stored()) {
    usleep(500000);
    kill(child, SIGTERM);
  }
  int status = 0;
  check("ended", waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  check("kept", is_in_file(SIGTERM));
}

/* The first signal asks the program to end, and the second makes it. */
static void handled_once(void) {
  for (int before = 0; before < 2; ++before) {
    const pid_t child = fork_with_pipe();
    if (child == 0) {
      struct sigaction once;
      memset(&once, 0, sizeof once);
      once.sa_handler = note;
      once.sa_flags = (int)SA_RESETHAND;
      if (before) {
        sigaction(SIGINT, &once, NULL);
      }
      unsigned char* memory = map_file(make_file(), file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
      if (!before) {
        sigaction(SIGINT, &once, NULL);
      }
      store(memory, 'a' + before);
      say_stored(memory, 0);
    }
    if (has_stored()) {
      kill(child, SIGINT);
      usleep(500000);
      check("goes on", kill(child, 0) == 0 && waitpid(child, NULL, WNOHANG) == 0);
      kill(child, SIGINT);
    }
    int status = 0;
    check("ended", waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    check("kept", is_in_file('a' + before));
    close_pipe();
  }
}

const struct test_case signal_cases[] = {
    {"ended_by_signals", ended_by_signals},
    {"ended_by_handlers", ended_by_handlers},
    {"ended_in_handlers", ended_in_handlers},
    {"ended_by_open_handlers", ended_by_open_handlers},
    {"handled_once", handled_once},
    {"own_handlers", own_handlers},
    {"own_handler_for_a_while", own_handler_for_a_while},
    {NULL, NULL},
};

const struct test_case unreported_cases[] = {
    {"ended_while_reading", ended_while_reading},
    {NULL, NULL},
};
