// Programs that are told to end, and call exit() in the handler, which interrupts malloc() more often than not: they
// end, and what they had stored is in the file. A program of its own, since what others do at their end needs malloc()
// too. ended_in_handler DIRECTORY: makes a file there; ends with 0, or says what is not true.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include <umap/umap.h>

#include "expect.h"

namespace {

const std::size_t page = 4096;
const std::size_t length = 500 * page;

void leave(int) {
  std::exit(7);
}

void store_until_ended(int file, char stored) {
  char* region = static_cast<char*>(::umap(NULL, length, PROT_READ | PROT_WRITE, UMAP_PRIVATE, file, 0));
  EXPECT(region != UMAP_FAILED);
  for (std::size_t at = 0; at < length; at += page) {
    region[at] = stored;
  }
  ::signal(SIGALRM, leave);
  ::ualarm(5000, 0);
  void* kept[100] = {};
  for (unsigned round = 0;; round = round * 1103515245U + 12345U) {
    void*& place = kept[(round >> 16) % 100];
    std::free(place);
    place = std::malloc(10 + (round >> 8) % 3000);
  }
}

}  // namespace

int main(int, char** arguments) {
  const std::string path = arguments[1] + std::string("/ended_in_handler");
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  EXPECT(file >= 0 && ::ftruncate(file, static_cast<off_t>(length)) == 0);
  for (char end = 'a'; end < 'i'; ++end) {
    const pid_t child = ::fork();
    if (child == 0) {
      store_until_ended(file, end);
    }
    int status = -1;
    EXPECT(::waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    char stored = 0;
    EXPECT(::pread(file, &stored, 1, static_cast<off_t>(length - page)) == 1 && stored == end);
  }
  ::unlink(path.c_str());
  return 0;
}
