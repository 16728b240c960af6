#include "region/userfaultfd_engine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "config/size.hpp"
#include "platform/clock.hpp"
#include "platform/memory_limits.hpp"
#include "region/budget_adapter.hpp"
#include "region/paged_region_implementation.hpp"
#include "store/overlay_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// What is copied by choice, where pages could be moved too: measured, see docs/benchmarks.md.
constexpr std::uint64_t largest_copied_page_bytes = 16 << 10;

std::uint64_t wanted_features(FaultMode mode, std::uint64_t kernel_features) {
  const std::uint64_t wanted = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_MOVE | UFFD_FEATURE_POISON |
                               UFFD_FEATURE_THREAD_ID | (mode == FaultMode::self_serving ? UFFD_FEATURE_SIGBUS : 0);
  return wanted & kernel_features;
}

bool decide_move(Placement placement, std::uint64_t kernel_features) {
  const bool can_move = (kernel_features & UFFD_FEATURE_MOVE) != 0;
  if (placement == Placement::move && !can_move) {
    throw PlatformError(EINVAL, "placement move needs UFFDIO_MOVE, which Linux has since 6.8: use placement copy");
  }
  return can_move && placement != Placement::copy;
}

std::vector<Userfaultfd> open_userfaultfds(std::uint32_t shards, std::uint64_t features) {
  std::vector<Userfaultfd> opened;
  for (std::uint32_t shard = 0; shard < shards; ++shard) {
    opened.push_back(Userfaultfd::open(features));
  }
  return opened;
}

// As far as the budget may ever be raised: the arenas' address space is reserved for that much, for each page size
// anew. Where there is little of it, none is for what may never come.
std::uint64_t most_budget(std::uint64_t budget_bytes) {
  constexpr std::uint64_t most_reservations = 16;
  const std::uint64_t most = std::min(read_machine_memory().total, FramePool::largest_budget_bytes);
  return most > address_limit_bytes() / most_reservations ? budget_bytes : std::max(budget_bytes, most);
}

// With much memory there are names of frames for few shards only.
ResolvedCacheOptions with_shards_that_have_names(ResolvedCacheOptions options) {
  if (options.budget_bytes > FramePool::largest_budget_bytes) {
    throw OptionError("budget of " + format_size(options.budget_bytes) + " is over the " +
                      format_size(FramePool::largest_budget_bytes) +
                      " that one cache can have: give less, or make several caches");
  }
  const std::uint64_t most_shards = FramePool::most_shards(most_budget(options.budget_bytes));
  options.shards = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.shards, most_shards));
  return options;
}

// Until the evictors are awake, each processor can serve some hundred faults on small pages.
std::uint64_t enough_for_small_faults() {
  constexpr std::uint64_t least = 4 << 20;
  constexpr std::uint64_t a_processor = 1 << 20;
  return std::max<std::uint64_t>(least, std::thread::hardware_concurrency() * a_processor);
}

}  // namespace

UserfaultfdEngine::UserfaultfdEngine(const ResolvedCacheOptions& options, FaultMode mode, std::string reason,
                                     std::uint64_t kernel_features)
    : Engine(mode, std::move(reason)),
      options_(with_shards_that_have_names(options)),
      move_(decide_move(options.placement, kernel_features)),
      publication_(options.name, options.policy, mode == FaultMode::notify ? "notify" : "self-serving",
                   options.publish_statistics),
      userfaultfds_(open_userfaultfds(options_.shards, wanted_features(mode, kernel_features))),
      frames_(options.budget_bytes, most_budget(options.budget_bytes), options_.shards, move_),
      policy_(make_eviction_policy(options.policy, {.max_frames = frames_.max_frames(),
                                                    .capacity_units = options.budget_bytes / block_bytes,
                                                    .hot_share_percent = options.hot_share_percent,
                                                    .unmapped_share_percent = options.unmapped_share_percent})),
      recorder_(options.trace_file.empty()
                    ? nullptr
                    : std::make_unique<TraceRecorder>(options.trace_file, options.budget_bytes, options.policy)),
      pager_(frames_, *policy_, publication_.cache_counters(),
             {.self_serving = mode == FaultMode::self_serving,
              .move = move_,
              .largest_copied_page_bytes = options.placement == Placement::automatic ? largest_copied_page_bytes : 0,
              .high_watermark_percent = options.high_watermark_percent,
              .low_watermark_percent = options.low_watermark_percent,
              .most_spare_small_bytes =
                  options.watermarks_chosen ? std::numeric_limits<std::uint64_t>::max() : enough_for_small_faults(),
              .small_pages_too = options.unmapped_share_percent != 0,
              .access_source = options.access_source.get(),
              .recorder = recorder_.get()}),
      fillers_(pager_, options.fillers),
      evictors_(pager_, options.evictors),
      writers_(pager_) {
  if (options.budget_bytes < minimum_for(block_bytes, !move_)) {
    throw OptionError("budget of " + std::to_string(options.budget_bytes) +
                      " bytes is under the least that can work: give at least " +
                      std::to_string(minimum_for(block_bytes, !move_)) + " bytes");
  }
  publication_.cache_counters().budget_bytes.store(options.budget_bytes);
  if (mode == FaultMode::self_serving) {
    self_serving_.emplace(pager_, fillers_);
  } else {
    notify_.emplace(pager_, fillers_, index_, std::span<const Userfaultfd>(userfaultfds_),
                    NotifyEngine::Settings{.managers = options.managers,
                                           .max_fault_events = options.max_fault_events,
                                           .spin_microseconds = options.spin_microseconds});
  }
  if (options.adapt_budget) {
    adapter_ = std::make_unique<BudgetAdapter>(
        options, frames_.most_budget_bytes(),
        BudgetAdapter::Hooks{.sample =
                                 [this] {
                                   const Statistics now = statistics();
                                   return BudgetAdapter::Sample{.budget_bytes = now.budget_bytes,
                                                                .used_bytes = now.resident_bytes,
                                                                .faults = now[Counter::fills],
                                                                .minimum_bytes = minimum_budget_bytes()};
                                 },
                             .set_budget = [this](std::uint64_t bytes) { set_budget_bytes(bytes); }});
  }
}

UserfaultfdEngine::~UserfaultfdEngine() {
  adapter_.reset();
}

std::uint64_t UserfaultfdEngine::minimum_for(std::uint64_t page_bytes, bool copies) const noexcept {
  // Copying takes a second frame while it lasts, and drops what it evicts.
  return FramePool::cost(page_bytes) * (copies ? 2 * least_frames : least_frames);
}

std::uint64_t UserfaultfdEngine::minimum_budget_bytes() const noexcept {
  const std::lock_guard held(regions_mutex_);
  std::uint64_t least = minimum_for(block_bytes, !move_);
  for (const PagedRegionImplementation* region : regions_) {
    least = std::max(least, minimum_for(region->page_size_bytes(), !move_ || region->region_.sealed.load()));
  }
  return least + pinned_bytes_.load(std::memory_order_relaxed) + promised_bytes_.load();
}

UserfaultfdEngine::PinPromise::PinPromise(UserfaultfdEngine& engine, std::uint64_t cost, std::uint64_t range_bytes)
    : engine_(engine), bytes_(cost) {
  const std::lock_guard one_at_a_time(engine.budget_mutex_);
  if (engine.minimum_budget_bytes() + cost > engine.budget_bytes()) {
    throw Error(ENOMEM, "pinning " + format_size(range_bytes) + " leaves too little of the budget of " +
                            format_size(engine.budget_bytes()) + ": pin less, or raise the budget");
  }
  engine.promised_bytes_.fetch_add(cost);
}

void UserfaultfdEngine::set_budget_bytes(std::uint64_t bytes) {
  const std::lock_guard one_at_a_time(budget_mutex_);
  const std::uint64_t least = minimum_budget_bytes();
  if (bytes < least) {
    throw OptionError("budget of " + std::to_string(bytes) +
                      " bytes is under the least that can serve the mapped regions: give at least " +
                      std::to_string(least) + " bytes");
  }
  if (bytes > frames_.most_budget_bytes()) {
    const bool limited =
        frames_.most_budget_bytes() == options_.budget_bytes && options_.budget_bytes < read_machine_memory().total;
    throw OptionError("budget of " + format_size(bytes) + " is over " +
                      (limited ? "what this cache began with, under a limit of addresses (ulimit -v or -d), "
                               : "this machine's memory of ") +
                      format_size(frames_.most_budget_bytes()) + ": give less");
  }
  const std::uint64_t before = frames_.budget_bytes();
  const std::uint32_t exhausted_before = pager_.exhausted_passes.load();
  const std::uint64_t started = now_nanoseconds();
  pager_.shrinking.store(bytes < before);
  frames_.set_budget_bytes(bytes);
  pager_.capacity_changed(bytes / block_bytes);
  while (frames_.committed_bytes() > bytes) {
    const std::uint32_t epoch = pager_.supply.load(std::memory_order_acquire);
    if (pager_.exhausted(exhausted_before, started)) {
      frames_.set_budget_bytes(before);
      pager_.capacity_changed(before / block_bytes);
      pager_.shrinking.store(false);
      throw Error(ENOMEM, "budget cannot shrink to " + format_size(bytes) + ": pinned or unwritten pages hold " +
                              format_size(frames_.committed_bytes()) + "; unpin or sync first");
    }
    pager_.wait_for_supply(epoch, 20'000'000);
    pager_.pass_on_supply();
    frames_.set_budget_bytes(bytes);  // What has become free goes.
  }
  pager_.shrinking.store(false);
  memory_.change(bytes);
  publication_.cache_counters().budget_bytes.store(bytes);
}

void UserfaultfdEngine::hold(MemoryPromise promise) {
  const std::lock_guard one_at_a_time(budget_mutex_);
  promise.change(frames_.budget_bytes());
  promise.count_taken([this] { return frames_.committed_bytes(); });
  memory_ = std::move(promise);
}

Statistics UserfaultfdEngine::statistics() const {
  return const_cast<Publication&>(publication_).cache_counters().snapshot();
}

FrameArena& UserfaultfdEngine::arena_for(std::uint64_t page_bytes, unsigned shard) {
  return frames_.arena(page_bytes, shard, [&](void* memory, std::size_t bytes) {
    // Pages are moved back into the arena, so it must be registered; for write-protection only, so that filling a slot
    // does not fault to us.
    if (const int error = userfaultfds_[shard].register_range(memory, bytes, UFFDIO_REGISTER_MODE_WP); error != 0) {
      throw PlatformError(-error, "cannot register memory with userfaultfd: use fault mode kernel");
    }
  });
}

std::shared_ptr<StoreTraffic> UserfaultfdEngine::traffic_of(const std::shared_ptr<Store>& store) {
  for (const PagedRegionImplementation* region : regions_) {
    if (region->region_.store == store) {
      return region->region_.traffic;
    }
  }
  auto traffic = std::make_shared<StoreTraffic>();
  traffic->reads.set_most(store->max_reads_in_flight());
  traffic->writes.set_most(store->max_writes_in_flight());
  return traffic;
}

void UserfaultfdEngine::check_budget(std::uint64_t page_bytes) const {
  const std::uint64_t least =
      minimum_for(page_bytes, !move_) + pinned_bytes_.load(std::memory_order_relaxed) + promised_bytes_.load();
  if (frames_.budget_bytes() < least) {
    throw OptionError("budget of " + format_size(frames_.budget_bytes()) + " cannot serve pages of " +
                      format_size(page_bytes) + ": give at least " + std::to_string(least) +
                      " bytes, or choose a smaller page size");
  }
}

void UserfaultfdEngine::check_room(const RegionOptions& options, const ResolvedRegionOptions& resolved) const {
  check_budget(resolved.page_size_bytes);
  Engine::check_room(options, resolved);
}

void UserfaultfdEngine::attach(PagedRegionImplementation& region) {
  const std::lock_guard one_at_a_time(budget_mutex_);
  const std::lock_guard held(regions_mutex_);
  check_budget(region.page_size_bytes());
  PagedRegion& inner = region.region_;
  inner.id = next_region_id_++;
  inner.pager = &pager_;
  inner.shard = next_shard_++ % options_.shards;
  inner.userfaultfd = &userfaultfds_[inner.shard];
  inner.arena = &arena_for(inner.page_bytes, inner.shard);
  inner.traffic = traffic_of(inner.store);
  for (PagedRegion* const same_bytes : {region.small_.get(), region.wide_.get()}) {
    if (same_bytes != nullptr) {
      same_bytes->id = next_region_id_++;  // One more than the size before: a trace says by that whose bytes they are.
      same_bytes->pager = &pager_;
      same_bytes->shard = inner.shard;
      same_bytes->userfaultfd = inner.userfaultfd;
      same_bytes->arena = &arena_for(same_bytes->page_bytes, same_bytes->shard);
      same_bytes->traffic = inner.traffic;
    }
  }
  regions_.push_back(&region);
}

void UserfaultfdEngine::detach(PagedRegionImplementation& region) {
  const std::lock_guard held(regions_mutex_);
  std::erase(regions_, &region);
}

std::shared_ptr<RegionImplementation> UserfaultfdEngine::map(std::shared_ptr<Store> store, const RegionOptions& options,
                                                             const ResolvedRegionOptions& resolved) {
  if (options.sharing == Sharing::private_copy) {
    const std::uint64_t end = options.offset + std::max(options.length, options.reserve_bytes);
    store = std::make_shared<OverlayStore>(std::move(store), end);
  }
  auto self = std::static_pointer_cast<UserfaultfdEngine>(shared_from_this());
  return std::make_shared<PagedRegionImplementation>(std::move(self), std::move(store), options, resolved);
}

std::shared_ptr<Engine> make_userfaultfd_engine(const ResolvedCacheOptions& options, FaultMode mode,
                                                std::string reason) {
  return std::make_shared<UserfaultfdEngine>(options, mode, std::move(reason), probe_userfaultfd().features);
}

}  // namespace tiermap
