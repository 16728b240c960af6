#include "tier/block_mover.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>

#include "config/size.hpp"
#include "platform/clock.hpp"
#include "platform/page_sizes.hpp"
#include "store/file_open.hpp"
#include "store/located_file.hpp"

namespace tiermap {
namespace {

constexpr std::size_t buffer_alignment = 4096;
/// Of a backing store that was never read from yet.
constexpr double least_backing_microseconds = 1;

std::string named(const TierOptions& tier) {
  return quote_value(tier.name) + (tier.path.empty() ? "" : " in " + quote_value(tier.path)) +
         (tier.url.empty() ? "" : " at " + quote_value(tier.url));
}

/// Of the store behind, which may be the program's own: what leaves it as an exception is -EIO, as where there are no
/// tiers.
template <typename Call>
auto asked(Call&& call) noexcept -> decltype(call()) {
  try {
    return call();
  } catch (...) {
    return -EIO;
  }
}

/// What was written before is there, and can be written over.
bool has_no_room(int error) noexcept {
  return error == -ENOSPC || error == -EDQUOT || error == -EFBIG;
}

}  // namespace

BlockBuffer::BlockBuffer(std::uint64_t bytes)
    : memory_(static_cast<char*>(std::aligned_alloc(buffer_alignment, static_cast<std::size_t>(bytes)))) {
  if (!memory_) {
    throw std::bad_alloc();
  }
}

void BlockBuffer::Release::operator()(char* memory) const noexcept {
  std::free(memory);
}

BlockMover::BlockMover(TierBlocks& blocks, std::shared_ptr<Store> backing, std::uint64_t block_bytes, Warn warn)
    : blocks_(blocks),
      backing_(std::move(backing)),
      block_bytes_(block_bytes),
      warn_(std::move(warn)),
      end_(backing_->size_bytes()) {}

std::uint64_t BlockMover::end() const noexcept {
  return std::max(backing_->size_bytes(), end_.load());
}

std::uint64_t BlockMover::bytes_in(std::uint64_t block) const noexcept {
  const std::uint64_t begin = block * block_bytes_;
  const std::uint64_t behind = end();
  return begin < behind ? std::min(block_bytes_, behind - begin) : 0;
}

bool BlockMover::is_cut_off(std::uint64_t offset) const noexcept {
  const std::uint64_t within = offset % kernel_page_bytes;
  const std::optional<std::uint64_t> there = file_bytes_from(*backing_, offset - within);
  return there.has_value() && *there <= within;
}

std::uint64_t BlockMover::blocks_in_all() const noexcept {
  return (backing_->size_bytes() + block_bytes_ - 1) / block_bytes_;
}

int BlockMover::read_block(const BlockOwnership& owned, BlockBuffer& buffer) {
  const TierPlace place = owned.place();
  if (place.tier == in_backing) {
    return read_backing(owned.block() * block_bytes_, buffer.data(), block_bytes_);
  }
  const int error = blocks_.tier(place.tier).read(place.slot, 0, buffer.data(), block_bytes_);
  if (error == 0 || place.dirty) {
    return error;
  }
  fail(place.tier, error);
  return read_backing(owned.block() * block_bytes_, buffer.data(), block_bytes_);
}

int BlockMover::put_in_tier(BlockOwnership& owned, TierNumber tier, const BlockBuffer& buffer, bool dirty) {
  for (const auto tiers = static_cast<TierNumber>(blocks_.tier_count()); tier < tiers; ++tier) {
    TierSlot slot = 0;
    if ((dirty && !blocks_.tier(tier).holds_changes()) || !owned.reserve(tier, slot)) {
      continue;
    }
    const int error = blocks_.tier(tier).write(slot, 0, buffer.data(), block_bytes_);
    if (error == 0) {
      if (owned.settle_in(tier, slot, dirty)) {
        return 0;
      }
      owned.unreserve(tier, slot);
      return -EAGAIN;
    }
    if (!has_no_room(error)) {
      owned.unreserve(tier, slot);
      fail(tier, error);
    } else if (owned.unreserve_unfit(tier, slot)) {
      tell_full(tier, error);
    }
  }
  return -ENOSPC;
}

int BlockMover::move(BlockOwnership& owned, TierNumber to) {
  if (to == in_backing || !blocks_.tier(to).holds_changes()) {
    const int error = write_down(owned);
    if (error == 0 && to == in_backing) {
      owned.leave();
    }
    if (error != 0 || to == in_backing) {
      return error;
    }
  }
  if (!owned.can_move_to(to)) {
    return -ENOSPC;  // Before anything is read.
  }
  BlockBuffer buffer(block_bytes_);
  const int error = read_block(owned, buffer);
  if (error == 0 && owned.place().tier == in_backing && lacks_its_end(owned.block())) {
    return -EIO;
  }
  return error != 0 ? error : put_in_tier(owned, to, buffer, owned.place().dirty);
}

// What is cut off is not zeros, and is not to become them in a tier.
bool BlockMover::lacks_its_end(std::uint64_t block) const noexcept {
  const std::uint64_t bytes = bytes_in(block);
  return bytes != 0 && is_cut_off(block * block_bytes_ + (bytes - 1) / kernel_page_bytes * kernel_page_bytes);
}

int BlockMover::write_down(BlockOwnership& owned) {
  if (!owned.place().dirty) {
    return 0;
  }
  BlockBuffer buffer(block_bytes_);
  int error = read_block(owned, buffer);
  if (error != 0) {
    fail(owned.place().tier, error, "what it has and the store behind has not is lost, unless it can be read again");
    return error;
  }
  {
    const std::shared_lock held(length_mutex_);
    error = write_backing(owned.block() * block_bytes_, buffer.data(), bytes_in(owned.block()));
  }
  if (error == 0) {
    owned.set_dirty(false);
  }
  return error;
}

void BlockMover::tell_full(TierNumber tier, int error) {
  TierReport report;
  blocks_.report(tier, block_bytes_, report);
  const TierOptions& options = blocks_.tier(tier).options();
  warn_("tier " + named(options) + " is full at " + format_size(report.capacity_bytes) + " of " +
        format_size(options.capacity_bytes) + " (" + error_text(-error) +
        "): slower ones take the rest; nothing is lost");
}

void BlockMover::fail(TierNumber tier, int error, const char* outcome) {
  if (has_no_room(error)) {
    if (blocks_.limit(tier)) {
      tell_full(tier, error);
    }
  } else if (blocks_.fail(tier)) {
    warn_("tier " + named(blocks_.tier(tier).options()) + " takes nothing more (" + error_text(-error) +
          "): slower ones are used; " + outcome);
  }
}

void BlockMover::try_failed(double retry_seconds) {
  for (TierNumber number = 0; number < static_cast<TierNumber>(blocks_.tier_count()); ++number) {
    TierSlot slot = 0;
    if (!blocks_.take_to_try(number, retry_seconds, slot)) {
      continue;
    }
    Tier& tier = blocks_.tier(number);
    const BlockBuffer buffer(block_bytes_);
    const auto bytes = static_cast<std::size_t>(block_bytes_);
    std::memset(buffer.data(), 0, bytes);
    const bool works = tier.write(slot, 0, buffer.data(), bytes) == 0 && tier.read(slot, 0, buffer.data(), bytes) == 0;
    if (blocks_.end_try(number, slot, works)) {
      warn_("tier " + named(tier.options()) + " takes blocks again");
    }
  }
}

int BlockMover::read_backing(std::uint64_t offset, char* buffer, std::uint64_t bytes) noexcept {
  const std::uint64_t begun = now_nanoseconds();
  std::uint64_t done = 0;
  while (done < bytes) {
    const auto rest = static_cast<std::size_t>(bytes - done);
    const std::int64_t got = asked([&] { return backing_->read(buffer + done, rest, offset + done); });
    if (got == -EINTR) {
      continue;
    }
    if (got < 0 || static_cast<std::uint64_t>(got) > rest) {
      return got < 0 ? static_cast<int>(got) : -EIO;
    }
    if (got == 0) {
      break;
    }
    done += static_cast<std::uint64_t>(got);
  }
  std::memset(buffer + done, 0, static_cast<std::size_t>(bytes - done));
  if (done == block_bytes_) {
    const double took = static_cast<double>(now_nanoseconds() - begun);
    const double before = nanoseconds_a_read_.load(std::memory_order_relaxed);
    nanoseconds_a_read_.store(before == 0 ? took : before + (took - before) / 8, std::memory_order_relaxed);
  }
  return 0;
}

int BlockMover::write_backing(std::uint64_t offset, const char* buffer, std::uint64_t bytes) noexcept {
  std::uint64_t done = 0;
  while (done < bytes) {
    const auto rest = static_cast<std::size_t>(bytes - done);
    const std::int64_t put = asked([&] { return backing_->write(buffer + done, rest, offset + done); });
    if (put == -EINTR) {
      continue;
    }
    if (put <= 0) {
      return put < 0 ? static_cast<int>(put) : -EIO;
    }
    done += static_cast<std::uint64_t>(put);
  }
  return 0;
}

int BlockMover::lengthen(std::uint64_t bytes) noexcept {
  const std::unique_lock held(length_mutex_);
  const int error = asked([&] { return backing_->size_bytes() < bytes ? backing_->resize(bytes) : 0; });
  if (error == 0) {
    end_.store(std::max(end_.load(), bytes));
  }
  return error;
}

int BlockMover::resize(std::uint64_t bytes) noexcept {
  const std::unique_lock held(length_mutex_);
  const int error = asked([&] { return backing_->resize(bytes); });
  if (error == 0) {
    end_.store(bytes);
  }
  return error;
}

double BlockMover::backing_microseconds(std::uint64_t bytes) const noexcept {
  const double a_block = nanoseconds_a_read_.load(std::memory_order_relaxed) / 1000;
  return std::max(a_block, least_backing_microseconds) * static_cast<double>(bytes) / static_cast<double>(block_bytes_);
}

void BlockMover::expect_backing(double bytes_per_second, double latency_microseconds) noexcept {
  const double moving = bytes_per_second > 0 ? static_cast<double>(block_bytes_) * 1e9 / bytes_per_second : 0;
  nanoseconds_a_read_.store(moving + latency_microseconds * 1000, std::memory_order_relaxed);
}

}  // namespace tiermap
