// A thread makes the process's first call of the library while another one forks: the child's first call returns. A
// program of its own, since of each process there is one first call. Ends with 0, or says what is not true.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include <umap/umap.h>

#include "expect.h"

namespace {

int status_of(pid_t child) {
  int status = -1;
  EXPECT(::waitpid(child, &status, 0) == child);
  return status;
}

void fork_beside_the_first_call(int spins) {
  std::atomic<bool> started{false};
  std::thread first([&] {
    started = true;
    ::umapcfg_get_max_pages_in_buffer();
  });
  while (!started) {
  }
  for (volatile int spin = 0; spin < spins; spin = spin + 1) {
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::umapcfg_get_max_pages_in_buffer();
    ::_exit(0);
  }
  EXPECT(status_of(child) == 0);
  first.join();
}

}  // namespace

int main() {
  // The first call tells of that, too.
  ::setenv("UMAP_LOG_LEVEL", "none", 1);
  ::setenv("UMAP_PAGESIZE", "5000", 1);
  for (int round = 0; round < 300; ++round) {
    const pid_t process = ::fork();
    if (process == 0) {
      fork_beside_the_first_call(round * 100);
      ::_exit(0);
    }
    EXPECT(status_of(process) == 0);
  }
  return 0;
}
