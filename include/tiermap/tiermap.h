/* Tiermap's C interface. Bytes of a store as an address range, under an exact budget of memory.
 * docs/how-to/use-from-c.md is the tour; the C++ headers say the same things at more length.
 *
 * Errors: a function that returns int gives 0, or -1; one that returns a pointer gives NULL on failure. Then errno
 * says what kind of failure it was (EINVAL for a value that cannot be used) and tiermap_last_error() gives one line
 * that names the value and the remedy. No C++ exception ever leaves a function.
 *
 * Threads: every function may be called from any thread, but not while another thread ends, resizes or frees what it
 * is given. C99 and later, and C++. */
#ifndef TIERMAP_TIERMAP_H
#define TIERMAP_TIERMAP_H

#include <stddef.h>
#include <stdint.h>

#include "tiermap/store.h"

#ifdef __cplusplus
#define TIERMAP_NOEXCEPT noexcept
extern "C" {
#else
#define TIERMAP_NOEXCEPT
#endif

/* Owns memory and threads. */
struct tiermap_cache;
/* An address range served by a cache. */
struct tiermap_region;
/* Completion of a prefetch. */
struct tiermap_prefetch;

/* How an access to an absent page reaches Tiermap. */
enum tiermap_fault_mode {
  TIERMAP_FAULT_AUTOMATIC = 0,    /* The best of the others that this machine allows. */
  TIERMAP_FAULT_NOTIFY = 1,       /* userfaultfd messages; serves system calls as well. */
  TIERMAP_FAULT_SELF_SERVING = 2, /* The faulting thread serves itself; system calls on absent pages get EFAULT. */
  TIERMAP_FAULT_KERNEL = 3        /* Plain mmap of plain files, kept near the budget. */
};

/* How a filled page is put into place. */
enum tiermap_placement { TIERMAP_PLACEMENT_AUTOMATIC = 0, TIERMAP_PLACEMENT_MOVE = 1, TIERMAP_PLACEMENT_COPY = 2 };

/* What the program is about to do with a range. */
enum tiermap_advice {
  TIERMAP_ADVICE_NORMAL = 0,     /* Detect streams and read ahead of them. */
  TIERMAP_ADVICE_SEQUENTIAL = 1, /* Read ahead at full width, give up what is behind the reader first. */
  TIERMAP_ADVICE_RANDOM = 2,     /* Never read ahead. */
  TIERMAP_ADVICE_WILL_NEED = 3,  /* Fetch in the background. */
  TIERMAP_ADVICE_DONT_NEED = 4,  /* Write back, then free the memory. */
  TIERMAP_ADVICE_COLD = 5,       /* Evict before others. */
  TIERMAP_ADVICE_HOT = 6         /* Evict after others. */
};

/* For members that may be left to the environment (TIERMAP_...), the YAML file and the default: not set here. */
#define TIERMAP_NOT_SET (-1)

/* Options of a cache. Always start with tiermap_cache_options_init(); what is not set comes from the environment, then
 * from the file that TIERMAP_CONFIG names, then from the default. docs/reference.md lists ranges and defaults. */
struct tiermap_cache_options {
  uint32_t struct_bytes;     /* Set by tiermap_cache_options_init(). */
  int32_t fault_mode;        /* enum tiermap_fault_mode, or TIERMAP_NOT_SET. */
  uint64_t budget_bytes;     /* Memory for pages and their bookkeeping; 0: not set. */
  const char* policy;        /* Such as "hot-fifo"; NULL: not set. */
  const char* name;          /* Shown by `tiermap top`; NULL: not set. */
  int32_t placement;         /* enum tiermap_placement, or TIERMAP_NOT_SET. */
  int32_t hot_share_percent; /* This and all that follow: TIERMAP_NOT_SET, or a value. */
  int32_t unmapped_share_percent;
  int32_t high_watermark_percent;
  int32_t low_watermark_percent;
  int32_t fillers;
  int32_t evictors;
  int32_t managers;
  int32_t max_fault_events;
  int32_t shards;
  int32_t spin_microseconds;
  int32_t adapt_budget; /* 0 or 1. */
  int32_t adapt_history_periods;
  int32_t adapt_forecast_periods;
  int32_t adapt_period_milliseconds;
  int32_t publish_statistics; /* 0 or 1. */
  const char* trace_file;     /* Accesses are recorded there; NULL: not set. */
};

/* Options of a region. Always start with tiermap_region_options_init(): then it is a shared, read-only map of the whole
 * store. */
struct tiermap_region_options {
  uint32_t struct_bytes;    /* Set by tiermap_region_options_init(). */
  int32_t writable;         /* 1: reads and writes. With a URL and a length, a store that does not exist is made. */
  int32_t private_copy;     /* 1: writes never reach the store. */
  int32_t manual_flush;     /* 1: nothing reaches the store until tiermap_sync() or tiermap_flush(). */
  int32_t advice;           /* enum tiermap_advice, one of the first four. */
  int32_t unused;           /* 0. */
  uint64_t offset;          /* First byte of the store; a multiple of 4096. */
  uint64_t length;          /* Bytes to map; 0: to the store's end. */
  uint64_t reserve_bytes;   /* Address space kept for tiermap_resize(); 0: just the length. */
  void* address;            /* Where to map; NULL: anywhere. */
  uint64_t page_size_bytes; /* A power of two from 4096 to 64 MiB; 0: it follows the access. */
  int64_t read_ahead_bytes; /* 0: never read ahead; TIERMAP_NOT_SET. */
};

/* A piece of a region, in bytes from its start. It is rounded out to whole pages; one that leaves the region is an
 * error (ERANGE). */
struct tiermap_range {
  uint64_t offset;
  uint64_t bytes;
};

/* What a cache or a region did. counters[i] is what tiermap_counter_name(i) says, for i below counter_count. */
struct tiermap_statistics {
  uint32_t counter_count;
  uint32_t stage_count;
  uint64_t budget_bytes;
  uint64_t resident_bytes; /* In memory. */
  uint64_t mapped_bytes;   /* Of those, in the program's address range. */
  uint64_t dirty_bytes;    /* Changed since they were last written back, or taken to be. */
  uint64_t counters[58];
  /* How long the stages of serving a fault took: [i] counts those of at least 2^i and under 2^(i+1) nanoseconds. */
  uint64_t stages[6][40];
};

/* ---- Caches ---- */

/* Sets every member to "not set". `bytes` is sizeof(struct tiermap_cache_options) as the caller knows it, which the
 * functions below fill in. */
void tiermap_cache_options_init_sized(struct tiermap_cache_options* options, size_t bytes) TIERMAP_NOEXCEPT;
void tiermap_region_options_init_sized(struct tiermap_region_options* options, size_t bytes) TIERMAP_NOEXCEPT;
static inline void tiermap_cache_options_init(struct tiermap_cache_options* options) {
  tiermap_cache_options_init_sized(options, sizeof *options);
}
static inline void tiermap_region_options_init(struct tiermap_region_options* options) {
  tiermap_region_options_init_sized(options, sizeof *options);
}

/* Makes a cache. `options` may be NULL: nothing set. */
struct tiermap_cache* tiermap_cache_create(const struct tiermap_cache_options* options) TIERMAP_NOEXCEPT;
/* The same with a budget and nothing else set. */
struct tiermap_cache* tiermap_cache_create_with_budget(uint64_t budget_bytes) TIERMAP_NOEXCEPT;
/* Gives the cache up. Regions that are still mapped go on working until they are unmapped. NULL is let pass. */
void tiermap_cache_destroy(struct tiermap_cache* cache) TIERMAP_NOEXCEPT;

/* The budget in bytes; 0 on error. */
uint64_t tiermap_cache_budget(const struct tiermap_cache* cache) TIERMAP_NOEXCEPT;
/* The least that can serve the regions mapped now; 0 on error. */
uint64_t tiermap_cache_minimum_budget(const struct tiermap_cache* cache) TIERMAP_NOEXCEPT;
/* Changes the budget. EINVAL if it is under the least that can serve what is mapped and pinned, ENOMEM if pages that
 * cannot be written stand in the way; the old one stays then. */
int tiermap_cache_set_budget(struct tiermap_cache* cache, uint64_t bytes) TIERMAP_NOEXCEPT;
/* The engine in use, never TIERMAP_FAULT_AUTOMATIC; -1 on error. */
int tiermap_cache_fault_mode(const struct tiermap_cache* cache) TIERMAP_NOEXCEPT;
/* One line on why, and what would give more. Lives as long as the cache. */
const char* tiermap_cache_fault_mode_reason(const struct tiermap_cache* cache) TIERMAP_NOEXCEPT;
/* The sum over all regions, those unmapped since included. */
int tiermap_cache_statistics(const struct tiermap_cache* cache, struct tiermap_statistics* statistics) TIERMAP_NOEXCEPT;

/* ---- Regions ---- */

/* Maps what a URL or a plain path names. `options` may be NULL: the whole store, read-only. */
struct tiermap_region* tiermap_map(struct tiermap_cache* cache, const char* url,
                                   const struct tiermap_region_options* options) TIERMAP_NOEXCEPT;
/* Maps a store of the caller's. The table is copied. functions->destroy is called once, when the region is unmapped and
 * the cache done with it; after a failure here it is not called, and the context is still the caller's. */
struct tiermap_region* tiermap_map_store(struct tiermap_cache* cache, const struct tiermap_store_functions* functions,
                                         const struct tiermap_region_options* options) TIERMAP_NOEXCEPT;
/* Maps the first `length` bytes of a file for reading and writing, and makes the file if it does not exist. */
struct tiermap_region* tiermap_map_file(struct tiermap_cache* cache, const char* path,
                                        uint64_t length) TIERMAP_NOEXCEPT;

/* Writes back, unmaps and frees the handle; not durable without tiermap_sync(). On failure the region stays mapped and
 * the handle valid. NULL is let pass. */
int tiermap_unmap(struct tiermap_region* region) TIERMAP_NOEXCEPT;
/* Unmaps and frees the handle whatever happens; what could not be written is lost. NULL is let pass. */
void tiermap_abandon(struct tiermap_region* region) TIERMAP_NOEXCEPT;

/* First byte, bytes mapped, and the page size. NULL or 0 on error. */
void* tiermap_data(const struct tiermap_region* region) TIERMAP_NOEXCEPT;
uint64_t tiermap_size(const struct tiermap_region* region) TIERMAP_NOEXCEPT;
uint64_t tiermap_page_size(const struct tiermap_region* region) TIERMAP_NOEXCEPT;

/* Starts to fetch `count` ranges in the background, in their order. Free what it returns; that does not stop it. */
struct tiermap_prefetch* tiermap_prefetch_start(struct tiermap_region* region, const struct tiermap_range* ranges,
                                                size_t count) TIERMAP_NOEXCEPT;
/* Waits until every page was fetched or given up. Returns how many are in memory for it or were before, or -1. */
int64_t tiermap_prefetch_wait(struct tiermap_prefetch* prefetch) TIERMAP_NOEXCEPT;
/* 1 if tiermap_prefetch_wait() would return at once, else 0; -1 on error. */
int tiermap_prefetch_done(const struct tiermap_prefetch* prefetch) TIERMAP_NOEXCEPT;
void tiermap_prefetch_free(struct tiermap_prefetch* prefetch) TIERMAP_NOEXCEPT;

/* Fetches a range and keeps it in memory until as many tiermap_unpin(). ENOMEM, and nothing is pinned, if the budget
 * cannot hold it. */
int tiermap_pin(struct tiermap_region* region, struct tiermap_range range) TIERMAP_NOEXCEPT;
int tiermap_unpin(struct tiermap_region* region, struct tiermap_range range) TIERMAP_NOEXCEPT;
/* `advice` is an enum tiermap_advice. The first three say how the program reads: they hold for the whole region,
 * whatever the range, until the next of them (in fault mode kernel for the range). The others are done once, to the
 * range. */
int tiermap_advise(struct tiermap_region* region, int advice, struct tiermap_range range) TIERMAP_NOEXCEPT;
/* Writes back what is dirty of a range and makes it durable. On failure it stays dirty. */
int tiermap_sync(struct tiermap_region* region, struct tiermap_range range) TIERMAP_NOEXCEPT;
int tiermap_sync_all(struct tiermap_region* region) TIERMAP_NOEXCEPT;
/* Starts to write back, without waiting. */
int tiermap_flush(struct tiermap_region* region, struct tiermap_range range) TIERMAP_NOEXCEPT;
int tiermap_flush_all(struct tiermap_region* region) TIERMAP_NOEXCEPT;
/* Drops a range from memory, dirty pages unwritten. */
int tiermap_discard(struct tiermap_region* region, struct tiermap_range range) TIERMAP_NOEXCEPT;
/* Changes the length without moving. */
int tiermap_resize(struct tiermap_region* region, uint64_t length) TIERMAP_NOEXCEPT;
int tiermap_region_statistics(const struct tiermap_region* region,
                              struct tiermap_statistics* statistics) TIERMAP_NOEXCEPT;

/* ---- Names and errors ---- */

/* Such as "read_faults"; NULL from counter_count on. */
const char* tiermap_counter_name(uint32_t index) TIERMAP_NOEXCEPT;
/* The counter of that name; 0, and errno EINVAL, for an unknown one. */
uint64_t tiermap_counter(const struct tiermap_statistics* statistics, const char* name) TIERMAP_NOEXCEPT;
/* Such as "read"; NULL from stage_count on. */
const char* tiermap_stage_name(uint32_t index) TIERMAP_NOEXCEPT;
/* The nanoseconds that a share (0 to 1) of the faults did not exceed in the stage of that name, to a factor of two; 0
 * if none was counted; 0, and errno EINVAL, for an unknown stage or another share. */
uint64_t tiermap_stage_nanoseconds(const struct tiermap_statistics* statistics, const char* name,
                                   double share) TIERMAP_NOEXCEPT;
/* Why the last function that failed in this thread did; "" if none has. Valid until the next failure in this thread. */
const char* tiermap_last_error(void) TIERMAP_NOEXCEPT;
/* The library's, such as "0.1.0". */
const char* tiermap_version(void) TIERMAP_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
