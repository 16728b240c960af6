// What the extension module is made of: one function a noun, each in a file of its own.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "kernel_cache.hpp"
#include "tiermap/cache.hpp"
#include "tiermap/store.hpp"

namespace tiermap::python {

/// A store that Python holds, until a region takes it over or beside it.
struct StoreHandle {
  std::shared_ptr<Store> store;
};

/// A cache that Python holds.
struct CacheHandle {
  std::unique_ptr<Cache> cache;
  std::shared_ptr<KernelCache> kernel;  ///< For what several processes write.
};

/// Counters and times as {"counters": {...}, "stages": {...}, "budget_bytes": ...}. Needs the GIL.
nanobind::dict statistics_dict(const Statistics& statistics);

void bind_errors(nanobind::module_& module);
void bind_stores(nanobind::module_& module);
void bind_channel_store(nanobind::module_& module);
void bind_cache(nanobind::module_& module);
void bind_region(nanobind::module_& module);
void bind_address_space(nanobind::module_& module);
void bind_heap(nanobind::module_& module);

}  // namespace tiermap::python
