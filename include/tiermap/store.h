/* A backing store as a table of C functions, for programs that have no C++ class to derive. docs/how-to/own-store.md
 * works an example. */
#ifndef TIERMAP_STORE_H
#define TIERMAP_STORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of tiermap_store_functions.flags. */
enum {
  /* A write beyond size() makes the store larger rather than failing. */
  TIERMAP_STORE_GROWABLE = 1,
  /* read() neither blocks for long, nor allocates, nor locks: a faulting thread may call it in its signal handler. */
  TIERMAP_STORE_READS_IN_SIGNAL_HANDLER = 2
};

/* What a store can do. The functions are called from several threads at once, never twice at once for overlapping
 * ranges of which one is a write. Each gets `context` first. Failure is a negative errno value such as -EIO. Members
 * that are NULL or 0 take the default that is named; size and read have none. Set the whole table to zero first, then
 * struct_bytes. */
struct tiermap_store_functions {
  uint32_t struct_bytes; /* sizeof(struct tiermap_store_functions), so that later versions can add members. */
  uint32_t flags;        /* TIERMAP_STORE_... */
  void* context;

  /* Current size in bytes. Must not block. */
  int64_t (*size)(void* context);

  /* Copies up to `bytes` bytes from `offset` into `buffer`. Returns how many: fewer only where the store ends (what is
   * missing is taken as zeros) or after an interruption (the rest is asked for again; 0 means the end). */
  int64_t (*read)(void* context, void* buffer, size_t bytes, uint64_t offset);

  /* Copies `bytes` bytes to `offset`. Returns how many; the rest is asked for again. NULL: the store is read-only. */
  int64_t (*write)(void* context, const void* buffer, size_t bytes, uint64_t offset);

  /* Makes everything written so far durable. Returns 0. NULL: there is nothing to do. */
  int (*flush)(void* context);

  /* Changes the size: what is cut off is lost, what is added reads as zero. Returns 0. NULL: -ENOTSUP. */
  int (*resize)(void* context, uint64_t bytes);

  /* Called once, when the store is closed and nothing else will be called. NULL: nothing. */
  void (*destroy)(void* context);

  /* What messages call it; copied. NULL: "functions". */
  const char* name;

  /* How many calls of read, and of write, the store likes at once. 0: no cap. */
  uint32_t max_reads_in_flight;
  uint32_t max_writes_in_flight;
};

#ifdef __cplusplus
}
#endif

#endif
