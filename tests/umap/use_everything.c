/* A program written for UMap, in what C and C++ have in common: every function of umap/umap.h and every variable.
 * Compiled as C and as C++. use_everything DIRECTORY: makes files there; ends with 0, or says what is not true. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "umap/umap.h"

enum { page_bytes = 16384, pages = 64 };

static int make_file(const char* directory, const char* name) {
  char path[4096];
  int fd;
  snprintf(path, sizeof path, "%s/%s", directory, name);
  fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  EXPECT(fd >= 0);
  EXPECT(ftruncate(fd, (off_t)page_bytes * pages) == 0);
  return fd;
}

/* What the variables say is what the functions tell, before anything is mapped and after. */
static void check_variables(void) {
  EXPECT(umapcfg_get_umap_page_size() == page_bytes);
  EXPECT(umapcfg_get_num_fillers() == 3);
  EXPECT(umapcfg_get_num_evictors() == 2);
  EXPECT(umapcfg_get_evict_high_water_threshold() == 80);
  EXPECT(umapcfg_get_evict_low_water_threshold() == 60);
  EXPECT(umapcfg_get_max_pages_in_buffer() == 24);
  EXPECT(umapcfg_get_read_ahead() == 2);
  EXPECT(umapcfg_get_max_fault_events() == 16);
  EXPECT(umapcfg_get_system_page_size() == sysconf(_SC_PAGESIZE));
}

static void set_variables(void) {
  EXPECT(setenv("UMAP_PAGESIZE", "16384", 1) == 0);
  EXPECT(setenv("UMAP_PAGE_FILLERS", "3", 1) == 0);
  EXPECT(setenv("UMAP_PAGE_EVICTORS", "2", 1) == 0);
  EXPECT(setenv("UMAP_EVICT_HIGH_WATER_THRESHOLD", "80", 1) == 0);
  EXPECT(setenv("UMAP_EVICT_LOW_WATER_THRESHOLD", "60", 1) == 0);
  EXPECT(setenv("UMAP_BUFSIZE", "24", 1) == 0);
  EXPECT(setenv("UMAP_READ_AHEAD", "2", 1) == 0);
  EXPECT(setenv("UMAP_MAX_FAULT_EVENTS", "16", 1) == 0);
  EXPECT(setenv("UMAP_LOG_LEVEL", "ERROR", 1) == 0);
}

static void write_and_flush(int fd) {
  uint64_t* region = (uint64_t*)umap(NULL, (size_t)page_bytes * pages, PROT_READ | PROT_WRITE, UMAP_PRIVATE, fd, 0);
  const size_t words = (size_t)page_bytes * pages / sizeof *region;
  size_t word;
  uint64_t seen = 0;
  EXPECT(region != UMAP_FAILED);
  check_variables();
  for (word = 0; word < words; ++word) region[word] = word;
  EXPECT(umap_flush() == 0);
  for (word = 0; word < words; word += page_bytes / sizeof *region) {
    EXPECT(pread(fd, &seen, sizeof seen, (off_t)(word * sizeof *region)) == (ssize_t)sizeof seen);
    EXPECT(seen == word);
  }
  for (word = 0; word < words; ++word) EXPECT(region[word] == word);
  EXPECT(uunmap(region, (size_t)page_bytes * pages) == 0);
}

static void prefetch_and_pin(int fd) {
  struct umap_prefetch_item items[3];
  const off_t offset = 4 * page_bytes;
  char* region = (char*)umap(NULL, (size_t)page_bytes * 16, PROT_READ, UMAP_PRIVATE, fd, offset);
  uint64_t first = 0;
  EXPECT(region != UMAP_FAILED);
  items[0].page_base_addr = region + 5 * page_bytes;
  items[1].page_base_addr = region + 15 * page_bytes;
  items[2].page_base_addr = region;
  umap_prefetch(3, items);
  umap_fetch_and_pin(region, 2 * page_bytes);
  memcpy(&first, region, sizeof first);
  EXPECT(first == (uint64_t)offset / sizeof first);
  EXPECT(uunmap(region, (size_t)page_bytes * 16) == 0);
}

static void map_at_a_place(int fd) {
  const size_t bytes = (size_t)page_bytes * 8;
  char* reserved = (char*)mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  /* Whole pages in it, of which the last but one are mapped. */
  char* place = reserved + (page_bytes - (size_t)((uintptr_t)reserved % page_bytes)) % page_bytes;
  char* region;
  EXPECT(reserved != MAP_FAILED);
  region = (char*)umap(place, page_bytes * 4, PROT_READ | PROT_WRITE, UMAP_PRIVATE | UMAP_FIXED, fd, 0);
  EXPECT(region == place);
  region[page_bytes] = 7;
  EXPECT(uunmap(region, page_bytes * 5) == 0);
  EXPECT(munmap(reserved, bytes) == 0);
}

static void choose_in_code(int fd) {
  void* region;
  umapcfg_set_umap_page_size(65536);
  umapcfg_set_max_pages_in_buffer(32);
  umapcfg_set_num_fillers(4);
  umapcfg_set_num_evictors(1);
  umapcfg_set_max_fault_events(8);
  umapcfg_set_read_ahead(0);
  umapcfg_set_evict_low_water_threshold(90);
  umapcfg_set_evict_high_water_threshold(95);
  EXPECT(umapcfg_get_umap_page_size() == 65536);
  EXPECT(umapcfg_get_max_pages_in_buffer() == 32);
  EXPECT(umapcfg_get_num_fillers() == 4);
  EXPECT(umapcfg_get_num_evictors() == 1);
  EXPECT(umapcfg_get_max_fault_events() == 8);
  EXPECT(umapcfg_get_read_ahead() == 0);
  EXPECT(umapcfg_get_evict_low_water_threshold() == 90);
  EXPECT(umapcfg_get_evict_high_water_threshold() == 95);
  region = umap(NULL, (size_t)page_bytes * pages, PROT_READ, UMAP_PRIVATE, fd, 0);
  EXPECT(region != UMAP_FAILED);
  EXPECT(((volatile char*)region)[page_bytes] == 7);
  EXPECT(uunmap(region, (size_t)page_bytes * pages) == 0);
}

static void fail_politely(int fd) {
  EXPECT(setenv("UMAP_LOG_LEVEL", "NONE", 1) == 0);
  errno = 0;
  EXPECT(umap(NULL, 0, PROT_READ, UMAP_PRIVATE, fd, 0) == UMAP_FAILED && errno == EINVAL);
  errno = 0;
  EXPECT(umap(NULL, page_bytes, PROT_READ, UMAP_PRIVATE, -1, 0) == UMAP_FAILED && errno == EBADF);
  errno = 0;
  EXPECT(uunmap(&fd, page_bytes) == -1 && errno == EINVAL);
  umap_prefetch(0, NULL);
  umap_fetch_and_pin(NULL, 0);
}

int main(int argc, char** argv) {
  int fd;
  EXPECT(argc == 2);
  set_variables();
  EXPECT(umap_has_write_support() == 1);
  EXPECT(umap_flush() == 0);
  umap_prefetch(0, NULL);
  check_variables();
  fd = make_file(argv[1], sizeof 'a' == 1 ? "use_everything_cpp.bin" : "use_everything_c.bin");
  write_and_flush(fd);
  prefetch_and_pin(fd);
  map_at_a_place(fd);
  choose_in_code(fd);
  fail_politely(fd);
  close(fd);
  puts("all of umap/umap.h");
  return 0;
}
