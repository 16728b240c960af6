/* A mapping and calls on the same file: one set of bytes. */
#include "cases.h"

#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>

static void writes_are_seen(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  checksum(memory, file_bytes);
  unsigned char bytes[20000];
  memset(bytes, 'w', sizeof bytes);
  check("pwrite", pwrite(descriptor, bytes, 20000, 70001) == 20000 && memory[70001] == 'w' && memory[90000] == 'w' &&
                      memory[70000] == known_byte(70000) && memory[90001] == known_byte(90001));
  lseek(descriptor, 300000, SEEK_SET);
  check("write", write(descriptor, bytes, 10) == 10 && memory[300005] == 'w');
  struct iovec vectors[] = {{bytes, 5}, {bytes, 7}};
  check("writev", writev(descriptor, vectors, 2) == 12 && memory[300021] == 'w' && memory[300022] != 'w');
  check("pwritev", pwritev(descriptor, vectors, 2, 400000) == 12 && memory[400011] == 'w');
  check("buffer in the mapping", pwrite(descriptor, memory + 70001, 5000, 71000) == 5000 && memory[75000] == 'w');
  check("the page itself", pwrite(descriptor, memory + 100, 100, 300) == 100 && memory[300] == known_byte(100));
  loff_t from = 70001;
  loff_t to = 1000000;
  check("copy_file_range",
        copy_file_range(descriptor, &from, descriptor, &to, 1000, 0) == 1000 && memory[1000999] == 'w');
  check("punch", fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 20, 65536) == 0 &&
                     memory[(1 << 20) + 5] == 0);
  printf("%llx %d\n", (unsigned long long)checksum(memory, file_bytes),
         checksum(memory, file_bytes) == file_checksum(descriptor));
}

static void stores_are_read(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  unsigned char bytes[100];
  memset(memory + 70000, 's', 1000);
  check("pread", pread(descriptor, bytes, 100, 70500) == 100 && bytes[0] == 's' && bytes[99] == 's');
  memory[0] = '1';
  check("read", read(descriptor, bytes, 10) == 10 && bytes[0] == '1');
  memory[20] = '2';
  struct iovec vector = {bytes, 30};
  check("readv", readv(descriptor, &vector, 1) == 30 && bytes[10] == '2');
  memory[50] = '3';
  check("preadv", preadv(descriptor, &vector, 1, 40) == 30 && bytes[10] == '3');
  char name[4096];
  snprintf(name, sizeof name, "%s.copy", file_path());
  int copy = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  memory[123456] = '4';
  off_t start = 0;
  ssize_t sent = 0;
  while (sent < file_bytes) {
    ssize_t now = sendfile(copy, descriptor, &start, (size_t)(file_bytes - sent));
    if (now <= 0) {
      break;
    }
    sent += now;
  }
  check("sendfile", sent == file_bytes && file_checksum(copy) == checksum(memory, file_bytes));
  memory[123457] = '5';
  loff_t from = 0;
  loff_t to = 0;
  check("copy_file_range", copy_file_range(descriptor, &from, copy, &to, 1 << 20, 0) == 1 << 20 &&
                               pread(copy, bytes, 1, 123457) == 1 && bytes[0] == '5');
  unlink(name);
}

/* Stores and writes to one block of the file, which nobody does at the same byte. */
static void both_in_one_block(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  for (int round = 0; round < 200; ++round) {
    unsigned char byte = (unsigned char)round;
    memory[8192 + round] = byte;
    check("write", pwrite(descriptor, &byte, 1, 10000 + round) == 1);
    memory[12000 + round] = byte;
  }
  int right = 1;
  for (int round = 0; round < 200; ++round) {
    right = right && memory[8192 + round] == round && memory[10000 + round] == round && memory[12000 + round] == round;
  }
  check("memory", right);
  printf("%d\n", checksum(memory, file_bytes) == file_checksum(descriptor));
}

static void truncation(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memset(memory, 't', file_bytes);
  check("shorter", ftruncate(descriptor, 1 << 20) == 0);
  printf("before the end: %s %c, behind: %s\n", try_read(memory + (1 << 20) - 1), memory[(1 << 20) - 1],
         try_read(memory + (2 << 20)));
  check("longer", ftruncate(descriptor, 3 << 20) == 0);
  printf("now: %s %d, behind: %s\n", try_read(memory + (2 << 20)), memory[2 << 20],
         try_read(memory + (3 << 20) + 70000));
  memory[2 << 20] = 'u';
  check("by name",
        truncate(file_path(), (2 << 20) + 100) == 0 && memory[2 << 20] == 'u' && memory[(2 << 20) + 100] == 0);
  check("unmap", munmap(memory, file_bytes) == 0);
  struct stat status;
  fstat(descriptor, &status);
  printf("%lld %llx\n", (long long)status.st_size, (unsigned long long)file_checksum(descriptor));
}

static void growth(void) {
  int descriptor = make_file();
  check("cut", ftruncate(descriptor, 100) == 0);
  const uint64_t room = (uint64_t)1 << 30;
  unsigned char* memory = map_file(descriptor, room, PROT_READ, MAP_SHARED, 0);
  printf("first %s %d, far behind %s\n", try_read(memory + 99), memory[99] == known_byte(99),
         try_read(memory + (1 << 20)));
  unsigned char bytes[page_bytes];
  memset(bytes, 'g', sizeof bytes);
  int right = 1;
  for (uint64_t at = 0; at < 3 << 20; at += page_bytes) {
    right = right && pwrite(descriptor, bytes, page_bytes, (off_t)at) == page_bytes && memory[at] == 'g' &&
            memory[at + page_bytes - 1] == 'g';
  }
  check("page by page", right);
  check("at once", ftruncate(descriptor, 8 << 20) == 0 && memory[(8 << 20) - 1] == 0 && memory[(3 << 20) - 1] == 'g');
  printf("behind %s\n", try_read(memory + (9 << 20)));
  int other = open(file_path(), O_RDWR | O_TRUNC);
  printf("emptied: %s\n", try_read(memory + (1 << 20)));
  check("written again", pwrite(other, "abc", 3, 0) == 3 && memory[1] == 'b');
}

static void two_mappings(void) {
  int descriptor = make_file();
  unsigned char* first = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  unsigned char* second = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  check("both read", checksum(first, file_bytes) == checksum(second, file_bytes));
  unsigned char* third = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  third[70000] = 'T';
  check("one store, three mappings", first[70000] == 'T' && second[70000] == 'T');
  munmap(first, file_bytes);
  munmap(second, file_bytes);
  munmap(third, file_bytes);
  unsigned char* writer = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  writer[5] = 'W';
  unsigned char* small = map_file(descriptor, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  check("a small one sees it", small[5] == 'W');
  small[6] = 'S';
  check("and the large one the small one's", writer[6] == 'S');
}

static void into_the_mapping(void) {
  int descriptor = make_file();
  int other = open("/proc/self/exe", O_RDONLY);
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  unsigned char bytes[5000];
  check("reference", pread(other, bytes, 5000, 64) == 5000);
  check("read into it", pread(other, memory + 777777, 5000, 64) == 5000 && memcmp(memory + 777777, bytes, 5000) == 0);
  int pipes[2];
  check("pipe",
        pipe(pipes) == 0 && write(pipes[1], memory + 777777, 5000) == 5000 && read(pipes[0], memory, 5000) == 5000);
  check("through it", memcmp(memory, bytes, 5000) == 0);
  check("path in it", (strcpy((char*)memory + 3000000, "/dev/null"), access((char*)memory + 3000000, R_OK) == 0));
  check("synchronised",
        fsync(descriptor) == 0 && pread(descriptor, bytes, 9, 3000000) == 9 && memcmp(bytes, "/dev/null", 9) == 0);
}

static void streams(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  checksum(memory, file_bytes);
  FILE* stream = fopen(file_path(), "r+");
  fseek(stream, 100000, SEEK_SET);
  fputs("written by a stream", stream);
  fflush(stream);
  check("seen", memcmp(memory + 100000, "written by a stream", 19) == 0);
  fclose(stream);
  munmap(memory, file_bytes);
  memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memcpy(memory + 200000, "stored", 6);
  stream = fopen(file_path(), "r");
  fseek(stream, 200000, SEEK_SET);
  char text[8] = "";
  check("read", fread(text, 1, 6, stream) == 6 && strcmp(text, "stored") == 0);
  memcpy(memory + 204800 + 64, "later", 5);
  fseek(stream, 204800 + 64, SEEK_SET);
  check("read what is stored later", fread(text, 1, 5, stream) == 5 && memcmp(text, "later", 5) == 0);
  fclose(stream);
  munmap(memory, file_bytes);
  stream = fopen(file_path(), "w");
  fputs("short", stream);
  fclose(stream);
  printf("%llx\n", (unsigned long long)file_checksum(descriptor));
}

static int locked_for_others(int descriptor) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    _exit(fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

static void record_locks(void) {
  int descriptor = make_file();
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  check("lock", fcntl(descriptor, F_SETLK, &lock) == 0);
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  check("map", memory[70000] == known_byte(70000) && locked_for_others(descriptor));
  check("unmap", munmap(memory, file_bytes) == 0 && locked_for_others(descriptor));
  check("again", map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0)[9] == known_byte(9));
  int second = open(file_path(), O_RDONLY);
  close(second);
  check("closing another descriptor ends it", !locked_for_others(descriptor));
}

/* Another process changes the file under a lock; whoever gets the lock sees it. */
static void other_process(void) {
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  checksum(memory, file_bytes);
  char command[8192];
  snprintf(command, sizeof command, "printf changed | LD_PRELOAD= dd of='%s' bs=1 seek=70000 conv=notrunc status=none",
           file_path());
  usleep(20000);
  check("change", system(command) == 0);
  struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
  check("lock", fcntl(descriptor, F_SETLKW, &lock) == 0 && memcmp(memory + 70000, "changed", 7) == 0);
  check("change again", system(strcat(command, " # 2")) == 0);
  check("flock", flock(descriptor, LOCK_SH) == 0 && memcmp(memory + 70000, "changed", 7) == 0);
}

/* Buffers that lie in the mapping, larger than any copy of them may be, and with an end that cannot be read. */
static void large_buffers(void) {
  int descriptor = make_file();
  ftruncate(descriptor, 2 * file_bytes);
  unsigned char* memory = map_file(descriptor, 4 * file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  memory[0] = 'f';
  memory[file_bytes + 5] = 'x';
  printf("all: %zd\n", pwrite(descriptor, memory, file_bytes, file_bytes));
  check("copied", memory[file_bytes] == 'f' && memory[file_bytes + 5] == known_byte(5));
  printf("past the end of the file: %zd\n", pwrite(descriptor, memory + 2 * file_bytes - 65536, 1 << 20, 0));
  printf("no such length: %s\n", outcome(pwrite(descriptor, memory, (size_t)1 << 47, 0)));
  munmap(memory + 3 * file_bytes, file_bytes);
  struct iovec vectors[] = {{memory, 70000}, {memory + 300000, 2 << 20}};
  printf("several: %zd\n", pwritev(descriptor, vectors, 2, 1 << 20));
  check("in order", memory[(1 << 20) + 70000] == memory[300000]);
}

/* Linux appends, whatever the offset. */
static void append_at(void) {
  int descriptor = make_file();
  ftruncate(descriptor, file_bytes - 100);
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
  check("before", memory[file_bytes - 50] == 0);
  int appending = open(file_path(), O_WRONLY | O_APPEND | O_CLOEXEC);
  printf("pwrite: %zd\n", pwrite(appending, "QQQQQQQQQQ", 10, 0));
  check("appended", memory[file_bytes - 100] == 'Q' && memory[0] == known_byte(0));
  struct iovec vector = {"RRRRRRRRRR", 10};
  printf("pwritev2: %zd\n", pwritev2(descriptor, &vector, 1, 0, RWF_APPEND));
  check("appended too", memory[file_bytes - 90] == 'R' && memory[0] == known_byte(0));
  close(appending);
}

/* Bytes that this process has had the disk read. */
static uint64_t read_from_disk(void) {
  FILE* counts = fopen("/proc/self/io", "r");
  char line[80];
  unsigned long long bytes = 0;
  while (counts != NULL && fgets(line, sizeof line, counts) != NULL) {
    if (sscanf(line, "read_bytes: %llu", &bytes) == 1) {
      break;
    }
  }
  if (counts != NULL) {
    fclose(counts);
  }
  return bytes;
}

/* What a write() has put into the page cache need not come from the disk, where it has to be written first. */
static void looked_up_after_each_write(void) {
  enum { stride = 65536 };
  int descriptor = make_file();
  unsigned char* memory = map_file(descriptor, file_bytes, PROT_READ, MAP_SHARED, 0);
  int right = memory[0] == known_byte(0);
  const uint64_t before = read_from_disk();
  for (int round = 0; round < 8; ++round) {
    for (uint64_t at = 0; at < file_bytes; at += stride) {
      char word[16] = "";
      snprintf(word, sizeof word, "%d %llu", round, (unsigned long long)at);
      right = right && pwrite(descriptor, word, sizeof word, (off_t)(at + 100)) == sizeof word &&
              memcmp(memory + at + 100, word, sizeof word) == 0 && memory[at + 99] == known_byte(at + 99) &&
              memory[at + stride / 2] == known_byte(at + stride / 2);
    }
  }
  check("each was seen", right);
  /* All of it may have come once, and some with what was read ahead. */
  check("the disk was left alone", read_from_disk() - before < 3 * (uint64_t)file_bytes);
  munmap(memory, file_bytes);
}

const struct test_case file_cases[] = {
    {"looked_up_after_each_write", looked_up_after_each_write},
    {"writes_are_seen", writes_are_seen},
    {"stores_are_read", stores_are_read},
    {"both_in_one_block", both_in_one_block},
    {"truncation", truncation},
    {"growth", growth},
    {"two_mappings", two_mappings},
    {"into_the_mapping", into_the_mapping},
    {"streams", streams},
    {"record_locks", record_locks},
    {"other_process", other_process},
    {"large_buffers", large_buffers},
    {"append_at", append_at},
    {NULL, NULL},
};
