#include "own_store_example.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct squares {
  uint64_t count;
};

static int64_t squares_size(void* context) {
  const struct squares* squares = context;
  return (int64_t)(squares->count * sizeof(uint64_t));
}

static int64_t squares_read(void* context, void* buffer, size_t bytes, uint64_t offset) {
  const uint64_t end = (uint64_t)squares_size(context);
  size_t done = 0;
  while (done < bytes && offset + done < end) {
    const uint64_t index = (offset + done) / sizeof(uint64_t);
    const size_t skip = (size_t)((offset + done) % sizeof(uint64_t));
    const uint64_t square = index * index;
    size_t take = sizeof(square) - skip;
    if (take > bytes - done) {
      take = bytes - done;
    }
    memcpy((char*)buffer + done, (const char*)&square + skip, take);
    done += take;
  }
  return (int64_t)done;
}

int squares_store(uint64_t count, struct tiermap_store_functions* functions) {
  struct squares* squares = malloc(sizeof(*squares));
  if (squares == NULL) {
    return -ENOMEM;
  }
  squares->count = count;
  memset(functions, 0, sizeof(*functions));
  functions->struct_bytes = sizeof(*functions);
  functions->flags = TIERMAP_STORE_READS_IN_SIGNAL_HANDLER; /* It only computes. */
  functions->context = squares;
  functions->size = squares_size;
  functions->read = squares_read;
  functions->destroy = free;
  functions->name = "squares";
  return 0;
}
