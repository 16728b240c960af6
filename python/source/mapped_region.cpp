#include "mapped_region.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <limits>
#include <map>
#include <string_view>
#include <thread>

#include "channel_store.hpp"
#include "mapped_files.hpp"
#include "platform/ending_signals.hpp"
#include "platform/engine_thread.hpp"
#include "platform/hold_over_forks.hpp"
#include "platform/page_sizes.hpp"
#include "platform/signals_blocked.hpp"
#include "released_gil.hpp"
#include "tiermap/error.hpp"

namespace tiermap::python {
namespace {

// Held while a region becomes the kernel's, too: forks and the ends of regions wait for that.
constinit std::mutex live_mutex;
[[maybe_unused]] const int held_over_forks = hold_over_forks<live_mutex>();

/// What the region's owner could still do, behind the last semicolon, is for nobody any more.
void tell_lost(const std::exception& error) {
  const std::string_view said = error.what();
  const auto length = static_cast<int>(said.substr(0, said.rfind("; ")).size());
  std::fprintf(stderr, "tiermap: data of an array that was given up is lost: %.*s\n", length, said.data());
}

void write_before_signal();

}  // namespace

/// Under the mutex, which nobody holds where a signal can come. Never destroyed: some regions outlive all else.
struct LiveRegions {
  std::set<MappedRegion*> all;  ///< Those that somebody has, in a forked child also its parent's.
  /// Of this process, with data that a signal would lose.
  pid_t process = 0;
  std::uint64_t writing = 0;
  std::uint64_t being_unmapped = 0;
  std::map<FileIdentity, std::uint64_t> changing;  ///< Regions that are being made, or unmapped.
  std::unique_ptr<EndingSignals> signals;          ///< As long as there are some.

  void begin_in_child() noexcept;
  void take_ending_signals() noexcept;
  void write() noexcept;
  template <typename Condition>
  bool any_of(FileIdentity file, const Condition& condition) const;
  bool give_to_kernel(FileIdentity file);
  void settle(FileIdentity file) noexcept;
};

namespace {

LiveRegions& live_regions = *new LiveRegions;

/// As long as it lives, nobody is told that nothing of the file is served here.
class Change {
 public:
  explicit Change(std::optional<FileIdentity> file) : file_(file) {
    if (file_.has_value()) {
      const SignalsBlocked quiet;
      const std::lock_guard held(live_mutex);
      live_regions.begin_in_child();
      ++live_regions.changing[*file_];
    }
  }
  ~Change() {
    if (file_.has_value()) {
      const SignalsBlocked quiet;
      const std::lock_guard held(live_mutex);
      end(*file_);
    }
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  /// With the mutex held.
  static void end(FileIdentity file) noexcept {
    if (const auto known = live_regions.changing.find(file);
        known != live_regions.changing.end() && --known->second == 0) {
      live_regions.changing.erase(known);
    }
    live_regions.settle(file);
  }

 private:
  const std::optional<FileIdentity> file_;
};

/// The largest page of which whole ones end where the region's address space did. In fault mode kernel, regions take
/// whole pages; what lies behind this one may be another's.
std::uint64_t page_size_that_fits(std::uint64_t size, std::uint64_t page) {
  const std::uint64_t held = round_up(size, kernel_page_bytes);
  while (page > kernel_page_bytes && held % page != 0) {
    page /= 2;
  }
  return page;
}

/// In a thread of the kind that others know to be at that.
void give_all_to_kernel(FileIdentity file) {
  do_in_engine_thread(MappingTable::giving_thread, [file] {
    for (bool done = false; !done;) {
      {
        const std::lock_guard held(live_mutex);
        done = live_regions.give_to_kernel(file);
      }
      if (!done) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  });
}

}  // namespace

// --- Of all regions.

/// Nothing that the parent's other threads were at goes on here.
void LiveRegions::begin_in_child() noexcept {
  if (process == ::getpid()) {
    return;
  }
  [[maybe_unused]] const auto* const parents = signals.release();
  EndingSignals::forget_parents();
  process = ::getpid();
  writing = being_unmapped = 0;
  changing.clear();
}

/// Of a region that is new in this process.
void LiveRegions::take_ending_signals() noexcept {
  begin_in_child();
  ++writing;
  try {
    if (signals == nullptr) {
      signals = std::make_unique<EndingSignals>(write_before_signal);
    }
    EndingSignals::take();
  } catch (const std::exception&) {  // No more threads: the program ends by its signals as they come.
  }
}

void LiveRegions::write() noexcept {
  for (MappedRegion* const mapped : all) {
    if (mapped->owner_ != ::getpid() || !mapped->writes_ || !mapped->region_) {
      continue;
    }
    try {
      mapped->region_.sync();
    } catch (const std::exception& error) {
      tell_lost(error);
    }
  }
}

template <typename Condition>
bool LiveRegions::any_of(FileIdentity file, const Condition& condition) const {
  return std::ranges::any_of(all, [&](MappedRegion* mapped) { return mapped->is_of(file) && condition(*mapped); });
}

/// False if that cannot be done now.
bool LiveRegions::give_to_kernel(FileIdentity file) {
  return !any_of(file, [](MappedRegion& mapped) { return mapped.is_served() && !mapped.give_to_kernel(); });
}

/// Others need not ask for what is served no more.
void LiveRegions::settle(FileIdentity file) noexcept {
  MappingTable* const table = known_mapping_table();
  if (table == nullptr || changing.contains(file)) {
    return;
  }
  if (!any_of(file, [](const MappedRegion& mapped) { return mapped.is_served(); })) {
    table->stop_serving(file);
  }
  if (!any_of(file, [](const MappedRegion&) { return true; })) {
    table->forget(file);
  }
}

bool give_back_to_others(FileIdentity file) {
  const SignalsBlocked quiet;
  const std::lock_guard held(live_mutex);
  if (!live_regions.give_to_kernel(file) || live_regions.changing.contains(file)) {
    return false;
  }
  live_regions.settle(file);
  return true;
}

void write_what_lives() {
  const SignalsBlocked quiet;
  const std::lock_guard held(live_mutex);
  live_regions.write();
}

namespace {

bool any_being_unmapped() {
  const SignalsBlocked quiet;
  const std::lock_guard held(live_mutex);
  return live_regions.process == ::getpid() && live_regions.being_unmapped > 0;
}

using WriteBack = void (*)();

WriteBack preloaded_write_back = nullptr;

/// In a thread of its own, while the program's may be anywhere, and one may hold the interpreter's lock.
void write_before_signal() {
  write_all_back();
  if (preloaded_write_back != nullptr) {
    preloaded_write_back();
  }
  leave_mapping_table();
}

}  // namespace

void write_all_back() {
  write_what_lives();
  while (any_being_unmapped()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void find_preloaded_library() {
  if (void* const found = ::dlsym(RTLD_DEFAULT, "tiermap_ends_with"); found != nullptr) {
    preloaded_write_back = reinterpret_cast<WriteBack (*)(WriteBack)>(found)(write_all_back);
  }
}

// --- Of one region.

MappedRegion::MappedRegion(CacheHandle& cache, std::shared_ptr<Store> store, const RegionWish& wish)
    : wish_(wish),
      store_(std::move(store)),
      in_python_(dynamic_cast<const ChannelStore*>(store_.get()) != nullptr),
      writes_(wish.options.access == Access::read_write && wish.options.sharing == Sharing::shared && !in_python_) {
  map(cache, wish_.options, wish_.among_processes);
  address_ = region_.data();
  size_ = region_.size();
}

MappedRegion::~MappedRegion() {
  // A signal that comes in this thread must not stop what it waits for, from when it waits for that.
  std::optional<SignalsBlocked> quiet(std::in_place);
  std::optional<ReleasedGil> released;
  if (owner_ == ::getpid()) {
    released.emplace();  // Whoever makes it the kernel's may be at it.
  }
  const bool counted = forget();
  if (!counted) {
    quiet.reset();
  }
  if (owner_ == ::getpid()) {
    errands_.wait();
    unmap();
    const SignalsBlocked again;
    const std::lock_guard held(live_mutex);
    if (wish_.file.has_value()) {
      Change::end(*wish_.file);
    }
    if (counted) {
      --live_regions.being_unmapped;
      if (--live_regions.writing == 0) {
        live_regions.signals.reset();
      }
    }
  }
  released.reset();
  if (count_ != nullptr) {
    --count_->value;
  }
}

/// Returns whether those who end the program wait for its end. No signal can come.
bool MappedRegion::forget() {
  const std::lock_guard held(live_mutex);
  live_regions.all.erase(this);
  if (owner_ != ::getpid()) {
    return false;
  }
  live_regions.begin_in_child();
  const bool counted = writes_ && live_regions.writing > 0;
  live_regions.being_unmapped += counted ? 1 : 0;
  if (wish_.file.has_value()) {
    ++live_regions.changing[*wish_.file];
  }
  return counted;
}

void MappedRegion::unmap() noexcept {
  try {
    region_.unmap();
  } catch (const std::exception& error) {
    tell_lost(error);
  }
}

void MappedRegion::count_in(std::shared_ptr<RegionCount> count) {
  ++count->value;
  count_ = std::move(count);
}

bool MappedRegion::is_of(FileIdentity file) const noexcept {
  return owner_ == ::getpid() && wish_.file == file;
}

void MappedRegion::map(CacheHandle& cache, RegionOptions options, bool among_processes) {
  const bool is_shared = options.sharing == Sharing::shared && wish_.file.has_value();
  MappingTable* const table = wish_.file.has_value() ? mapping_table() : nullptr;
  std::optional<Change> change;
  const MappingTable::Entered entered = table == nullptr ? MappingTable::Entered() : table->enter(*wish_.file, writes_);
  if (entered.kept_by_writer) {
    throw StoreError(EBUSY, store_->name() +
                                ": another process that has it mapped for writing does not answer, and may have what "
                                "is not in the file yet: let it go on if it is stopped, or end it");
  }
  change.emplace(wish_.file);
  const FaultMode mode = cache.cache->fault_mode();
  const bool by_kernel =
      among_processes || (is_shared && mode != FaultMode::kernel && kernel_is_to_map(entered.by_others));
  through_kernel_ = by_kernel || mode == FaultMode::kernel;
  may_be_handed_over_ = is_shared && !through_kernel_ && mode == FaultMode::notify;
  if (is_shared && through_kernel_ && others_differ(by_kernel)) {
    give_all_to_kernel(*wish_.file);
  }
  if (options.address != nullptr && through_kernel_) {
    options.page_size_bytes = page_size_that_fits(options.length, region_.page_size_bytes());
  }
  kernel_ = cache.kernel;
  Cache& serving = by_kernel ? kernel_->cache() : *cache.cache;
  const auto map_it = [&] { region_ = serving.map(store_, options); };
  if (through_kernel_ && preloaded_write_back != nullptr) {
    // The library that `tiermap run` preloads hears of it, and would wait for what is served here: as long as this is
    // a change of the file, nobody is told that nothing is.
    do_in_engine_thread(MappingTable::giving_thread, map_it);
  } else {
    map_it();
  }
  belongs_here();
}

/// Whether another mapping of the file has the kernel's memory, or is to have it, since it has some of the same bytes.
/// If not, it is served here from now on.
bool MappedRegion::kernel_is_to_map(bool by_others) const {
  const SignalsBlocked quiet;
  const std::lock_guard held(live_mutex);
  const bool kernels = live_regions.any_of(*wish_.file, [&](const MappedRegion& other) {
    return other.wish_.options.sharing == Sharing::shared && (other.writes_ || writes_) &&
           (other.through_kernel_ || (other.may_be_handed_over_ && overlaps(other) && KernelCache::can_be_made()));
  });
  MappingTable* const table = known_mapping_table();
  if (by_others || kernels || table == nullptr) {
    return by_others || kernels;
  }
  if (live_regions.any_of(*wish_.file, [](const MappedRegion& other) { return other.is_served(); })) {
    return false;  // The others know.
  }
  try {
    return !table->serve(*wish_.file);
  } catch (const Error&) {  // No more threads: nobody would answer.
    return true;
  }
}

bool MappedRegion::overlaps(const MappedRegion& other) const noexcept {
  const auto end = [](const RegionOptions& options) {
    return options.length == 0 ? std::numeric_limits<std::uint64_t>::max() : options.offset + options.length;
  };
  return wish_.options.offset < end(other.wish_.options) && other.wish_.options.offset < end(wish_.options);
}

/// Of what the kernel is to map: whether something of the file is served here that would go apart from it.
bool MappedRegion::others_differ(bool from_others) const {
  const SignalsBlocked quiet;
  const std::lock_guard held(live_mutex);
  return live_regions.any_of(*wish_.file, [&](const MappedRegion& other) {
    return other.is_served() && (from_others || other.writes_ || writes_);
  });
}

bool MappedRegion::give_file_to_kernel() {
  if (!through_kernel_ && wish_.file.has_value()) {
    const Change change(wish_.file);
    give_all_to_kernel(*wish_.file);
  }
  return through_kernel_;
}

void MappedRegion::belongs_here() {
  const SignalsBlocked quiet;
  const std::lock_guard held(live_mutex);
  owner_ = ::getpid();
  live_regions.all.insert(this);
  if (writes_) {
    live_regions.take_ending_signals();
  }
}

/// With the mutex of all regions held. False if somebody is using it just now.
bool MappedRegion::give_to_kernel() {
  if (!may_be_handed_over_) {
    return true;
  }
  if (!uses_->lock.try_lock_for(std::chrono::milliseconds(10))) {
    return false;
  }
  const std::lock_guard alone(uses_->lock, std::adopt_lock);
  try {
    hand_over_to_kernel();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tiermap: %s is mapped anew, and its arrays here are not one memory with that: %s\n",
                 store_->name().c_str(), error.what());
  }
  return true;
}

void MappedRegion::hand_over_to_kernel() {
  RegionOptions options = wish_.options;
  options.address = address_;
  options.length = size_;
  options.replacement = Replacement::mapping;
  options.page_size_bytes = page_size_that_fits(size_, region_.page_size_bytes());
  options.advice = options.advice == Advice::will_need ? Advice::normal : options.advice;
  Cache& cache = kernel_->cache();
  Region kernels;
  region_.hand_over([&] {
    kernels = cache.map(store_, options);
    return true;
  });
  region_ = std::move(kernels);
  through_kernel_ = true;
  may_be_handed_over_ = false;
  uses_->pinned_before.merge(uses_->pinned);
}

void MappedRegion::map_again(CacheHandle& cache, std::shared_ptr<Store> store, bool among_processes) {
  RegionOptions options = wish_.options;
  options.address = address_;
  options.length = size_;
  options.replacement = Replacement::mapping;  // Its place is held.
  store_ = std::move(store);
  errands_.forget();
  // Whom the parent's other threads have left it to is not here.
  [[maybe_unused]] const auto* const parents = uses_.release();
  uses_ = std::make_unique<Uses>();
  map(cache, options, among_processes);
}

void MappedRegion::pin(ByteRange range) {
  const std::shared_lock held(uses_->lock);
  region_.pin(range);
  const std::lock_guard noting(uses_->pins_mutex);
  uses_->pinned.emplace(range.offset, range.bytes);
}

void MappedRegion::unpin(ByteRange range) {
  const std::shared_lock held(uses_->lock);
  const Range pin(range.offset, range.bytes);
  {
    const std::lock_guard noting(uses_->pins_mutex);
    if (const auto before = uses_->pinned_before.find(pin); before != uses_->pinned_before.end()) {
      uses_->pinned_before.erase(before);
      return;
    }
  }
  region_.unpin(range);
  const std::lock_guard noting(uses_->pins_mutex);
  if (const auto known = uses_->pinned.find(pin); known != uses_->pinned.end()) {
    uses_->pinned.erase(known);
  }
}

}  // namespace tiermap::python
