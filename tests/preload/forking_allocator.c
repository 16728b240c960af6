/* A program with an allocator of its own, whose lock is held around fork(), as jemalloc's are: it says so when it is
 * asked first. The program maps the file that it is given, forks, and prints what the child has read there. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { file_bytes = 4 << 20, least_alignment = 16, allocated_by_child = 100 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int takes_part_in_forks;
static char memory[64 << 20]; /* Nothing of it is used twice. */
static size_t used;

static void before_fork(void) {
  pthread_mutex_lock(&lock);
}
static void after_fork(void) {
  pthread_mutex_unlock(&lock);
}

static void* take(size_t bytes, size_t alignment) {
  pthread_mutex_lock(&lock);
  alignment = alignment < least_alignment ? least_alignment : alignment;
  /* The size stands before it. */
  const uintptr_t first = ((uintptr_t)memory + used + sizeof(size_t) + alignment - 1) & ~(uintptr_t)(alignment - 1);
  char* const taken = memory + (first - (uintptr_t)memory);
  memcpy(taken - sizeof bytes, &bytes, sizeof bytes);
  used = (size_t)(taken - memory) + bytes;
  const int is_first = !takes_part_in_forks;
  takes_part_in_forks = 1;
  pthread_mutex_unlock(&lock);
  if (is_first) {
    pthread_atfork(before_fork, after_fork, after_fork);
  }
  return used <= sizeof memory ? taken : NULL;
}

void* malloc(size_t bytes) {
  return take(bytes, least_alignment);
}
/* Not malloc() and memset(): of that the compiler makes calloc(). */
void* calloc(size_t count, size_t bytes) {
  return take(count * bytes, least_alignment);
}
/* Waits for the lock too, as others' do. */
void free(void* address) {
  pthread_mutex_lock(&lock);
  (void)address;
  pthread_mutex_unlock(&lock);
}
void* realloc(void* address, size_t bytes) {
  char* const moved = take(bytes, least_alignment);
  if (address != NULL && moved != NULL) {
    size_t before;
    memcpy(&before, (char*)address - sizeof before, sizeof before);
    memcpy(moved, address, before < bytes ? before : bytes);
  }
  return moved;
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return take(bytes, alignment);
}
void* memalign(size_t alignment, size_t bytes) {
  return take(bytes, alignment);
}
int posix_memalign(void** place, size_t alignment, size_t bytes) {
  *place = take(bytes, alignment);
  return 0;
}
size_t malloc_usable_size(void* address) {
  size_t bytes;
  memcpy(&bytes, (char*)address - sizeof bytes, sizeof bytes);
  return bytes;
}

int main(int count, char** arguments) {
  const int descriptor = count == 2 ? open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0666) : -1;
  if (descriptor < 0 || ftruncate(descriptor, file_bytes) != 0 || pwrite(descriptor, "r", 1, 5) != 1) {
    return 1;
  }
  char* const mapped = mmap(NULL, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    return 1;
  }
  mapped[file_bytes - 1] = 'w';
  const pid_t child = fork();
  if (child == 0) {
    char* const own = malloc(allocated_by_child);
    own[0] = mapped[5];
    own[1] = mapped[file_bytes - 1];
    _exit(write(STDOUT_FILENO, own, 2) == 2 ? 0 : 1);
  }
  int status = 1;
  return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
