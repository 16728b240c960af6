// Cache's public members: options to plain values, a URL to a store, and the checks that need both.
#include "tiermap/cache.hpp"

#include <cerrno>
#include <string>
#include <utility>

#include "config/misspelt_variables.hpp"
#include "config/resolve.hpp"
#include "config/size.hpp"
#include "platform/address_range.hpp"
#include "platform/memory_promise.hpp"
#include "platform/signals_blocked.hpp"
#include "region/engine.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

void check_page_size(std::uint64_t bytes) {
  constexpr std::uint64_t least = 4096;
  constexpr std::uint64_t most = 64 << 20;
  if (bytes < least || bytes > most || (bytes & (bytes - 1)) != 0) {
    throw OptionError("page size " + format_size(bytes) +
                      " is not a power of two from 4KiB to 64MiB: choose one, such as 64KiB");
  }
}

template <typename Enumeration>
void check_named(const char* name, Enumeration value, Enumeration last) {
  if (value > last) {
    throw OptionError(std::string(name) + " " + std::to_string(static_cast<unsigned>(value)) +
                      " has no name: set it to one of its enumerators");
  }
}

void check_mappable(const char* name, std::uint64_t bytes) {
  if (bytes > largest_mapping_bytes) {
    throw OptionError(std::string(name) + " of " + format_size(bytes) + " is over 64TiB: map a part");
  }
}

// What can be said before the store is opened, so that nothing is created for a mapping that cannot be.
ResolvedRegionOptions check_options(const RegionOptions& options) {
  const ResolvedRegionOptions resolved = resolve(options);
  check_page_size(resolved.page_size_bytes);
  check_named("access", options.access, Access::read_write);
  check_named("sharing", options.sharing, Sharing::private_copy);
  check_named("advice", options.advice, Advice::hot);
  if (options.offset % 4096 != 0) {
    throw OptionError("offset " + std::to_string(options.offset) + " is not a multiple of 4096: round it down");
  }
  check_mappable("offset", options.offset);
  check_mappable("length", options.length);
  check_mappable("reserve", options.reserve_bytes);
  if (options.reserve_bytes != 0 && options.reserve_bytes < options.length) {
    throw OptionError("reserve of " + format_size(options.reserve_bytes) + " is under the length of " +
                      format_size(options.length) + ": make it larger, or 0");
  }
  if (options.advice == Advice::dont_need || options.advice == Advice::cold || options.advice == Advice::hot) {
    throw OptionError(
        "advice to map with is dont_need, cold or hot, and nothing is in memory yet: give normal, "
        "sequential, random or will_need");
  }
  const std::uint64_t alignment = resolved.page_size_bytes < (2U << 20) ? resolved.page_size_bytes : 2U << 20;
  if (reinterpret_cast<std::uint64_t>(options.address) % alignment != 0) {
    throw OptionError("address " + hexadecimal(options.address) + " is not a multiple of " + format_size(alignment) +
                      ": align it to the page size, or leave it out");
  }
  return resolved;
}

// The number of bytes to map.
std::uint64_t check_against_store(const Store& store, const RegionOptions& options) {
  const std::uint64_t size = store.size_bytes();
  const bool to_store = options.access == Access::read_write && options.sharing == Sharing::shared;
  if (to_store && !store.writable()) {
    throw OptionError(store.name() + " cannot be written: map it read_only, or private_copy", EACCES);
  }
  if (options.length == 0 && options.offset >= size) {
    throw OptionError(store.name() + " has " + std::to_string(size) + " bytes, none at offset " +
                      std::to_string(options.offset) + ": give a length" + (size > 0 ? ", or a smaller offset" : ""));
  }
  const std::uint64_t length = options.length == 0 ? size - options.offset : options.length;
  if (to_store && !store.growable() && (options.offset > size || length > size - options.offset)) {
    throw OptionError(store.name() + " has " + std::to_string(size) + " bytes and cannot grow to " +
                      std::to_string(options.offset + length) + ": map less");
  }
  return length;
}

OpenMode open_mode(const RegionOptions& options) {
  if (options.access == Access::read_only || options.sharing == Sharing::private_copy) {
    return OpenMode::read_only;
  }
  return options.length != 0 ? OpenMode::open_or_create : OpenMode::read_write;
}

// In a forked child nobody serves what the parent's engine maps: it would read as zeros.
Engine& here(const std::shared_ptr<Engine>& engine) {
  if (engine->in_child()) {
    throw Error(ECHILD, "the cache belongs to the process that forked this one: make another in the child");
  }
  return *engine;
}

// A share is one of what is left beside other caches and tiers, those too that are made at the same time.
std::shared_ptr<Engine> make_engine_with_memory(ResolvedCacheOptions options) {
  MemoryPromise memory([&](std::uint64_t left_bytes) { return budget_bytes(options, left_bytes); });
  options.budget_bytes = memory.bytes();
  std::shared_ptr<Engine> engine = make_engine(options);
  engine->hold(std::move(memory));
  return engine;
}

}  // namespace

Cache::Cache(const CacheOptions& options) : engine_(make_engine_with_memory(resolve(options))) {
  tell_of_misspelt_variables();
}

Cache::~Cache() {
  if (engine_->in_child()) {  // The threads to be stopped are the parent's.
    static_cast<void>(new std::shared_ptr<Engine>(std::move(engine_)));
  }
  const CancellationHeld held;
  engine_.reset();
}

Region Cache::map(std::string_view url, const RegionOptions& options) {
  const CancellationHeld held;
  const ResolvedRegionOptions resolved = check_options(options);
  here(engine_).check_room(options, resolved);
  if (open_mode(options) == OpenMode::open_or_create) {
    engine_->check_new_store(parse_store_url(url));
  }
  return map(open_store(url, open_mode(options), options.offset + options.length), options);
}

Region Cache::map(std::shared_ptr<Store> store, const RegionOptions& options) {
  const ResolvedRegionOptions resolved = check_options(options);
  if (store == nullptr) {
    throw OptionError("store is a null pointer: give one, or a URL");
  }
  RegionOptions decided = options;
  decided.length = check_against_store(*store, options);
  const SignalsBlocked quiet;
  std::shared_ptr<RegionImplementation> region = here(engine_).map(std::move(store), decided, resolved);
  if (options.advice == Advice::will_need) {
    region->advise(Advice::will_need, {0, decided.length});
  }
  return Region(std::move(region));
}

std::uint64_t Cache::budget_bytes() const noexcept {
  return engine_->budget_bytes();
}

void Cache::set_budget_bytes(std::uint64_t bytes) {
  const SignalsBlocked quiet;
  here(engine_).set_budget_bytes(bytes);
}

std::uint64_t Cache::minimum_budget_bytes() const noexcept {
  return engine_->minimum_budget_bytes();
}

FaultMode Cache::fault_mode() const noexcept {
  return engine_->fault_mode();
}

const std::string& Cache::fault_mode_reason() const noexcept {
  return engine_->fault_mode_reason();
}

Statistics Cache::statistics() const {
  return here(engine_).statistics();
}

}  // namespace tiermap
