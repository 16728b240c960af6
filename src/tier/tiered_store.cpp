#include "tier/tiered_store.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <limits>

#include "observe/published_tiers.hpp"
#include "platform/write_unless_closed.hpp"
#include "tier/capped_store.hpp"
#include "tier/open_tiers.hpp"
#include "tier/throttled_store.hpp"
#include "tier/tiering_options.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// What grows beyond so much, and beyond twice its size when it was opened, is in the backing store only.
constexpr std::uint64_t least_reach_bytes = 1ULL << 40;
/// A write of less than such a part of a block is not worth reading the rest of it.
constexpr std::uint64_t part_worth_bringing = 4;

static_assert(PublishedTiers::max_tiers == most_tiers + 1);

/// What is only read stays as it is.
std::uint64_t most_bytes_of(const Store& backing) {
  return backing.writable() ? std::numeric_limits<std::uint64_t>::max() : backing.size_bytes();
}

std::shared_ptr<Store> as_it_likes(std::shared_ptr<Store> backing) {
  const bool capped = backing->max_reads_in_flight() != 0 || backing->max_writes_in_flight() != 0;
  return capped ? std::make_shared<CappedStore>(std::move(backing)) : std::move(backing);
}

std::shared_ptr<Store> as_slow_as_said(std::shared_ptr<Store> backing, const TieringOptions& options) {
  if (!options.backing_emulated) {
    return backing;
  }
  return std::make_shared<ThrottledStore>(std::move(backing), options.backing_bytes_per_second,
                                          options.backing_latency_microseconds);
}

BlockMover::Warn warn_of(const TieringOptions& options) {
  if (options.warn) {
    return options.warn;
  }
  return [](const std::string& line) { tell_unless_closed("tiermap: " + line + "\n"); };
}

}  // namespace

TieredStore::TieredStore(std::shared_ptr<Store> backing, const TieringOptions& options)
    : TieredStore(backing, options, open_tiers(options, most_bytes_of(*backing), warn_of(options))) {}

TieredStore::TieredStore(std::shared_ptr<Store> backing, const TieringOptions& options,
                         std::vector<std::unique_ptr<Tier>> tiers)
    : process_(::getpid()),
      backing_(as_it_likes(as_slow_as_said(std::move(backing), options))),
      block_bytes_(options.block_bytes),
      emulated_(
          options.backing_emulated ||
          std::ranges::any_of(options.tiers, [](const TierOptions& tier) { return tier.kind == TierKind::emulated; })),
      backing_cost_per_gigabyte_(options.backing_cost_per_gigabyte),
      blocks_(std::move(tiers), std::max(least_reach_bytes, 2 * backing_->size_bytes()) / block_bytes_,
              {options.score_window_seconds * 1000, options.score_half_life_seconds * 1000}),
      mover_(blocks_, backing_, block_bytes_, warn_of(options)) {
  if (const std::string order = order_of_tiers(options); !order.empty()) {
    warn_of(options)(order);
  }
  mover_.expect_backing(options.backing_bytes_per_second, options.backing_latency_microseconds);
  if (!options.tiers.empty()) {
    const OrganizerOptions organizing{options.organize_seconds, options.write_down_seconds, options.retry_seconds};
    organizer_ = std::make_unique<Organizer>(blocks_, mover_, organizing, [this] { publish(); });
  }
}

TieredStore::~TieredStore() {
  if (in_child()) {
    // NOLINTNEXTLINE(bugprone-unused-return-value): its thread is the parent's.
    static_cast<void>(organizer_.release());
    return;
  }
  organizer_.reset();
  try {
    write_all_down();
  } catch (const std::exception&) {  // Who wants to know unmaps the region, which calls settle().
  }
}

bool TieredStore::in_child() const noexcept {
  return ::getpid() != process_;
}

std::string TieredStore::name() const {
  return backing_->name() + (emulated_ ? " behind emulated tiers" : " behind tiers");
}

TieredStore::Piece TieredStore::piece_at(std::uint64_t offset, std::uint64_t end) const noexcept {
  const std::uint64_t from = offset % block_bytes_;
  return {offset / block_bytes_, from, std::min(block_bytes_ - from, end - offset)};
}

std::int64_t TieredStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (in_child()) {
    return -EBUSY;
  }
  const std::uint64_t size = mover_.end();
  if (offset >= size) {
    return 0;
  }
  const std::uint64_t end = offset + std::min<std::uint64_t>(bytes, size - offset);
  bool begins_behind = false;
  for (std::uint64_t at = offset; at < end;) {
    const Piece piece = piece_at(at, end);
    bool behind = false;
    if (const int error = read_piece(piece, static_cast<char*>(buffer) + (at - offset), behind); error != 0) {
      return at > offset ? static_cast<std::int64_t>(at - offset) : error;
    }
    begins_behind = at == offset ? behind : begins_behind;
    at += piece.bytes;
  }
  return begins_behind && mover_.is_cut_off(offset) ? -EIO : static_cast<std::int64_t>(end - offset);
}

/// Whether it was read from the store behind is said in `behind`.
int TieredStore::read_piece(const Piece& piece, char* buffer, bool& behind) {
  const std::uint64_t offset = piece.block * block_bytes_ + piece.from;
  if (!has_tiers_for(piece.block)) {
    behind = true;
    return mover_.read_backing(offset, buffer, piece.bytes);
  }
  {
    const BlockUse use(blocks_, piece.block);
    const TierPlace place = use.place();
    if (place.tier != in_backing) {
      Tier& tier = blocks_.tier(place.tier);
      const int error = tier.read(place.slot, piece.from, buffer, static_cast<std::size_t>(piece.bytes));
      tier.served.count_read(piece.bytes);
      if (error == 0 || place.dirty) {
        return error;
      }
      mover_.fail(place.tier, error);
    }
    if (place.tier != in_backing || !blocks_.has_room()) {
      behind = true;
      backing_served_.count_read(piece.bytes);
      return mover_.read_backing(offset, buffer, piece.bytes);
    }
  }
  return bring_and_read(piece, buffer, behind);
}

int TieredStore::bring_and_read(const Piece& piece, char* buffer, bool& behind) {
  BlockBuffer block(block_bytes_);
  BlockOwnership owned(blocks_, piece.block);
  const int error = mover_.read_block(owned, block);
  if (error != 0) {
    return error;
  }
  std::memcpy(buffer, block.data() + piece.from, static_cast<std::size_t>(piece.bytes));
  behind = owned.place().tier == in_backing;
  if (behind) {
    backing_served_.count_read(piece.bytes);
  }
  if (behind && !mover_.lacks_its_end(piece.block)) {
    mover_.put_in_tier(owned, 0, block, false);  // Otherwise it stays where it is.
    owned.note_passing();
    note_room();
  }
  return 0;
}

std::int64_t TieredStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (in_child()) {
    return -EBUSY;
  }
  const std::uint64_t end = offset + bytes;
  if (end > size_bytes()) {
    if (!growable()) {
      return -ENOSPC;
    }
    if (const int error = mover_.lengthen(end); error != 0) {
      return error;
    }
  }
  for (std::uint64_t at = offset; at < end;) {
    const Piece piece = piece_at(at, end);
    if (const int error = write_piece(piece, static_cast<const char*>(buffer) + (at - offset)); error != 0) {
      return at > offset ? static_cast<std::int64_t>(at - offset) : error;
    }
    at += piece.bytes;
  }
  return static_cast<std::int64_t>(bytes);
}

int TieredStore::write_piece(const Piece& piece, const char* buffer) {
  if (!has_tiers_for(piece.block)) {
    return mover_.write_backing(piece.block * block_bytes_ + piece.from, buffer, piece.bytes);
  }
  {
    BlockUse use(blocks_, piece.block);
    const TierPlace place = use.place();
    if (place.tier == in_backing) {
      const bool worth_it =
          piece.bytes * part_worth_bringing >= mover_.bytes_in(piece.block) && blocks_.has_room_for_changes();
      if (!worth_it) {
        backing_served_.count_write(piece.bytes);
        return mover_.write_backing(piece.block * block_bytes_ + piece.from, buffer, piece.bytes);
      }
    } else if (Tier& tier = blocks_.tier(place.tier);
               tier.holds_changes() && (place.dirty || !blocks_.has_failed(place.tier))) {
      tier.served.count_write(piece.bytes);
      const int error = tier.write(place.slot, piece.from, buffer, static_cast<std::size_t>(piece.bytes));
      if (error == 0) {
        use.note_written();
        return 0;
      }
      mover_.fail(place.tier, error);
    }
  }
  return bring_and_write(piece, buffer);
}

// Also where its tier failed: then what was there goes with it.
int TieredStore::bring_and_write(const Piece& piece, const char* buffer) {
  const std::uint64_t begin = piece.block * block_bytes_;
  BlockBuffer block(block_bytes_);
  BlockOwnership owned(blocks_, piece.block);
  const bool is_new = owned.place().tier == in_backing;
  const bool is_copy = owned.place().tier != in_backing && !owned.place().dirty;
  if (is_copy && !blocks_.has_room_for_changes()) {
    return write_through(owned, piece, buffer);
  }
  // Only now: before, another thread may have made the store longer, and put something there.
  const std::uint64_t there = mover_.bytes_in(piece.block);
  const bool whole = piece.from == 0 && piece.bytes >= there;
  if (const int error = whole ? 0 : mover_.read_block(owned, block); error != 0) {
    return error;
  }
  std::memcpy(block.data() + piece.from, buffer, static_cast<std::size_t>(piece.bytes));
  if (whole) {
    std::memset(block.data() + piece.bytes, 0, static_cast<std::size_t>(block_bytes_ - piece.bytes));
  }
  if (mover_.put_in_tier(owned, 0, block, true) == 0) {
    blocks_.tier(owned.place().tier).served.count_write(piece.bytes);
    if (is_new) {
      owned.note_passing();
    }
    note_room();
    return 0;
  }
  if (is_copy) {
    return write_through(owned, piece, buffer);
  }
  backing_served_.count_write(piece.bytes);
  if (owned.place().tier == in_backing) {
    return mover_.write_backing(begin + piece.from, buffer, piece.bytes);
  }
  const int error = mover_.write_backing(begin, block.data(), there);
  if (error == 0) {
    owned.leave();
  }
  return error;
}

// The copy that the tier has is what the backing store has, or is none.
int TieredStore::write_through(BlockOwnership& owned, const Piece& piece, const char* buffer) {
  backing_served_.count_write(piece.bytes);
  const TierPlace place = owned.place();
  int error = mover_.write_backing(piece.block * block_bytes_ + piece.from, buffer, piece.bytes);
  if (error != 0) {
    owned.leave();
    return error;
  }
  Tier& tier = blocks_.tier(place.tier);
  tier.served.count_write(piece.bytes);
  error = tier.write(place.slot, piece.from, buffer, static_cast<std::size_t>(piece.bytes));
  if (error != 0) {
    mover_.fail(place.tier, error);
    owned.leave();
  }
  return 0;
}

int TieredStore::write_all_down() {
  if (in_child()) {
    return -EBUSY;
  }
  int first_error = 0;
  for (const std::uint64_t block : blocks_.dirty_blocks()) {
    BlockOwnership owned(blocks_, block);
    const int error = mover_.write_down(owned);
    first_error = first_error != 0 ? first_error : error;
  }
  return first_error;
}

// The store behind may keep what went down elsewhere, as one of objects does: until it has settled nothing is there.
int TieredStore::settle() {
  const int error = write_all_down();
  return error != 0 ? error : backing_->settle();
}

int TieredStore::flush() {
  const int error = write_all_down();
  return error != 0 ? error : backing_->flush();
}

int TieredStore::resize(std::uint64_t bytes) {
  if (in_child()) {
    return -EBUSY;
  }
  const bool shorter = bytes <= size_bytes();
  const int error = mover_.resize(bytes);
  return error != 0 || !shorter ? error : cut_off(bytes);
}

// The backing store is shorter already, so nothing of this goes down any more. The rest of the last block is zeros, as
// it would be if it grew again.
int TieredStore::cut_off(std::uint64_t bytes) {
  for (const std::uint64_t block : blocks_.cut_off_from((bytes + block_bytes_ - 1) / block_bytes_)) {
    BlockOwnership(blocks_, block).leave();
  }
  const std::uint64_t last = bytes / block_bytes_;
  if (bytes % block_bytes_ == 0 || !has_tiers_for(last)) {
    return 0;
  }
  BlockOwnership owned(blocks_, last);
  const TierPlace place = owned.place();
  if (place.tier == in_backing) {
    return 0;
  }
  const std::vector<char> zeros(static_cast<std::size_t>(block_bytes_ - bytes % block_bytes_));
  const int error = blocks_.tier(place.tier).write(place.slot, bytes % block_bytes_, zeros.data(), zeros.size());
  return error == 0 ? 0 : mover_.move(owned, in_backing);
}

int TieredStore::punch(std::uint64_t offset, std::uint64_t bytes) {
  if (in_child()) {
    return -EBUSY;
  }
  const std::uint64_t size = size_bytes();
  const std::uint64_t end = offset < size ? offset + std::min(bytes, size - offset) : offset;
  for (std::uint64_t at = offset; at < end;) {
    const Piece piece = piece_at(at, end);
    if (const int error = punch_piece(piece); error != 0) {
      return error;
    }
    at += piece.bytes;
  }
  return 0;
}

// Below first: a store that cannot says so before anything is lost.
int TieredStore::punch_piece(const Piece& piece) {
  const std::uint64_t offset = piece.block * block_bytes_ + piece.from;
  if (!has_tiers_for(piece.block)) {
    return backing_->punch(offset, piece.bytes);
  }
  {
    BlockOwnership owned(blocks_, piece.block);
    const int error = backing_->punch(offset, piece.bytes);
    if (error != 0 || owned.place().tier == in_backing) {
      return error;
    }
    if (piece.bytes >= mover_.bytes_in(piece.block)) {
      owned.leave();
      return 0;
    }
  }
  const std::vector<char> zeros(static_cast<std::size_t>(piece.bytes));
  return write_piece(piece, zeros.data());
}

void TieredStore::score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept {
  if (in_child()) {
    return;
  }
  const std::uint64_t end = std::min(offset + bytes, size_bytes());
  for (std::uint64_t at = offset; at < end; at = (at / block_bytes_ + 1) * block_bytes_) {
    if (has_tiers_for(at / block_bytes_)) {
      blocks_.score(at / block_bytes_, score, sharer);
    }
  }
}

double TieredStore::read_microseconds(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  const std::uint64_t block = offset / block_bytes_;
  const TierPlace place = has_tiers_for(block) && !in_child() ? blocks_.place(block) : TierPlace();
  return place.tier == in_backing ? mover_.backing_microseconds(bytes)
                                  : transfer_microseconds(blocks_.tier(place.tier).options(), bytes);
}

void TieredStore::show_tiers(PublishedTiers& tiers, bool shown) noexcept {
  if (in_child()) {
    return;
  }
  {
    const std::lock_guard held(shown_mutex_);
    std::erase(shown_, &tiers);
    try {
      if (shown) {
        shown_.push_back(&tiers);
      }
    } catch (const std::exception&) {  // No memory: they are not seen.
    }
  }
  publish();
}

void TieredStore::publish() noexcept {
  const std::lock_guard held(shown_mutex_);
  if (shown_.empty()) {
    return;
  }
  try {
    const std::vector<TierReport> all = reports();
    for (PublishedTiers* const tiers : shown_) {
      tiers->publish(all);
    }
  } catch (const std::exception&) {  // No memory: the next round may have it.
  }
}

void TieredStore::note_room() {
  if (blocks_.is_full(mover_.blocks_in_all())) {
    organizer_->wake();
  }
}

std::vector<TierReport> TieredStore::reports() const {
  if (in_child()) {
    throw Error(ECHILD, name() + " belongs to the process that forked this one: open it again in the child");
  }
  std::vector<TierReport> reports;
  for (std::size_t number = 0; number < blocks_.tier_count(); ++number) {
    const Tier& tier = blocks_.tier(static_cast<TierNumber>(number));
    TierReport report;
    report.name = tier.options().name + (tier.options().kind == TierKind::emulated ? " (emulated)" : "");
    blocks_.report(static_cast<TierNumber>(number), block_bytes_, report);
    report.cost_per_gigabyte = tier.options().cost_per_gigabyte;
    tier.served.report(report);
    reports.push_back(std::move(report));
  }
  TierReport backing;
  backing.name = "backing";
  backing.capacity_bytes = backing.used_bytes = size_bytes();
  backing.cost_per_gigabyte = backing_cost_per_gigabyte_;
  backing_served_.report(backing);
  reports.push_back(std::move(backing));
  return reports;
}

void check_tier_places(const TieringOptions& options) {
  // What there is to say is said by who uses them.
  static_cast<void>(open_tiers(options, 0, [](const std::string&) {}));
}

std::shared_ptr<Store> make_tiered_store(std::shared_ptr<Store> backing, const TieringOptions& options) {
  if (!backing) {
    throw OptionError("tiers need a store behind them: give one that is open");
  }
  return std::make_shared<TieredStore>(std::move(backing), options);
}

std::vector<TierReport> tier_reports(const Store& store) {
  const auto* const tiered = dynamic_cast<const TieredStore*>(&store);
  if (tiered == nullptr) {
    throw OptionError(store.name() + " has no tiers: open it as tiered:///tiers.yaml?store=URL");
  }
  return tiered->reports();
}

}  // namespace tiermap
