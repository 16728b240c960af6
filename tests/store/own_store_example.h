/* The C example of docs/how-to/own-store.md. */
#ifndef OWN_STORE_EXAMPLE_H
#define OWN_STORE_EXAMPLE_H

#include "tiermap/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills in `functions` with a read-only store of `count` 64-bit squares, computed when read. Returns 0 or -ENOMEM. */
int squares_store(uint64_t count, struct tiermap_store_functions* functions);

#ifdef __cplusplus
}
#endif

#endif
