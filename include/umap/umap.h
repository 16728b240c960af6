/* The interface of LLNL/umap, served by Tiermap: mmap-like calls that page in user space. For programs that were
 * written for UMap; docs/how-to/programs-for-umap.md says how each call, flag and variable maps to Tiermap, and what
 * differs. New programs are better off with tiermap/tiermap.h or tiermap/tiermap.hpp.
 *
 * Errors: UMAP_FAILED or -1, with errno set. No exception leaves a function, and none ends the process; what a function
 * without a result cannot do is told on standard error, as UMAP_LOG_LEVEL allows.
 *
 * Threads: every function may be called from any thread, not from signal handlers. C99 and later, C++11 and later. */
#ifndef UMAP_UMAP_H
#define UMAP_UMAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "umap/store/Store.hpp"
#define UMAP_NOEXCEPT noexcept
#else
#define UMAP_NOEXCEPT
#endif

/* Flags of umap(). UMAP_PRIVATE is what UMap's programs pass; their writes reach the file all the same. UMAP_FIXED maps
 * at the given address, in place of what is mapped there. */
#define UMAP_PRIVATE MAP_PRIVATE
#define UMAP_FIXED MAP_FIXED

/* What umap() returns on failure. */
#define UMAP_FAILED ((void*)-1)

#ifdef __cplusplus
namespace Umap {

/// As umap(), of a store: its bytes from `offset` on. With a null store, `fd` is mapped. The store must live until the
/// region is unmapped; it stays the caller's.
void* umap_ex(void* addr, std::size_t length, int prot, int flags, int fd, off_t offset, Store* store) noexcept;

}  // namespace Umap

extern "C" {
#endif

/* One page that is to be fetched: any address in it. */
struct umap_prefetch_item {
  void* page_base_addr;
};

/* Maps `length` bytes of the file `fd`, from `offset` (a multiple of 4096) on. `prot` is PROT_READ, or PROT_READ and
 * PROT_WRITE, for which the file has to be open for both. `addr` is a hint, or with UMAP_FIXED where to map. The file
 * may be closed afterwards. */
void* umap(void* addr, size_t length, int prot, int flags, int fd, off_t offset) UMAP_NOEXCEPT;

/* Writes back and unmaps the whole region that begins at `addr`; `length` is not looked at. On failure (EINVAL: no
 * region begins there; else the store's error) it stays mapped. */
int uunmap(void* addr, size_t length) UMAP_NOEXCEPT;

/* Writes back what is dirty in all regions, and makes it durable. */
int umap_flush(void) UMAP_NOEXCEPT;

/* Whether regions can be written: 1. */
int umap_has_write_support(void) UMAP_NOEXCEPT;

/* Starts to fetch `npages` pages, of any regions, in the background. */
void umap_prefetch(int npages, struct umap_prefetch_item* page_array) UMAP_NOEXCEPT;

/* Fetches the pages of a range, which has to lie in one region, and keeps them in memory until the region is unmapped.
 * What the buffer cannot hold for good is fetched only; errno is ENOMEM then. */
void umap_fetch_and_pin(char* paddr, uint64_t size) UMAP_NOEXCEPT;

/* What is in effect: UMAP_... variables, what was set below, or defaults. */
long umapcfg_get_system_page_size(void) UMAP_NOEXCEPT;
uint64_t umapcfg_get_umap_page_size(void) UMAP_NOEXCEPT;        /* Bytes. */
uint64_t umapcfg_get_max_fault_events(void) UMAP_NOEXCEPT;      /* Messages read at once. */
uint64_t umapcfg_get_num_fillers(void) UMAP_NOEXCEPT;           /* Threads. */
uint64_t umapcfg_get_num_evictors(void) UMAP_NOEXCEPT;          /* Threads. */
uint64_t umapcfg_get_max_pages_in_buffer(void) UMAP_NOEXCEPT;   /* Pages. */
uint64_t umapcfg_get_read_ahead(void) UMAP_NOEXCEPT;            /* Pages. */
int umapcfg_get_evict_low_water_threshold(void) UMAP_NOEXCEPT;  /* Percent. */
int umapcfg_get_evict_high_water_threshold(void) UMAP_NOEXCEPT; /* Percent. */

/* Win over the variables. The page size and the read-ahead are those of regions mapped from then on; the buffer changes
 * at once; the rest when no region is mapped and the next one is. A value that cannot be used changes nothing, and sets
 * errno to EINVAL. */
void umapcfg_set_umap_page_size(uint64_t page_size) UMAP_NOEXCEPT;
void umapcfg_set_max_fault_events(uint64_t max_events) UMAP_NOEXCEPT;
void umapcfg_set_num_fillers(uint64_t num_fillers) UMAP_NOEXCEPT;
void umapcfg_set_num_evictors(uint64_t num_evictors) UMAP_NOEXCEPT;
void umapcfg_set_max_pages_in_buffer(uint64_t max_pages) UMAP_NOEXCEPT;
void umapcfg_set_read_ahead(uint64_t num_pages) UMAP_NOEXCEPT;
void umapcfg_set_evict_low_water_threshold(int percent) UMAP_NOEXCEPT;
void umapcfg_set_evict_high_water_threshold(int percent) UMAP_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#undef UMAP_NOEXCEPT

#endif
