/* What the C interface says to bad input: -1 or NULL, errno, a line with the value; nothing made: bad_input FOLDER. */
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"

enum { mebibyte = 1 << 20 };
static char path[4096];

static struct tiermap_cache* cache_with(void (*change)(struct tiermap_cache_options*)) {
  struct tiermap_cache_options options;
  tiermap_cache_options_init(&options);
  options.budget_bytes = 16 * mebibyte;
  change(&options);
  return tiermap_cache_create(&options);
}
static void tiny_budget(struct tiermap_cache_options* options) {
  options->budget_bytes = 1;
}
static void unknown_mode(struct tiermap_cache_options* options) {
  options->fault_mode = 9;
}
static void unknown_policy(struct tiermap_cache_options* options) {
  options->policy = "best";
}
static void negative_count(struct tiermap_cache_options* options) {
  options->fillers = -2;
}
static void huge_count(struct tiermap_cache_options* options) {
  options->fillers = 1000000;
}
static void odd_flag(struct tiermap_cache_options* options) {
  options->adapt_budget = 2;
}
static void foreign_struct(struct tiermap_cache_options* options) {
  options->struct_bytes = 100000;
}
static void no_init(struct tiermap_cache_options* options) {
  memset(options, 0, sizeof *options);
}

static void bad_caches(void) {
  EXPECT_FAILURE(cache_with(tiny_budget) == NULL, EINVAL, "size 1");
  EXPECT_FAILURE(cache_with(unknown_mode) == NULL, EINVAL, "fault_mode 9");
  EXPECT_FAILURE(cache_with(unknown_policy) == NULL, EINVAL, "best");
  EXPECT_FAILURE(cache_with(negative_count) == NULL, EINVAL, "fillers -2");
  EXPECT_FAILURE(cache_with(huge_count) == NULL, EINVAL, "1000000");
  EXPECT_FAILURE(cache_with(odd_flag) == NULL, EINVAL, "adapt_budget 2");
  EXPECT_FAILURE(cache_with(foreign_struct) == NULL, EINVAL, "struct_bytes 100000");
  EXPECT_FAILURE(cache_with(no_init) == NULL, EINVAL, "struct_bytes 0");
}

static struct tiermap_region* region_with(struct tiermap_cache* cache, void (*change)(struct tiermap_region_options*)) {
  struct tiermap_region_options options;
  tiermap_region_options_init(&options);
  options.writable = 1;
  options.length = mebibyte;
  change(&options);
  struct tiermap_region* region = tiermap_map(cache, path, &options);
  const int error_number = errno;
  EXPECT(region != NULL || access(path, F_OK) != 0); /* Nothing was made. */
  errno = error_number;
  return region;
}
static void odd_page(struct tiermap_region_options* options) {
  options->page_size_bytes = 5000;
}
static void odd_offset(struct tiermap_region_options* options) {
  options->offset = 17;
}
static void odd_address(struct tiermap_region_options* options) {
  options->address = (void*)4097;
}
static void unknown_advice(struct tiermap_region_options* options) {
  options->advice = 7;
}
static void odd_writable(struct tiermap_region_options* options) {
  options->writable = 5;
}
static void negative_read_ahead(struct tiermap_region_options* options) {
  options->read_ahead_bytes = -2;
}
static void used_what_is_unused(struct tiermap_region_options* options) {
  options->unused = 1;
}
static void address_of_the_kernel(struct tiermap_region_options* options) {
  options->address = (void*)0xFFFF800000000000U;
}
static void short_reserve(struct tiermap_region_options* options) {
  options->reserve_bytes = 4096;
}
static void missing_file(struct tiermap_region_options* options) {
  options->length = 0;
}

static void bad_regions(struct tiermap_cache* cache) {
  EXPECT_FAILURE(region_with(cache, odd_page) == NULL, EINVAL, "5000");
  EXPECT_FAILURE(region_with(cache, odd_offset) == NULL, EINVAL, "17");
  EXPECT_FAILURE(region_with(cache, odd_address) == NULL, EINVAL, "address");
  EXPECT_FAILURE(region_with(cache, unknown_advice) == NULL, EINVAL, "advice 7");
  EXPECT_FAILURE(region_with(cache, odd_writable) == NULL, EINVAL, "writable 5");
  EXPECT_FAILURE(region_with(cache, negative_read_ahead) == NULL, EINVAL, "read_ahead_bytes -2");
  EXPECT_FAILURE(region_with(cache, used_what_is_unused) == NULL, EINVAL, "unused 1");
  EXPECT_FAILURE(region_with(cache, address_of_the_kernel) == NULL, ENOMEM, "may not be mapped");
  EXPECT_FAILURE(region_with(cache, short_reserve) == NULL, EINVAL, "reserve");
  EXPECT_FAILURE(region_with(cache, missing_file) == NULL, ENOENT, path);
  EXPECT_FAILURE(tiermap_map(cache, "gopher:///x", NULL) == NULL, EOPNOTSUPP, "gopher");
}

static void null_handles(struct tiermap_cache* cache) {
  const struct tiermap_range range = {0, 4096};
  struct tiermap_statistics statistics;
  EXPECT_FAILURE(tiermap_map(NULL, path, NULL) == NULL, EINVAL, "cache is NULL");
  EXPECT_FAILURE(tiermap_map(cache, NULL, NULL) == NULL, EINVAL, "url is NULL: give a path");
  EXPECT_FAILURE(tiermap_map_store(cache, NULL, NULL) == NULL, EINVAL, "functions is NULL");
  EXPECT_FAILURE(tiermap_cache_budget(NULL) == 0, EINVAL, "cache is NULL");
  EXPECT_FAILURE(tiermap_cache_statistics(cache, NULL) == -1, EINVAL, "statistics is NULL: give the address");
  EXPECT_FAILURE(tiermap_region_statistics(NULL, &statistics) == -1, EINVAL, "region is NULL");
  EXPECT_FAILURE(tiermap_data(NULL) == NULL, EINVAL, "region is NULL");
  EXPECT_FAILURE(tiermap_sync(NULL, range) == -1, EINVAL, "region is NULL");
  /* A message about a NULL handle never holds another one: it would grow with each call. */
  for (int again = 0; again < 100; ++again) {
    EXPECT(tiermap_sync(NULL, range) == -1);
  }
  EXPECT(strlen(tiermap_last_error()) < 300);
  EXPECT_FAILURE(tiermap_prefetch_start(NULL, &range, 1) == NULL, EINVAL, "region is NULL");
  EXPECT_FAILURE(tiermap_prefetch_wait(NULL) == -1, EINVAL, "prefetch is NULL");
  EXPECT(tiermap_unmap(NULL) == 0);
  tiermap_abandon(NULL);
  tiermap_prefetch_free(NULL);
  tiermap_cache_destroy(NULL);
}

static void ranges_outside(struct tiermap_cache* cache) {
  struct tiermap_region* region = tiermap_map_file(cache, path, mebibyte);
  EXPECT(region != NULL);
  const struct tiermap_range outside = {mebibyte - 4096, 8192};
  const struct tiermap_range inside = {0, 4096};
  EXPECT_FAILURE(tiermap_sync(region, outside) == -1, ERANGE, "8192");
  EXPECT_FAILURE(tiermap_pin(region, outside) == -1, ERANGE, "8192");
  EXPECT_FAILURE(tiermap_prefetch_start(region, &outside, 1) == NULL, ERANGE, "8192");
  EXPECT_FAILURE(tiermap_prefetch_start(region, NULL, 1) == NULL, EINVAL, "ranges is NULL");
  EXPECT_FAILURE(tiermap_advise(region, -1, inside) == -1, EINVAL, "advice -1");
  EXPECT_FAILURE(tiermap_resize(region, 0) == -1, EINVAL, "length 0");
  EXPECT(tiermap_size(region) == mebibyte);
  /* A success leaves errno alone. */
  errno = 99;
  EXPECT(tiermap_sync(region, inside) == 0);
  EXPECT(errno == 99);
  EXPECT(tiermap_unmap(region) == 0);
  unlink(path);
}

int main(int count, char** arguments) {
  EXPECT(count == 2);
  snprintf(path, sizeof path, "%s/bad-input-%ld.bin", arguments[1], (long)getpid());
  bad_caches();
  struct tiermap_cache* cache = tiermap_cache_create_with_budget(16 * mebibyte);
  EXPECT(cache != NULL);
  bad_regions(cache);
  null_handles(cache);
  ranges_outside(cache);
  tiermap_cache_destroy(cache);
  return 0;
}
