#include "umap_interface/process.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "config/size.hpp"
#include "platform/address_range.hpp"
#include "platform/page_sizes.hpp"
#include "tiermap/error.hpp"
#include "umap_interface/log.hpp"
#include "umap_interface/program_store.hpp"

namespace tiermap::umap_interface {
namespace {

constexpr std::uint64_t largest_length = 1ULL << 46;

void check(const MapRequest& request) {
  if (request.length == 0 || request.length > largest_length) {
    throw OptionError("length " + std::to_string(request.length) + " cannot be mapped: choose 1 to 64 TiB",
                      request.length == 0 ? EINVAL : ENOMEM);
  }
  if (request.offset < 0 || request.offset % static_cast<off_t>(kernel_page_bytes) != 0) {
    throw OptionError("offset " + std::to_string(request.offset) + " is not a multiple of 4096: round it down");
  }
  if ((request.protection & PROT_READ) == 0 || (request.protection & ~(PROT_READ | PROT_WRITE)) != 0) {
    throw OptionError("protection " + std::to_string(request.protection) +
                      " cannot be had: choose PROT_READ, or PROT_READ | PROT_WRITE");
  }
  constexpr int known = MAP_PRIVATE | MAP_SHARED | MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_NORESERVE | MAP_POPULATE;
  if ((request.flags & (MAP_PRIVATE | MAP_SHARED)) == 0 || (request.flags & ~known) != 0) {
    throw OptionError("flags " + std::to_string(request.flags) +
                      " cannot be had: choose UMAP_PRIVATE, or UMAP_PRIVATE | UMAP_FIXED");
  }
  if (reinterpret_cast<std::uintptr_t>(request.address) % kernel_page_bytes != 0 ||
      ((request.flags & MAP_FIXED) != 0 && request.address == nullptr)) {
    throw OptionError("address " + hexadecimal(request.address) + " is not a multiple of 4096: align it");
  }
}

/// Whether the end of the file is in the region's last page: a program that rounds its length up to whole pages does
/// not mean the file to grow by that; one that maps more of a file than there is does.
bool is_rounded_up(const MapRequest& request, std::uint64_t page_bytes, std::uint64_t file_bytes) {
  const std::uint64_t end = static_cast<std::uint64_t>(request.offset) + request.length;
  return file_bytes < end && file_bytes > static_cast<std::uint64_t>(request.offset) && end - file_bytes < page_bytes;
}

/// A buffer of few small pages is less than fault mode kernel, where that is all there is, can work with.
std::unique_ptr<Cache> cache_with(CacheOptions options) {
  constexpr std::uint64_t enough_for_any_mode = 1 << 20;
  try {
    return std::make_unique<Cache>(options);
  } catch (const OptionError&) {
    if (*options.budget_bytes >= enough_for_any_mode) {
      throw;
    }
  }
  options.budget_bytes = enough_for_any_mode;
  return std::make_unique<Cache>(options);
}

bool replaces(const MapRequest& request) {
  return (request.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == MAP_FIXED;
}

std::uint64_t largest_power_of_two_in(std::uint64_t value) {
  return value & (~value + 1);
}

}  // namespace

/// What the engine is asked for.
struct Process::Plan {
  std::shared_ptr<Store> store;
  RegionOptions options;
};

Process::Plan Process::plan(const MapRequest& request, const Settings& settings) {
  Plan plan;
  RegionOptions& options = plan.options;
  const std::uint64_t page_bytes = settings[Setting::page_size];
  options.access = (request.protection & PROT_WRITE) != 0 ? Access::read_write : Access::read_only;
  options.offset = static_cast<std::uint64_t>(request.offset);
  options.length = request.length;
  options.page_size_bytes = settings.engine_page_bytes();
  options.read_ahead_bytes = settings.read_ahead_bytes();
  Umap::Store* const store = request.store;
  if (store == nullptr) {
    plan.store = files_.open(request.descriptor);
  } else if (const int status = store->engine_store(plan.store); status > 0) {
    throw StoreError(status, "the store is not open: see get_directory_creation_status(), or open it again");
  } else if (status != 0) {
    options.length = round_up(request.length, kernel_page_bytes);
    plan.store = std::make_shared<ProgramStore>(*store, options.offset + options.length, *options.page_size_bytes);
  }
  if (options.access == Access::read_write && !plan.store->writable()) {
    throw StoreError(
        EACCES,
        plan.store->name() + " is open for reading only: open it for reading and writing, or map it with PROT_READ");
  }
  std::uint64_t size = plan.store->size_bytes();
  if (const auto file = std::dynamic_pointer_cast<FileStore>(plan.store); file != nullptr) {
    size = file->actual_bytes();  // It may have been opened before the program gave the file the length that it has.
    plan.store = is_rounded_up(request, page_bytes, size) ? capped(file) : file;
  }
  // Whole blocks of what the store has: as mmap does, which knows no others.
  const std::uint64_t left = size > options.offset ? size - options.offset : 0;
  options.length = std::max(options.length, std::min(round_up(options.length, kernel_page_bytes), left));
  return plan;
}

void Process::make_cache(const Settings& settings) {
  // What the engine cannot change while it runs waits for the next cache: when nobody uses this one.
  const bool changed = in_effect_.has_value() && in_effect_->choices() != settings.choices();
  if (cache_ != nullptr && changed && !has_regions()) {
    cache_.reset();
  }
  if (cache_ == nullptr) {
    std::unique_ptr<Cache> made = cache_with(settings.cache_options());
    log(made->fault_mode() == FaultMode::notify ? LogLevel::info : LogLevel::warning,
        "a buffer of " + format_size_rounded(made->budget_bytes()) + ", fault mode " + made->fault_mode_reason());
    cache_ = std::move(made);
    const std::lock_guard held(settings_mutex_);
    in_effect_ = settings;
  } else if (cache_->budget_bytes() < settings.least_budget_bytes()) {
    cache_->set_budget_bytes(settings.least_budget_bytes());
  }
}

Region Process::place(const MapRequest& request, const Plan& plan) {
  RegionOptions options = plan.options;
  if (request.address == nullptr) {
    return cache_->map(plan.store, options);
  }
  options.address = request.address;
  // An address that is good for smaller pages only gets those.
  options.page_size_bytes =
      std::min(*options.page_size_bytes, largest_power_of_two_in(reinterpret_cast<std::uintptr_t>(request.address)));
  if (replaces(request)) {
    options.replacement = Replacement::reservation;
    return cache_->map(plan.store, options);
  }
  try {
    return cache_->map(plan.store, options);
  } catch (const PlatformError& error) {
    // A hint; what stands in the way is the system's matter (EEXIST, EPERM, ENOMEM).
    if ((request.flags & MAP_FIXED_NOREPLACE) != 0) {
      throw;
    }
  }
  return cache_->map(plan.store, plan.options);
}

void* Process::map(const MapRequest& request) {
  check(request);
  const std::lock_guard held(making_);
  ReplacedMapping replaced;
  if (replaces(request)) {
    const std::uint64_t bytes = round_up(request.length, kernel_page_bytes);
    if (overlaps(request.address, bytes)) {
      throw OptionError("a region is mapped at " + hexadecimal(request.address) + " already: uunmap() it first",
                        EEXIST);
    }
    replaced = ReplacedMapping(request.address, bytes);
  }
  try {
    const Settings now = settings();
    now.check();
    const Plan wanted = plan(request, now);
    make_cache(now);
    prepare_end();
    auto mapped = std::make_shared<MappedRegion>(place(request, wanted), replaced);
    log(LogLevel::debug, "mapped " + format_size(mapped->size()) + " at " + hexadecimal(mapped->data()));
    const std::lock_guard held_regions(regions_mutex_);
    regions_.emplace(mapped->data(), mapped);
    return mapped->data();
  } catch (...) {
    replaced.give_back();
    throw;
  }
}

void Process::unmap(void* address) {
  std::shared_ptr<MappedRegion> region;
  {
    const std::lock_guard held(regions_mutex_);
    const auto found = regions_.find(address);
    if (found == regions_.end()) {
      if (std::ranges::find(inherited_, address) != inherited_.end()) {
        throw Error(ECHILD, "the region at " + hexadecimal(address) +
                                " belongs to the process that forked this one: map it again in the child");
      }
      throw OptionError("no region begins at " + hexadecimal(address) + ": give what umap() returned");
    }
    region = std::move(found->second);
    // Before its addresses are free: somebody else may get them at once.
    regions_.erase(found);
  }
  log(LogLevel::debug, "unmapping " + hexadecimal(address));
  try {
    region->unmap();
  } catch (...) {
    const std::lock_guard held(regions_mutex_);
    regions_.emplace(region->data(), region);
    throw;
  }
}

bool Process::overlaps(const void* address, std::uint64_t bytes) const {
  const auto* first = static_cast<const std::byte*>(address);
  const std::shared_lock held(regions_mutex_);
  return std::ranges::any_of(regions_, [&](const auto& entry) {
    const MappedRegion& region = *entry.second;
    return region.data() < first + bytes && first < region.data() + region.size();
  });
}

std::shared_ptr<MappedRegion> Process::find(const void* address) const {
  const std::shared_lock held(regions_mutex_);
  auto next = regions_.upper_bound(address);
  if (next == regions_.begin() || !std::prev(next)->second->contains(address)) {
    return nullptr;
  }
  return std::prev(next)->second;
}

std::vector<std::shared_ptr<MappedRegion>> Process::all() const {
  const std::shared_lock held(regions_mutex_);
  std::vector<std::shared_ptr<MappedRegion>> found;
  for (const auto& [address, region] : regions_) {
    found.push_back(region);
  }
  return found;
}

bool Process::has_regions() const {
  const std::shared_lock held(regions_mutex_);
  return !regions_.empty();
}

void Process::sync() {
  std::exception_ptr first;
  for (const auto& region : all()) {
    try {
      region->sync();
    } catch (...) {
      first = first == nullptr ? std::current_exception() : first;
    }
  }
  if (first != nullptr) {
    std::rethrow_exception(first);
  }
}

std::size_t Process::prefetch(std::span<void* const> addresses) {
  std::size_t unknown = 0;
  std::shared_ptr<MappedRegion> region;
  std::vector<ByteRange> ranges;
  const std::uint64_t page_bytes = settings()[Setting::page_size];
  const auto hand_over = [&] {
    if (region != nullptr && !ranges.empty()) {
      region->prefetch(ranges);
    }
    ranges.clear();
  };
  for (void* const address : addresses) {
    if (region == nullptr || !region->contains(address)) {
      hand_over();
      region = find(address);
    }
    if (region == nullptr) {
      ++unknown;
      continue;
    }
    const std::uint64_t first = region->offset_of(address) / page_bytes * page_bytes;
    ranges.push_back({first, std::min(page_bytes, region->size() - first)});
  }
  hand_over();
  return unknown;
}

void Process::pin(void* address, std::uint64_t bytes) {
  if (bytes == 0) {
    return;
  }
  const std::shared_ptr<MappedRegion> region = find(address);
  if (region == nullptr) {
    throw OptionError("no region is mapped at " + hexadecimal(address) + ": give an address that umap() returned");
  }
  const std::uint64_t offset = region->offset_of(address);
  const ByteRange range = {offset, std::min(bytes, region->size() - offset)};
  try {
    region->pin(range);
  } catch (...) {
    region->prefetch({&range, 1});
    throw;
  }
}

Settings Process::settings() {
  Choices code;
  std::optional<Settings> running;
  {
    const std::lock_guard held(settings_mutex_);
    code = set_in_code_;
    running = in_effect_;
  }
  if (!running.has_value() || !has_regions()) {
    return Settings(decide(code));
  }
  Choices choices = running->choices();
  for (std::size_t setting = 0; setting < setting_count; ++setting) {
    choices[setting] = code[setting].has_value() ? code[setting] : choices[setting];
  }
  return Settings(choices);
}

void Process::set(Setting setting, std::uint64_t value) {
  check_setting(setting_row(setting), value, setting_row(setting).variable);
  const std::lock_guard held(making_);
  Choices code;
  {
    const std::lock_guard held_settings(settings_mutex_);
    code = set_in_code_;
    set_in_code_[static_cast<std::size_t>(setting)] = value;
  }
  try {
    const Settings now = settings();
    if (cache_ != nullptr && setting == Setting::buffer_pages && has_regions()) {
      cache_->set_budget_bytes(std::max(now.budget_bytes(), cache_->minimum_budget_bytes()));
    }
  } catch (...) {
    const std::lock_guard held_settings(settings_mutex_);
    set_in_code_ = code;
    throw;
  }
}

void Process::hold() {
  regions_mutex_.lock();
  settings_mutex_.lock();
}

void Process::release() {
  settings_mutex_.unlock();
  regions_mutex_.unlock();
}

void Process::inherit(const Process& parent) {
  set_in_code_ = parent.set_in_code_;
  inherited_ = parent.inherited_;
  for (const auto& [address, region] : parent.regions_) {
    inherited_.push_back(address);
  }
}

// Without the thread the one that ends the process writes back.
void Process::prepare_end() noexcept {
  try {
    if (ending_ == nullptr) {
      ending_ = std::make_unique<EndingSignals>([this] { sync_at_exit(); });
    }
  } catch (const std::exception&) {  // There may be no more threads, or no memory.
  }
}

void Process::end() noexcept {
  // A store that ends the process from inside of a call: its page is not to be waited for.
  if (!ProgramStore::calling() && !EndingSignals::finish()) {
    sync_at_exit();
  }
}

void Process::sync_at_exit() noexcept {
  try {
    for (const auto& region : all()) {
      try {
        region->sync_if_idle();
      } catch (const Error& error) {
        log(LogLevel::error, error.what());
      }
    }
  } catch (...) {  // Out of memory, and nobody to tell.
  }
}

}  // namespace tiermap::umap_interface
