// The C interface: each function hands on to the C++ one, and lets no exception out.
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "region/c_errors.hpp"
#include "region/c_options.hpp"
#include "store/callback_store.hpp"
#include "tiermap/cache.hpp"
#include "tiermap/error.hpp"
#include "tiermap/tiermap.h"
#include "tiermap/version.hpp"

struct tiermap_cache {
  tiermap::Cache cache;
};

struct tiermap_region {
  tiermap::Region region;
};

struct tiermap_prefetch {
  tiermap::Prefetch prefetch;
};

namespace {

using tiermap::without_exceptions;

/// What is the caller's own to give, and no handle that a function has made.
template <typename Value>
Value& given(Value* value, const char* what, const char* remedy) {
  if (value == nullptr) {
    throw tiermap::OptionError(std::string(what) + " is NULL: give " + remedy);
  }
  return *value;
}

template <typename Statistics>
Statistics& given_statistics(Statistics* statistics) {
  return given(statistics, "statistics", "the address of a tiermap_statistics");
}

template <typename Handle>
Handle& checked(Handle* handle, const char* what) {
  if (handle == nullptr) {
    const std::string remedy = " is NULL: give what the function that makes it returned";
    // Most often because what was to make it failed, and nobody looked. A message of this kind says it already.
    const std::string failure = tiermap::kept_error();
    const bool tells_more = !failure.empty() && failure.find(remedy) == std::string::npos;
    throw tiermap::OptionError(what + remedy + (tells_more ? "; the failure before this one: " + failure : ""));
  }
  return *handle;
}

tiermap::ByteRange range_from(tiermap_range range) {
  return {range.offset, range.bytes};
}

/// For functions that only do something.
template <typename Body>
int status_of(Body&& body) noexcept {
  return without_exceptions(-1, [&] {
    std::forward<Body>(body)();
    return 0;
  });
}

void copy_statistics(const tiermap::Statistics& from, tiermap_statistics& to) {
  static_assert(tiermap::counter_count <= sizeof to.counters / sizeof to.counters[0]);
  to = {};
  to.counter_count = static_cast<std::uint32_t>(tiermap::counter_count);
  to.budget_bytes = from.budget_bytes;
  to.resident_bytes = from.resident_bytes;
  to.mapped_bytes = from.mapped_bytes;
  to.dirty_bytes = from.dirty_bytes;
  std::memcpy(to.counters, from.counters.data(), sizeof(std::uint64_t) * tiermap::counter_count);
  static_assert(tiermap::stage_count <= sizeof to.stages / sizeof to.stages[0]);
  static_assert(sizeof to.stages[0] == sizeof(tiermap::LatencyHistogram::buckets));
  to.stage_count = static_cast<std::uint32_t>(tiermap::stage_count);
  for (std::size_t stage = 0; stage < tiermap::stage_count; ++stage) {
    std::memcpy(to.stages[stage], from.stages[stage].buckets.data(), sizeof to.stages[stage]);
  }
}

/// The index at which `name_at` gives the name; `kind` is for the message, should there be none.
std::uint32_t index_of(const char* name, const char* kind, const char* (*name_at)(std::uint32_t)) {
  const std::string wanted = &given(name, "name", "the name of a counter or a stage");
  for (std::uint32_t index = 0; name_at(index) != nullptr; ++index) {
    if (name_at(index) == wanted) {
      return index;
    }
  }
  throw tiermap::OptionError(std::string("there is no ") + kind + " " + wanted + ": see tiermap_" + kind + "_name()");
}

/// The caller's store, which calls destroy() only once it was mapped: before that the context is still the caller's.
class MappedFunctions {
 public:
  explicit MappedFunctions(const tiermap_store_functions& functions)
      : destroy_(std::make_shared<Destroy>(Destroy{functions.context, nullptr})) {
    tiermap_store_functions without = functions;
    without.destroy = nullptr;
    auto inner = std::make_unique<tiermap::CallbackStore>(without);
    store_ = std::shared_ptr<tiermap::Store>(inner.release(), [destroy = destroy_](tiermap::CallbackStore* store) {
      delete store;
      if (destroy->function != nullptr) {
        destroy->function(destroy->context);
      }
    });
    wanted_ = functions.destroy;
  }
  const std::shared_ptr<tiermap::Store>& store() const { return store_; }
  void take_over() noexcept { destroy_->function = wanted_; }

 private:
  struct Destroy {
    void* context;
    void (*function)(void*);
  };
  std::shared_ptr<Destroy> destroy_;
  std::shared_ptr<tiermap::Store> store_;
  void (*wanted_)(void*) = nullptr;
};

}  // namespace

tiermap_cache* tiermap_cache_create(const tiermap_cache_options* options) noexcept {
  return without_exceptions<tiermap_cache*>(
      nullptr, [&] { return new tiermap_cache{tiermap::Cache(tiermap::cache_options_from(options))}; });
}

tiermap_cache* tiermap_cache_create_with_budget(std::uint64_t budget_bytes) noexcept {
  return without_exceptions<tiermap_cache*>(nullptr, [&] {
    tiermap::CacheOptions options;
    options.budget_bytes = budget_bytes;
    return new tiermap_cache{tiermap::Cache(options)};
  });
}

void tiermap_cache_destroy(tiermap_cache* cache) noexcept {
  delete cache;
}

std::uint64_t tiermap_cache_budget(const tiermap_cache* cache) noexcept {
  return without_exceptions<std::uint64_t>(0, [&] { return checked(cache, "cache").cache.budget_bytes(); });
}

std::uint64_t tiermap_cache_minimum_budget(const tiermap_cache* cache) noexcept {
  return without_exceptions<std::uint64_t>(0, [&] { return checked(cache, "cache").cache.minimum_budget_bytes(); });
}

int tiermap_cache_set_budget(tiermap_cache* cache, std::uint64_t bytes) noexcept {
  return status_of([&] { checked(cache, "cache").cache.set_budget_bytes(bytes); });
}

int tiermap_cache_fault_mode(const tiermap_cache* cache) noexcept {
  return without_exceptions(-1, [&] { return static_cast<int>(checked(cache, "cache").cache.fault_mode()); });
}

const char* tiermap_cache_fault_mode_reason(const tiermap_cache* cache) noexcept {
  return without_exceptions<const char*>(nullptr,
                                         [&] { return checked(cache, "cache").cache.fault_mode_reason().c_str(); });
}

int tiermap_cache_statistics(const tiermap_cache* cache, tiermap_statistics* statistics) noexcept {
  return status_of([&] { copy_statistics(checked(cache, "cache").cache.statistics(), given_statistics(statistics)); });
}

tiermap_region* tiermap_map(tiermap_cache* cache, const char* url, const tiermap_region_options* options) noexcept {
  return without_exceptions<tiermap_region*>(nullptr, [&] {
    auto region = std::make_unique<tiermap_region>();
    region->region = checked(cache, "cache")
                         .cache.map(&given(url, "url", "a path, or a URL such as sparse:///directory"),
                                    tiermap::region_options_from(options));
    return region.release();
  });
}

tiermap_region* tiermap_map_store(tiermap_cache* cache, const tiermap_store_functions* functions,
                                  const tiermap_region_options* options) noexcept {
  return without_exceptions<tiermap_region*>(nullptr, [&] {
    auto region = std::make_unique<tiermap_region>();
    MappedFunctions mapped(given(functions, "functions", "the address of a tiermap_store_functions"));
    region->region = checked(cache, "cache").cache.map(mapped.store(), tiermap::region_options_from(options));
    mapped.take_over();
    return region.release();
  });
}

tiermap_region* tiermap_map_file(tiermap_cache* cache, const char* path, std::uint64_t length) noexcept {
  tiermap_region_options options;
  tiermap_region_options_init(&options);
  options.writable = 1;
  options.length = length;
  return tiermap_map(cache, path, &options);
}

int tiermap_unmap(tiermap_region* region) noexcept {
  return status_of([&] {
    if (region != nullptr) {
      region->region.unmap();
      delete region;
    }
  });
}

void tiermap_abandon(tiermap_region* region) noexcept {
  delete region;
}

void* tiermap_data(const tiermap_region* region) noexcept {
  return without_exceptions<void*>(nullptr, [&] { return checked(region, "region").region.data(); });
}

std::uint64_t tiermap_size(const tiermap_region* region) noexcept {
  return without_exceptions<std::uint64_t>(0, [&] { return checked(region, "region").region.size(); });
}

std::uint64_t tiermap_page_size(const tiermap_region* region) noexcept {
  return without_exceptions<std::uint64_t>(0, [&] { return checked(region, "region").region.page_size_bytes(); });
}

tiermap_prefetch* tiermap_prefetch_start(tiermap_region* region, const tiermap_range* ranges, size_t count) noexcept {
  return without_exceptions<tiermap_prefetch*>(nullptr, [&] {
    tiermap::Region& mapped = checked(region, "region").region;
    std::vector<tiermap::ByteRange> wanted;
    if (count > 0) {
      const std::span<const tiermap_range> all(
          &given(ranges, "ranges", "the address of a tiermap_range, or a count of 0"), count);
      for (const tiermap_range& range : all) {
        wanted.push_back(range_from(range));
      }
    }
    auto prefetch = std::make_unique<tiermap_prefetch>();
    prefetch->prefetch = mapped.prefetch(wanted);
    return prefetch.release();
  });
}

std::int64_t tiermap_prefetch_wait(tiermap_prefetch* prefetch) noexcept {
  return without_exceptions<std::int64_t>(
      -1, [&] { return static_cast<std::int64_t>(checked(prefetch, "prefetch").prefetch.wait()); });
}

int tiermap_prefetch_done(const tiermap_prefetch* prefetch) noexcept {
  return without_exceptions(-1, [&] { return checked(prefetch, "prefetch").prefetch.done() ? 1 : 0; });
}

void tiermap_prefetch_free(tiermap_prefetch* prefetch) noexcept {
  delete prefetch;
}

int tiermap_pin(tiermap_region* region, tiermap_range range) noexcept {
  return status_of([&] { checked(region, "region").region.pin(range_from(range)); });
}

int tiermap_unpin(tiermap_region* region, tiermap_range range) noexcept {
  return status_of([&] { checked(region, "region").region.unpin(range_from(range)); });
}

int tiermap_advise(tiermap_region* region, int advice, tiermap_range range) noexcept {
  return status_of([&] { checked(region, "region").region.advise(tiermap::advice_from(advice), range_from(range)); });
}

int tiermap_sync(tiermap_region* region, tiermap_range range) noexcept {
  return status_of([&] { checked(region, "region").region.sync(range_from(range)); });
}

int tiermap_sync_all(tiermap_region* region) noexcept {
  return status_of([&] { checked(region, "region").region.sync(); });
}

int tiermap_flush(tiermap_region* region, tiermap_range range) noexcept {
  return status_of([&] { checked(region, "region").region.flush(range_from(range)); });
}

int tiermap_flush_all(tiermap_region* region) noexcept {
  return status_of([&] { checked(region, "region").region.flush(); });
}

int tiermap_discard(tiermap_region* region, tiermap_range range) noexcept {
  return status_of([&] { checked(region, "region").region.discard(range_from(range)); });
}

int tiermap_resize(tiermap_region* region, std::uint64_t length) noexcept {
  return status_of([&] { checked(region, "region").region.resize(length); });
}

int tiermap_region_statistics(const tiermap_region* region, struct tiermap_statistics* statistics) noexcept {
  return status_of(
      [&] { copy_statistics(checked(region, "region").region.statistics(), given_statistics(statistics)); });
}

const char* tiermap_counter_name(std::uint32_t index) noexcept {
  return index < tiermap::counter_count ? tiermap::counter_name(static_cast<tiermap::Counter>(index)) : nullptr;
}

std::uint64_t tiermap_counter(const struct tiermap_statistics* statistics, const char* name) noexcept {
  return without_exceptions<std::uint64_t>(0, [&] {
    const auto& counted = given_statistics(statistics);
    return counted.counters[index_of(name, "counter", tiermap_counter_name)];
  });
}

const char* tiermap_stage_name(std::uint32_t index) noexcept {
  return index < tiermap::stage_count ? tiermap::stage_name(static_cast<tiermap::Stage>(index)) : nullptr;
}

std::uint64_t tiermap_stage_nanoseconds(const struct tiermap_statistics* statistics, const char* name,
                                        double share) noexcept {
  return without_exceptions<std::uint64_t>(0, [&] {
    const auto& timed = given_statistics(statistics);
    if (!(share >= 0 && share <= 1)) {
      throw tiermap::OptionError("share " + std::to_string(share) + " is not from 0 to 1: give 0.99 for 99 %");
    }
    const std::uint32_t stage = index_of(name, "stage", tiermap_stage_name);
    tiermap::LatencyHistogram histogram;
    std::memcpy(histogram.buckets.data(), timed.stages[stage], sizeof timed.stages[stage]);
    return histogram.quantile_nanoseconds(share);
  });
}

const char* tiermap_last_error(void) noexcept {
  return tiermap::kept_error();
}

const char* tiermap_version(void) noexcept {
  return TIERMAP_VERSION;
}
