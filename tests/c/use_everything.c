/* Every function of the C interface against real files: use_everything FOLDER FAULT_MODE. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"

enum { mebibyte = 1 << 20 };
static char path[4096];

static struct tiermap_cache* make_cache(int fault_mode) {
  struct tiermap_cache_options options;
  tiermap_cache_options_init(&options);
  options.fault_mode = fault_mode;
  options.budget_bytes = 16 * mebibyte;
  options.policy = "fifo";
  options.name = "use-everything";
  options.fillers = 2;
  options.publish_statistics = 0;
  struct tiermap_cache* cache = tiermap_cache_create(&options);
  EXPECT(cache != NULL);
  EXPECT(tiermap_cache_fault_mode(cache) == fault_mode);
  EXPECT(strlen(tiermap_cache_fault_mode_reason(cache)) > 0);
  EXPECT(tiermap_cache_budget(cache) == 16 * mebibyte);
  EXPECT(tiermap_cache_minimum_budget(cache) > 0);
  EXPECT(tiermap_cache_minimum_budget(cache) <= 16 * mebibyte);
  return cache;
}

static struct tiermap_region* map_writable(struct tiermap_cache* cache, uint64_t length) {
  struct tiermap_region_options options;
  tiermap_region_options_init(&options);
  options.writable = 1;
  options.length = length;
  options.reserve_bytes = 2 * length;
  options.page_size_bytes = 65536;
  options.read_ahead_bytes = 0;
  struct tiermap_region* region = tiermap_map(cache, path, &options);
  EXPECT(region != NULL);
  EXPECT(tiermap_data(region) != NULL);
  EXPECT(tiermap_size(region) == length);
  EXPECT(tiermap_page_size(region) == 65536);
  return region;
}

/* Reads the file behind the mapping's back. */
static uint64_t word_in_file(uint64_t index) {
  uint64_t word = 0;
  const int file = open(path, O_RDONLY);
  EXPECT(file >= 0);
  EXPECT(pread(file, &word, sizeof word, (off_t)(index * sizeof word)) == (ssize_t)sizeof word);
  close(file);
  return word;
}

static void write_and_read_back(struct tiermap_cache* cache) {
  const uint64_t bytes = 64 * mebibyte;
  struct tiermap_region* region = map_writable(cache, bytes);
  uint64_t* words = tiermap_data(region);
  const uint64_t count = bytes / sizeof *words;
  for (uint64_t i = 0; i < count; ++i) words[i] = i * 3;
  const struct tiermap_range first = {0, mebibyte};
  EXPECT(tiermap_flush(region, first) == 0);
  EXPECT(tiermap_flush_all(region) == 0);
  EXPECT(tiermap_sync(region, first) == 0);
  EXPECT(word_in_file(5) == 15);
  EXPECT(tiermap_sync_all(region) == 0);
  EXPECT(word_in_file(count - 1) == (count - 1) * 3);
  for (uint64_t i = 0; i < count; i += 511) EXPECT(words[i] == i * 3);

  EXPECT(tiermap_resize(region, bytes + mebibyte) == 0);
  EXPECT(tiermap_size(region) == bytes + mebibyte);
  words[count] = 77;
  EXPECT(tiermap_sync_all(region) == 0);
  EXPECT(word_in_file(count) == 77);
  EXPECT(tiermap_unmap(region) == 0);
}

static void prefetch_pin_and_advise(struct tiermap_cache* cache) {
  struct tiermap_region* region = tiermap_map(cache, path, NULL);
  EXPECT(region != NULL);
  const uint64_t page = tiermap_page_size(region);
  const struct tiermap_range ranges[] = {{0, page}, {8 * page, 2 * page}};
  struct tiermap_prefetch* prefetch = tiermap_prefetch_start(region, ranges, 2);
  EXPECT(prefetch != NULL);
  EXPECT(tiermap_prefetch_wait(prefetch) == 3);
  EXPECT(tiermap_prefetch_done(prefetch) == 1);
  tiermap_prefetch_free(prefetch);

  EXPECT(tiermap_pin(region, ranges[0]) == 0);
  EXPECT(tiermap_unpin(region, ranges[0]) == 0);
  EXPECT_FAILURE(tiermap_unpin(region, ranges[0]) == -1, EINVAL, "pin");
  const struct tiermap_range all = {0, tiermap_size(region)};
  EXPECT_FAILURE(tiermap_pin(region, all) == -1, ENOMEM, "pin");
  for (int advice = TIERMAP_ADVICE_NORMAL; advice <= TIERMAP_ADVICE_HOT; ++advice) {
    EXPECT(tiermap_advise(region, advice, ranges[0]) == 0);
  }
  EXPECT(tiermap_discard(region, ranges[0]) == 0);
  EXPECT(((const uint64_t*)tiermap_data(region))[7] == 21);
  tiermap_abandon(region);
}

static void private_copy(struct tiermap_cache* cache) {
  struct tiermap_region_options options;
  tiermap_region_options_init(&options);
  options.writable = 1;
  options.private_copy = 1;
  struct tiermap_region* region = tiermap_map(cache, path, &options);
  EXPECT(region != NULL);
  uint64_t* words = tiermap_data(region);
  words[7] = 1;
  EXPECT(tiermap_sync_all(region) == 0);
  EXPECT(word_in_file(7) == 21);
  EXPECT(tiermap_unmap(region) == 0);
}

/* An address for 2 MiB that nobody else's mmap chooses: the kernel takes the highest room that something fits into, and
 * there is ampler room above. */
static void* free_address(void) {
  const size_t gap_bytes = 2 * mebibyte;
  const size_t room_bytes = (size_t)4 << 30;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  char* mapped = mmap(NULL, 4 * gap_bytes + room_bytes, PROT_NONE, flags, -1, 0);
  EXPECT(mapped != MAP_FAILED);
  EXPECT(munmap(mapped + 4 * gap_bytes, room_bytes) == 0);
  char* gap = mapped + 2 * gap_bytes - (uintptr_t)mapped % gap_bytes;
  EXPECT(munmap(gap, gap_bytes) == 0);
  return gap;
}

/* Bytes from the file's middle, at an address of the program's choice, written when it says so. */
static void chosen_place(struct tiermap_cache* cache) {
  const uint64_t first = 3 * 4096 / sizeof(uint64_t);
  const int kernel_serves = tiermap_cache_fault_mode(cache) == TIERMAP_FAULT_KERNEL; /* And it writes when it likes. */
  struct tiermap_region_options options;
  tiermap_region_options_init(&options);
  options.writable = 1;
  options.offset = first * sizeof(uint64_t);
  options.length = mebibyte;
  options.page_size_bytes = 16384;
  options.address = free_address();
  options.manual_flush = 1;
  if (kernel_serves) {
    EXPECT_FAILURE(tiermap_map(cache, path, &options) == NULL, EINVAL, "manual_flush");
    options.manual_flush = 0;
  }
  for (uint64_t value = 1; value <= 2; ++value) {
    struct tiermap_region* region = tiermap_map(cache, path, &options);
    EXPECT(region != NULL);
    uint64_t* words = tiermap_data(region);
    EXPECT((void*)words == options.address);
    EXPECT(tiermap_size(region) == mebibyte);
    EXPECT(words[6] == (first + 6) * 3);
    words[5] = value;
    if (value == 2) EXPECT(tiermap_sync_all(region) == 0);
    EXPECT(tiermap_unmap(region) == 0);
    EXPECT(word_in_file(first + 5) == (value == 2 || kernel_serves ? value : (first + 5) * 3));
  }
}

static void statistics_and_budget(struct tiermap_cache* cache) {
  struct tiermap_region* region = tiermap_map(cache, path, NULL);
  EXPECT(region != NULL);
  uint64_t sum = 0;
  for (uint64_t at = 0; at < tiermap_size(region); at += 4096) sum += ((const unsigned char*)tiermap_data(region))[at];
  EXPECT(sum > 0);
  struct tiermap_statistics statistics;
  EXPECT(tiermap_cache_statistics(cache, &statistics) == 0);
  EXPECT(statistics.budget_bytes == 16 * mebibyte);
  EXPECT(statistics.resident_bytes > 0);
  EXPECT(statistics.counter_count > 10);
  EXPECT(strcmp(tiermap_counter_name(0), "read_faults") == 0);
  EXPECT(tiermap_counter_name(statistics.counter_count) == NULL);
  EXPECT(tiermap_counter(&statistics, "read_faults") == statistics.counters[0]);
  EXPECT(statistics.counters[0] > 0);
  EXPECT_FAILURE(tiermap_counter(&statistics, "naps") == 0, EINVAL, "naps");
  uint64_t timed = 0;
  for (uint32_t stage = 0; stage < statistics.stage_count; ++stage) {
    for (size_t bucket = 0; strcmp(tiermap_stage_name(stage), "total") == 0 && bucket < 40; ++bucket) {
      timed += statistics.stages[stage][bucket];
    }
  }
  const int kernel_serves = tiermap_cache_fault_mode(cache) == TIERMAP_FAULT_KERNEL; /* And it times nothing. */
  EXPECT((timed > 0) == !kernel_serves);
  EXPECT(tiermap_stage_name(statistics.stage_count) == NULL);
  EXPECT((tiermap_stage_nanoseconds(&statistics, "total", 0.5) > 0) == !kernel_serves);
  EXPECT(tiermap_stage_nanoseconds(&statistics, "total", 0.5) <= tiermap_stage_nanoseconds(&statistics, "total", 1));
  EXPECT_FAILURE(tiermap_stage_nanoseconds(&statistics, "nap", 0.5) == 0, EINVAL, "nap");
  EXPECT_FAILURE(tiermap_stage_nanoseconds(&statistics, "total", 50) == 0, EINVAL, "share 50");
  EXPECT(tiermap_region_statistics(region, &statistics) == 0);
  EXPECT(tiermap_unmap(region) == 0);

  EXPECT(tiermap_cache_set_budget(cache, 8 * mebibyte) == 0);
  EXPECT(tiermap_cache_budget(cache) == 8 * mebibyte);
  EXPECT_FAILURE(tiermap_cache_set_budget(cache, 1) == -1, EINVAL, "budget");
  EXPECT(tiermap_cache_budget(cache) == 8 * mebibyte);
}

int main(int count, char** arguments) {
  EXPECT(count == 3);
  EXPECT(strcmp(tiermap_last_error(), "") == 0);
  EXPECT(strncmp(tiermap_version(), "0.", 2) == 0);
  snprintf(path, sizeof path, "%s/use-everything-%ld.bin", arguments[1], (long)getpid());
  const int fault_mode = strcmp(arguments[2], "kernel") == 0   ? TIERMAP_FAULT_KERNEL
                         : strcmp(arguments[2], "notify") == 0 ? TIERMAP_FAULT_NOTIFY
                                                               : TIERMAP_FAULT_SELF_SERVING;
  struct tiermap_cache* cache = make_cache(fault_mode);
  write_and_read_back(cache);
  prefetch_pin_and_advise(cache);
  private_copy(cache);
  chosen_place(cache);
  statistics_and_budget(cache);
  tiermap_cache_destroy(cache);
  unlink(path);

  /* Why there is no cache is not forgotten. */
  EXPECT(tiermap_cache_create_with_budget(5) == NULL);
  EXPECT_FAILURE(tiermap_map_file(NULL, path, mebibyte) == NULL, EINVAL, "buffer size 5");

  /* Regions outlive their cache. */
  cache = tiermap_cache_create_with_budget(16 * mebibyte);
  EXPECT(cache != NULL);
  struct tiermap_region* region = tiermap_map_file(cache, path, mebibyte);
  EXPECT(region != NULL);
  tiermap_cache_destroy(cache);
  ((char*)tiermap_data(region))[mebibyte - 1] = 'x';
  EXPECT(tiermap_unmap(region) == 0);
  unlink(path);
  return 0;
}
