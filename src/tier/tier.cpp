#include "tier/tier.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "config/size.hpp"
#include "store/file_store.hpp"
#include "store/memory_store.hpp"
#include "store/store_url.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// What was not measured takes some time, too.
constexpr double least_tier_microseconds = 0.1;

std::uint64_t slots_of(const TierOptions& options, std::uint64_t block_bytes) noexcept {
  return std::min<std::uint64_t>(options.capacity_bytes / block_bytes, std::numeric_limits<TierSlot>::max());
}

/// Gone when it is closed, or this process ends.
std::unique_ptr<Store> make_remote_place(const TierOptions& options, std::uint64_t bytes) {
  const bool says_it = std::ranges::any_of(parse_store_url(options.url).options,
                                           [](const auto& option) { return option.first == "temporary"; });
  const char* const separator = options.url.find('?') == std::string::npos ? "?" : "&";
  try {
    return open_store(says_it ? options.url : options.url + separator + "temporary=true", OpenMode::create, bytes);
  } catch (const StoreError& error) {
    throw StoreError(error.code().value(), "tier " + quote_value(options.name) + ": " + error.what());
  }
}

std::unique_ptr<Store> make_place(const TierOptions& options, std::uint64_t block_bytes) {
  const std::uint64_t bytes = slots_of(options, block_bytes) * block_bytes;
  if (options.kind == TierKind::remote) {
    return make_remote_place(options, bytes);
  }
  if (options.path.empty()) {
    return std::make_unique<MemoryStore>(bytes);
  }
  return FileStore::open_nameless(options.path, "tier " + quote_value(options.name));
}

/// All of it or an error: a tier that ends early is as broken as one that fails.
template <typename Transfer>
int transfer_all(std::size_t bytes, Transfer&& transfer) noexcept {
  std::size_t done = 0;
  while (done < bytes) {
    const std::int64_t part = transfer(done);
    if (part == -EINTR) {
      continue;
    }
    if (part <= 0) {
      return part < 0 ? static_cast<int>(part) : -EIO;
    }
    done += static_cast<std::size_t>(part);
  }
  return 0;
}

}  // namespace

Tier::Tier(const TierOptions& options, std::uint64_t block_bytes)
    : Tier(options, block_bytes, make_place(options, block_bytes)) {}

Tier::Tier(const TierOptions& options, std::uint64_t block_bytes, std::unique_ptr<Store> place)
    : options_(options),
      block_bytes_(block_bytes),
      slots_(slots_of(options, block_bytes)),
      place_(std::move(place)),
      throttle_(options.kind == TierKind::emulated ? options.bytes_per_second : 0,
                options.kind == TierKind::emulated ? options.latency_microseconds : 0) {}

void Tier::hold(MemoryPromise promise) {
  promise.count_taken([this] { return fresh_ * block_bytes_; });
  memory_ = std::move(promise);
}

int Tier::read(TierSlot slot, std::uint64_t from, void* buffer, std::size_t bytes) noexcept {
  throttle_.transfer(bytes);
  return transfer_all(bytes, [&](std::size_t done) {
    return place_->read(static_cast<char*>(buffer) + done, bytes - done, slot * block_bytes_ + from + done);
  });
}

int Tier::write(TierSlot slot, std::uint64_t from, const void* buffer, std::size_t bytes) noexcept {
  throttle_.transfer(bytes);
  return transfer_all(bytes, [&](std::size_t done) {
    return place_->write(static_cast<const char*>(buffer) + done, bytes - done, slot * block_bytes_ + from + done);
  });
}

double transfer_microseconds(const TierOptions& tier, std::uint64_t bytes) noexcept {
  const double moving = tier.bytes_per_second > 0 ? static_cast<double>(bytes) * 1e6 / tier.bytes_per_second : 0;
  return std::max(tier.latency_microseconds + moving, least_tier_microseconds);
}

TierSlot Tier::take(std::uint64_t block) {
  if (free_.empty()) {
    if (free_.capacity() <= holders_.size()) {  // So that giving back needs no memory.
      free_.reserve(2 * holders_.size() + 64);
      unfit_.reserve(free_.capacity());
    }
    holders_.push_back(block);
    return static_cast<TierSlot>(fresh_++);
  }
  const TierSlot slot = free_.back();
  free_.pop_back();
  holders_[slot] = block;
  return slot;
}

void Tier::give_back(TierSlot slot) {
  holders_[slot] = nobody;
  free_.push_back(slot);
}

void Tier::give_back_unfit(TierSlot slot) {
  holders_[slot] = nobody;
  unfit_.push_back(slot);
}

bool Tier::take_to_try(TierSlot& slot) {
  if (!unfit_.empty() && (!failed || free_.empty())) {
    slot = unfit_.back();
    unfit_.pop_back();
    return true;
  }
  if (free_.empty() && fresh_ == slots_) {
    return false;
  }
  slot = take(nobody);
  return true;
}

void Tier::reopen() {
  full = false;
  free_.insert(free_.end(), unfit_.begin(), unfit_.end());
  unfit_.clear();
}

}  // namespace tiermap
