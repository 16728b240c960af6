/* mmap() and its family. */
#include "cases.h"

static void read_shared(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  close(descriptor);
  printf("%llx\n", (unsigned long long)checksum(memory, file_bytes));
  check("unmap", munmap(memory, file_bytes) == 0);
  printf("afterwards: %s\n", try_read(memory));
}

static void write_shared(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  for (uint64_t offset = 0; offset < file_bytes; offset += 1000) {
    memory[offset] ^= 0x5a;
  }
  munmap(memory, file_bytes);
  printf("%llx\n", (unsigned long long)file_checksum(descriptor));
}

static void odd_length(void) {
  int descriptor = make_file();
  check("truncate", ftruncate(descriptor, 1000001) == 0);
  unsigned char* memory = map_file(descriptor, 1000001, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[1000000] = 7;
  check("zeros behind the end", memory[1000001] == 0 && memory[1003519] == 0);
  memory[1000001] = 9;
  munmap(memory, 1000001);
  struct stat status;
  fstat(descriptor, &status);
  printf("%lld bytes, %llx\n", (long long)status.st_size, (unsigned long long)file_checksum(descriptor));
}

static void offset(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, 2 << 20, PROT_READ, MAP_SHARED, 3 * page_bytes);
  int right = 1;
  for (uint64_t at = 0; at < 2 << 20; ++at) {
    right = right && memory[at] == known_byte(at + 3 * page_bytes);
  }
  check("bytes from the offset", right);
}

static void unmap_in_part(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memset(memory, 'x', 100 * page_bytes);
  check("unmap", munmap(memory + 40 * page_bytes, 3 * page_bytes) == 0);
  printf("before: %s, hole: %s, behind: %s\n", try_read(memory + 39 * page_bytes), try_read(memory + 41 * page_bytes),
         try_read(memory + 43 * page_bytes));
  memory[0] = 'y';
  memory[50 * page_bytes] = 'z';
  check("the rest", munmap(memory, file_bytes) == 0);
  printf("%llx\n", (unsigned long long)file_checksum(descriptor));
}

static void unmap_spanning(void) {
  int descriptor = make_file();
  unsigned char* room = mmap(NULL, 4 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned char* first = mmap(room, 1 << 20, PROT_READ, MAP_SHARED | MAP_FIXED, descriptor, 0);
  unsigned char* second = mmap(room + (2 << 20), 1 << 20, PROT_READ, MAP_SHARED | MAP_FIXED, descriptor, 1 << 20);
  check("first", first == room && first[5] == known_byte(5));
  check("second", second == room + (2 << 20) && second[5] == known_byte((1 << 20) + 5));
  check("unmap", munmap(room, 4 << 20) == 0);
  printf("%s %s %s\n", try_read(room), try_read(room + (1 << 20)), try_read(second));
}

static void fixed(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[100] = 'a';
  memory[300 * page_bytes] = 'b';
  unsigned char* middle =
      mmap(memory + 20 * page_bytes, 10 * page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  check("over a part", middle == memory + 20 * page_bytes && middle[0] == 0 && memory[100] == 'a');
  unsigned char* whole = mmap(memory, file_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, descriptor, 0);
  check("over all", whole == memory && whole[100] == 'a' && whole[300 * page_bytes] == 'b');
  whole = mmap(memory, 2 << 20, PROT_READ, MAP_SHARED | MAP_FIXED, descriptor, 1 << 20);
  check("with another offset", whole == memory && whole[7] == known_byte((1 << 20) + 7));
  void* taken = mmap(memory, 1 << 20, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, descriptor, 0);
  printf("not over another: %s\n", outcome((long)taken));
  printf("%llx\n", (unsigned long long)file_checksum(descriptor));
}

static void remap(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, 1 << 20, PROT_READ, MAP_SHARED, 0);
  memory = mremap(memory, 1 << 20, 3 << 20, MREMAP_MAYMOVE);
  check("larger",
        memory != MAP_FAILED && checksum(memory, 3 << 20) != 0 && memory[(3 << 20) - 1] == known_byte((3 << 20) - 1));
  memory = mremap(memory, 3 << 20, 1 << 20, 0);
  check("smaller", memory != MAP_FAILED && memory[99] == known_byte(99));
  printf("behind: %s\n", try_read(memory + (2 << 20)));
  unsigned char* room = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned char* moved = mremap(memory, 1 << 20, 1 << 20, MREMAP_MAYMOVE | MREMAP_FIXED, room);
  check("moved", moved == room && moved[99] == known_byte(99));
  printf("where it was: %s\n", try_read(memory));
  munmap(moved, 1 << 20);
  memory = map_file(descriptor, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[12345] = 'w';
  memory = mremap(memory, 1 << 20, 2 << 20, MREMAP_MAYMOVE);
  check("written and larger", memory != MAP_FAILED && memory[12345] == 'w');
  memory[(2 << 20) - 1] = 'v';
  munmap(memory, 2 << 20);
  printf("%llx\n", (unsigned long long)file_checksum(descriptor));
}

/// As many mappings as are served at once, of which the first grows.
static void remap_among_many(void) {
  enum { count = 1024, window_bytes = 64 << 10 };
  static unsigned char* windows[count];
  int descriptor = make_file();
  for (int index = 0; index < count; ++index) {
    windows[index] = map_file(descriptor, window_bytes, PROT_READ, MAP_SHARED, 0);
  }
  // Something behind it, so that it has to move.
  mmap(windows[0] + window_bytes, window_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  windows[0] = mremap(windows[0], window_bytes, 2 * window_bytes, MREMAP_MAYMOVE);
  check("larger", windows[0] != MAP_FAILED && windows[0][2 * window_bytes - 1] == known_byte(2 * window_bytes - 1));
  int unmapped = 0;
  for (int index = 1; index < count; ++index) {
    unmapped += munmap(windows[index], window_bytes) == 0;
  }
  printf("%d unmapped\n", unmapped);
  const unsigned char changed = windows[0][9] ^ 1;
  check("written", pwrite(descriptor, &changed, 1, 9) == 1 && windows[0][9] == changed);
  check("unmapped", munmap(windows[0], 2 * window_bytes) == 0);
  printf("where it was: %s\n", try_read(windows[0]));
}

static void synchronise(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memset(memory + 5000, 'm', 100000);
  printf("part %s, ", outcome(msync(memory + page_bytes, 30 * page_bytes, MS_SYNC)));
  printf("all %s, ", outcome(msync(memory, file_bytes, MS_SYNC)));
  printf("later %s, ", outcome(msync(memory, file_bytes, MS_ASYNC)));
  printf("anew %s, ", outcome(msync(memory, file_bytes, MS_INVALIDATE)));
  printf("not aligned %s, ", outcome(msync(memory + 1, page_bytes, MS_SYNC)));
  printf("both %s\n", outcome(msync(memory, page_bytes, MS_SYNC | MS_ASYNC)));
  printf("%llx\n", (unsigned long long)file_checksum(descriptor));
  munmap(memory + (1 << 20), page_bytes);
  printf("with a hole %s\n", outcome(msync(memory, file_bytes, MS_SYNC)));
}

static void advise(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[77] = 'n';
  const int advices[] = {MADV_NORMAL,  MADV_RANDOM,        MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED, MADV_COLD,
                         MADV_PAGEOUT, MADV_POPULATE_READ, MADV_DONTDUMP,   MADV_DODUMP,   MADV_DONTFORK, MADV_DOFORK};
  for (size_t index = 0; index < sizeof advices / sizeof *advices; ++index) {
    printf("%d %s\n", advices[index], outcome(madvise(memory, file_bytes, advices[index])));
  }
  check("contents", memory[77] == 'n' && memory[99999] == known_byte(99999));
  printf("posix: %d %d %d\n", posix_madvise(memory, file_bytes, POSIX_MADV_WILLNEED),
         posix_madvise(memory, file_bytes, POSIX_MADV_DONTNEED), posix_madvise(memory + 1, 10, POSIX_MADV_RANDOM));
  printf("unknown %s, ", outcome(madvise(memory, page_bytes, 4711)));
  printf("contents %s\n", memory[77] == 'n' ? "ok" : "WRONG");
  printf("punched %s", outcome(madvise(memory + 8 * page_bytes, 8 * page_bytes, MADV_REMOVE)));
  printf(", %d\n", memory[10 * page_bytes]);
  munmap(memory, file_bytes);
  printf("%llx\n", (unsigned long long)file_checksum(descriptor));
}

static void protect(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  printf("write: %s\n", try_write(memory + 5));
  check("as it was", mprotect(memory, file_bytes, PROT_READ) == 0);
  check("writable", mprotect(memory, file_bytes, PROT_READ | PROT_WRITE) == 0);
  memory[5] = 'p';
  check("again not", mprotect(memory, page_bytes, PROT_READ) == 0);
  printf("write: %s, next page: %s\n", try_write(memory + 5), try_write(memory + page_bytes));
  check("nothing", mprotect(memory, file_bytes, PROT_NONE) == 0);
  printf("read: %s\n", try_read(memory + 5));
  check("readable", mprotect(memory, file_bytes, PROT_READ) == 0 && memory[5] == 'p');
  munmap(memory, file_bytes);
  int only_read = open(file_path(), O_RDONLY);
  memory = map_file(only_read, file_bytes, PROT_READ, MAP_SHARED, 0);
  printf("not allowed: %s\n", outcome(mprotect(memory, file_bytes, PROT_READ | PROT_WRITE)));
  check("still readable", memory[5] == 'p');
  printf("%llx\n", (unsigned long long)file_checksum(descriptor));
}

static void lock_memory(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[5] = 'l';
  printf("lock %s, ", outcome(mlock(memory, 16 * page_bytes)));
  printf("unlock %s, ", outcome(munlock(memory, 16 * page_bytes)));
  unsigned char there[file_bytes / page_bytes];
  checksum(memory, file_bytes);
  printf("mincore %s: ", outcome(mincore(memory, file_bytes, there)));
  unsigned count = 0;
  for (size_t page = 0; page < sizeof there; ++page) {
    count += there[page] & 1u;
  }
  printf("%u pages, %c\n", count, memory[5]);
}

static void in_memory(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, 1 << 20, PROT_READ, MAP_SHARED, 0);
  unsigned char there[(1 << 20) / page_bytes];
  checksum(memory, 1 << 20);
  checksum(memory, 1 << 20);
  volatile unsigned char touched = memory[0];
  touched = memory[200 * page_bytes];
  (void)touched;
  int result = mincore(memory, 1 << 20, there);
  check("mincore", result == 0 && (there[0] & 1) != 0 && (there[200] & 1) != 0);
}

static void private_copy(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0);
  for (uint64_t at = 0; at < file_bytes; at += 3000) {
    memory[at] ^= 0xff;
  }
  unsigned char* other = map_file(descriptor, file_bytes, PROT_READ, MAP_PRIVATE, 0);
  check("only here", memory[3000] == (known_byte(3000) ^ 0xff) && other[3000] == known_byte(3000));
  printf("file %llx, ", (unsigned long long)file_checksum(descriptor));
  printf("memory %llx\n", (unsigned long long)checksum(memory, file_bytes));
  check("drop", madvise(memory, page_bytes, MADV_DONTNEED) == 0);
  check("as in the file", memory[3000] == known_byte(3000) && memory[6000] == (known_byte(6000) ^ 0xff));
  check("part", munmap(memory, 2 * page_bytes) == 0 && memory[9000] == (known_byte(9000) ^ 0xff));
}

static void bad_arguments(void) {
  int descriptor = make_file();
  int only_read = open(file_path(), O_RDONLY);
  printf("length 0: %s\n", outcome((long)mmap(NULL, 0, PROT_READ, MAP_SHARED, descriptor, 0)));
  printf("offset: %s\n", outcome((long)mmap(NULL, file_bytes, PROT_READ, MAP_SHARED, descriptor, 17)));
  printf("neither shared nor private: %s\n", outcome((long)mmap(NULL, file_bytes, PROT_READ, 0, descriptor, 0)));
  printf("descriptor: %s\n", outcome((long)mmap(NULL, file_bytes, PROT_READ, MAP_SHARED, 999, 0)));
  printf("write: %s\n", outcome((long)mmap(NULL, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, only_read, 0)));
  printf("address: %s\n",
         outcome((long)mmap((void*)4097, file_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, descriptor, 0)));
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  printf("unmap: %s, %s\n", outcome(munmap(memory + 1, page_bytes)), outcome(munmap(memory, 0)));
  printf("protect: %s\n", outcome(mprotect(memory + 1, page_bytes, PROT_READ)));
  check("unharmed", memory[1] == known_byte(1));
  printf("unmap more than there is: %s\n", outcome(munmap(memory, (size_t)1 << 62)));
  printf("unknown advice about nothing: %s\n", outcome(madvise(memory, 0, 4711)));
  check("still unharmed", memory[2] == known_byte(2));
}

static void populate(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  printf("write, where nobody may: %s\n", outcome(madvise(memory, file_bytes, MADV_POPULATE_WRITE)));
  check("short", ftruncate(descriptor, file_bytes / 2 + 5) == 0);
  printf("all there is: %s\n", outcome(madvise(memory, file_bytes / 2 + page_bytes, MADV_POPULATE_READ)));
  printf("more: %s\n", outcome(madvise(memory, file_bytes / 2 + 2 * page_bytes, MADV_POPULATE_READ)));
}

/* What is stored through one mapping shows in every other, also in those that nobody has written to. */
static void private_beside_shared(void) {
  int descriptor = make_file();
  unsigned char* before = map_file(descriptor, file_bytes, PROT_READ, MAP_PRIVATE, 0);
  check("before", before[5] == known_byte(5));
  unsigned char* shared = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memset(shared, 'N', file_bytes);
  unsigned char* after = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0);
  check("a page not touched before", before[3 << 20] == 'N');
  check("after", after[3 << 20] == 'N');
  shared[2 << 20] = 'M';
  check("later", after[2 << 20] == 'M' && before[2 << 20] == 'M');
}

static void made_writable(uint64_t bytes) {
  int descriptor = make_file();
  unsigned char* one = map_file(descriptor, bytes, PROT_READ, MAP_SHARED, 0);
  unsigned char* other = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  check("before", one[0] == known_byte(0) && other[0] == known_byte(0));
  printf("protect: %s\n", outcome(mprotect(one, bytes, PROT_READ | PROT_WRITE)));
  one[0] = 'Z';
  check("seen", other[0] == 'Z');
}

/* One mapping of two is made writable: a whole one, one that is served or not by its size, and a page of it. */
static void protect_one_of_two(void) {
  made_writable(file_bytes);
  made_writable(file_bytes / 4);
  made_writable(page_bytes);
}

static void lengths_without_end(void) {
  int descriptor = make_file();
  map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  printf("all addresses: %s\n", outcome((long)mmap(NULL, SIZE_MAX, PROT_READ, MAP_SHARED, descriptor, 0)));
  printf("nearly all: %s\n", outcome((long)mmap(NULL, SIZE_MAX - 8191, PROT_READ, MAP_SHARED, descriptor, 0)));
}

/* Pages of the file in another order, in a mapping that shows a part of it: only the kernel can do that. */
static void shuffle(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes / 2, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[3] = 's';
  printf("shuffle: %s\n", outcome(remap_file_pages(memory + page_bytes, page_bytes, 0, 5, 0)));
  check("shuffled", memory[page_bytes] == known_byte(5 * page_bytes) && memory[3] == 's');
}

/* The kernel makes one mapping of pieces that lie side by side and show the file as one would, and moves that. */
static void remap_joined(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes / 2, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[5 * page_bytes] = 'j';
  const int flags = MAP_SHARED | MAP_FIXED;
  check("in the middle", mmap(memory + 4 * page_bytes, 2 * page_bytes, PROT_READ | PROT_WRITE, flags, descriptor,
                              4 * page_bytes) != MAP_FAILED);
  unsigned char* moved = mremap(memory, file_bytes / 2, file_bytes, MREMAP_MAYMOVE);
  check("moved", moved != MAP_FAILED);
  check("the same bytes",
        moved != MAP_FAILED && moved[5 * page_bytes] == 'j' && moved[file_bytes - 1] == known_byte(file_bytes - 1));
}

const struct test_case address_cases[] = {
    {"read_shared", read_shared},
    {"write_shared", write_shared},
    {"odd_length", odd_length},
    {"offset", offset},
    {"unmap_in_part", unmap_in_part},
    {"unmap_spanning", unmap_spanning},
    {"fixed", fixed},
    {"remap", remap},
    {"remap_among_many", remap_among_many},
    {"remap_joined", remap_joined},
    {"synchronise", synchronise},
    {"advise", advise},
    {"protect", protect},
    {"lock_memory", lock_memory},
    {"in_memory", in_memory},
    {"private_copy", private_copy},
    {"bad_arguments", bad_arguments},
    {"populate", populate},
    {"private_beside_shared", private_beside_shared},
    {"protect_one_of_two", protect_one_of_two},
    {"lengths_without_end", lengths_without_end},
    {"shuffle", shuffle},
    {NULL, NULL},
};
