#include <inttypes.h>
#include <stdio.h>
#include <tiermap/tiermap.h>

int main(void) {
  struct tiermap_cache* cache = tiermap_cache_create_with_budget(64 << 20);
  struct tiermap_region* region = tiermap_map_file(cache, "example.bin", 256 << 20);
  if (region == NULL) return fprintf(stderr, "%s\n", tiermap_last_error()), 1;
  uint64_t *words = tiermap_data(region), count = tiermap_size(region) / sizeof *words;
  for (uint64_t i = 0; i < count; ++i) words[i] = i;
  if (tiermap_sync_all(region) != 0) return fprintf(stderr, "%s\n", tiermap_last_error()), 1;
  printf("%" PRIu64 " words in 64 MiB of memory, the last one is %" PRIu64 "\n", count, words[count - 1]);
  tiermap_unmap(region);
  tiermap_cache_destroy(cache);
}
