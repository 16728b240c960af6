/* What was stored and cannot be written to the file, because of a limit of file size: no call says that it is there.
 * The kernel would raise SIGBUS at the store, so that these cases are for served mappings alone. */
#include "cases.h"

#include <signal.h>
#include <sys/resource.h>

enum { place = 2 << 20 };

static void limit_file_size(rlim_t bytes) {
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  setrlimit(RLIMIT_FSIZE, &limit);
}

static unsigned char* store_unwritten(int descriptor) {
  signal(SIGXFSZ, SIG_IGN);
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[place] = 'u';
  limit_file_size(1 << 20);
  return memory;
}

static void check_all_there(int descriptor, const unsigned char* memory) {
  unsigned char byte = 0;
  check("still there", memory[place] == 'u' && memory[place + 1] == known_byte(place + 1));
  limit_file_size(RLIM_INFINITY);
  check("written after all", fsync(descriptor) == 0 && pread(descriptor, &byte, 1, place) == 1 && byte == 'u');
}

static void synchronise_unwritten(void) {
  int descriptor = make_file();
  unsigned char* memory = store_unwritten(descriptor);
  printf("fsync: %s\n", outcome(fsync(descriptor)));
  printf("fdatasync: %s\n", outcome(fdatasync(descriptor)));
  printf("syncfs: %s\n", outcome(syncfs(descriptor)));
  printf("msync: %s\n", outcome(msync(memory, file_bytes, MS_SYNC)));
  check_all_there(descriptor, memory);
}

static void read_unwritten(void) {
  int descriptor = make_file();
  const unsigned char* memory = store_unwritten(descriptor);
  unsigned char bytes[2];
  printf("there: %s\n", outcome(pread(descriptor, bytes, 2, place)));
  lseek(descriptor, place, SEEK_SET);
  printf("read: %s\n", outcome(read(descriptor, bytes, 2)));
  printf("elsewhere: %s\n", outcome(pread(descriptor, bytes, 2, 100)));
  check_all_there(descriptor, memory);
}

static void write_unwritten(void) {
  int descriptor = make_file();
  const unsigned char* memory = store_unwritten(descriptor);
  printf("beside it: %s\n", outcome(pwrite(descriptor, "w", 1, place + 100)));
  printf("elsewhere: %s\n", outcome(pwrite(descriptor, "w", 1, 100)));
  check("unchanged", memory[place + 100] == known_byte(place + 100) && memory[100] == 'w');
  check_all_there(descriptor, memory);
}

static void cut_unwritten(void) {
  int descriptor = make_file();
  const unsigned char* memory = store_unwritten(descriptor);
  printf("cut: %s\n", outcome(ftruncate(descriptor, 1 << 20)));
  check("the rest", memory[100] == known_byte(100));
  printf("fsync: %s\n", outcome(fsync(descriptor)));
}

static void cut_by_opening_unwritten(void) {
  int descriptor = make_file();
  const unsigned char* memory = store_unwritten(descriptor);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  printf("cut: %s\n", outcome(open(path, O_WRONLY | O_TRUNC) < 0 ? -1 : 0));
  check("empty", lseek(descriptor, 0, SEEK_END) == 0 && memory != NULL);
  printf("fsync: %s\n", outcome(fsync(descriptor)));
}

static void replace_unwritten(void) {
  int descriptor = make_file();
  unsigned char* memory = store_unwritten(descriptor);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  printf("all of it: %s\n", outcome((long)mmap(memory, file_bytes, PROT_READ, flags, -1, 0)));
  printf("a part: %s\n", outcome((long)mmap(memory + 65536, 65536, PROT_READ, flags, -1, 0)));
  printf("moved: %s\n", outcome((long)mremap(memory, file_bytes, (size_t)1 << 40, MREMAP_MAYMOVE)));
  check_all_there(descriptor, memory);
}

const struct test_case unwritten_cases[] = {
    {"synchronise_unwritten", synchronise_unwritten},
    {"read_unwritten", read_unwritten},
    {"write_unwritten", write_unwritten},
    {"cut_unwritten", cut_unwritten},
    {"cut_by_opening_unwritten", cut_by_opening_unwritten},
    {"replace_unwritten", replace_unwritten},
    {NULL, NULL},
};
