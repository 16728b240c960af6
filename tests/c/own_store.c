/* A store of the program's own functions, mapped through the C interface: own_store FAULT_MODE. */
#include "expect.h"

enum { bytes_in_store = 3 << 20 };

struct counted_store {
  unsigned char bytes[bytes_in_store];
  int destroyed;
};

static int64_t size_of_store(void* context) {
  (void)context;
  return bytes_in_store;
}

static int64_t read_store(void* context, void* buffer, size_t bytes, uint64_t offset) {
  const struct counted_store* store = context;
  if (offset >= bytes_in_store) return 0;
  const size_t left = bytes_in_store - (size_t)offset;
  const size_t take = bytes < left ? bytes : left;
  memcpy(buffer, store->bytes + offset, take);
  return (int64_t)take;
}

static int64_t write_store(void* context, const void* buffer, size_t bytes, uint64_t offset) {
  struct counted_store* store = context;
  if (offset >= bytes_in_store) return -ENOSPC;
  const size_t left = bytes_in_store - (size_t)offset;
  const size_t take = bytes < left ? bytes : left;
  memcpy(store->bytes + offset, buffer, take);
  return (int64_t)take;
}

static void count_destroy(void* context) {
  ++((struct counted_store*)context)->destroyed;
}

static void fill_functions(struct tiermap_store_functions* functions, struct counted_store* store) {
  memset(functions, 0, sizeof *functions);
  functions->struct_bytes = sizeof *functions;
  functions->context = store;
  functions->size = size_of_store;
  functions->read = read_store;
  functions->write = write_store;
  functions->destroy = count_destroy;
  functions->name = "counted store";
}

static void maps(struct tiermap_cache* cache, struct counted_store* store) {
  struct tiermap_store_functions functions;
  struct tiermap_region_options options;
  fill_functions(&functions, store);
  tiermap_region_options_init(&options);
  options.writable = 1;
  struct tiermap_region* region = tiermap_map_store(cache, &functions, &options);
  EXPECT(region != NULL);
  unsigned char* bytes = tiermap_data(region);
  EXPECT(tiermap_size(region) == bytes_in_store);
  EXPECT(bytes[12345] == (unsigned char)12345);
  bytes[12345] = 1;
  EXPECT(tiermap_sync_all(region) == 0);
  EXPECT(store->bytes[12345] == 1);
  EXPECT(store->destroyed == 0);
  EXPECT(tiermap_unmap(region) == 0);
}

int main(int count, char** arguments) {
  EXPECT(count == 2);
  const int kernel = strcmp(arguments[1], "kernel") == 0;
  struct counted_store* store = calloc(1, sizeof *store);
  EXPECT(store != NULL);
  for (int i = 0; i < bytes_in_store; ++i) store->bytes[i] = (unsigned char)i;
  struct tiermap_cache_options options;
  tiermap_cache_options_init(&options);
  options.budget_bytes = 16 << 20;
  options.fault_mode = kernel ? TIERMAP_FAULT_KERNEL : TIERMAP_NOT_SET;
  struct tiermap_cache* cache = tiermap_cache_create(&options);
  EXPECT(cache != NULL);
  struct tiermap_store_functions functions;
  fill_functions(&functions, store);
  if (kernel) {
    EXPECT_FAILURE(tiermap_map_store(cache, &functions, NULL) == NULL, EINVAL, "counted store");
    EXPECT(store->destroyed == 0);
  } else {
    maps(cache, store);
    functions.read = NULL;
    EXPECT_FAILURE(tiermap_map_store(cache, &functions, NULL) == NULL, EINVAL, "read");
  }
  tiermap_cache_destroy(cache);
  EXPECT(store->destroyed == (kernel ? 0 : 1));
  free(store);
  return 0;
}
