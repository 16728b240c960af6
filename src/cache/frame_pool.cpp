#include "cache/frame_pool.hpp"

#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <string>
#include <utility>

#include "platform/drop_pages.hpp"
#include "platform/page_sizes.hpp"
#include "platform/populate.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

AddressRange reserve_for_budget(std::uint64_t bytes, std::uint64_t alignment) {
  try {
    return AddressRange::reserve(bytes, alignment, PROT_READ | PROT_WRITE);
  } catch (const PlatformError& error) {
    throw PlatformError(error.code().value(), std::string(error.what()) + ", or give a smaller budget");
  }
}

}  // namespace

FramePool::FramePool(std::uint64_t budget_bytes, std::uint64_t most_budget_bytes, unsigned shards, bool contiguous)
    : budget_bytes_(budget_bytes),
      most_budget_bytes_(most_budget_bytes),
      contiguous_(contiguous),
      records_(static_cast<std::size_t>(names_a_shard(most_budget_bytes)) * shards) {
  arenas_.reserve(most_arenas);  // Readers index it without a lock: it must never move.
}

FrameArena& FramePool::add_arena(std::uint64_t frame_bytes, unsigned shard) {
  auto made = std::make_unique<FrameArena>();
  const std::uint64_t slots = most_budget_bytes_ / frame_bytes + 1;
  const std::uint64_t bytes = slots * frame_bytes;
  const std::uint64_t alignment = frame_bytes < huge_page_bytes ? huge_page_bytes : frame_bytes;
  made->memory = reserve_for_budget(bytes, alignment);
  // Huge pages move as one page-table entry, but only between ranges that both ask for them. Smaller frames must not
  // get them: a frame of 64 KiB that the kernel backs with 2 MiB would break the budget.
  ::madvise(made->memory.data(), bytes, frame_bytes >= huge_page_bytes ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  made->frame_bytes = frame_bytes;
  made->frame_shift = static_cast<unsigned>(std::countr_zero(frame_bytes));
  made->first_frame = next_first_frame_;
  made->slots = static_cast<FrameId>(slots);
  made->chunk_slots =
      contiguous_ && frame_bytes < huge_page_bytes ? static_cast<FrameId>(huge_page_bytes / frame_bytes) : 1;
  made->shard = shard;
  made->hashes = LazyArray<BlockHash>(bytes / block_bytes);
  if (std::uint64_t{next_first_frame_} + slots > records_.size()) {
    throw PlatformError(ENOMEM, "out of frame names: use a smaller budget or fewer page sizes in one cache");
  }
  next_first_frame_ += made->slots;
  arenas_.push_back(std::move(made));
  return *arenas_.back();
}

FrameArena& FramePool::arena_of(FrameId frame) noexcept {
  const std::size_t count = arena_count_.load(std::memory_order_acquire);
  for (std::size_t index = 0; index < count; ++index) {
    FrameArena& candidate = *arenas_[index];
    if (frame - candidate.first_frame < candidate.slots) {
      return candidate;
    }
  }
  __builtin_unreachable();
}

std::byte* FramePool::address(FrameId frame) noexcept {
  FrameArena& arena = arena_of(frame);
  return arena.memory.data() + (std::uint64_t{frame - arena.first_frame} << arena.frame_shift);
}

BlockHash* FramePool::hashes(FrameId frame) noexcept {
  FrameArena& arena = arena_of(frame);
  return arena.hashes.data() + std::uint64_t{frame - arena.first_frame} * (arena.frame_bytes / block_bytes);
}

void FramePool::push(FrameId& list, FrameId frame) noexcept {
  records_[frame].next_free = list;
  list = frame;
}

FrameId FramePool::pop(FrameId& list) noexcept {
  const FrameId frame = list;
  if (frame != no_frame) {
    list = records_[frame].next_free;
  }
  return frame;
}

FrameId FramePool::pop_hole(FrameArena& arena) noexcept {
  const FrameId used_before = pop(arena.hole_list);
  if (used_before != no_frame) {
    return used_before;
  }
  return arena.fresh_slots + arena.top_slots < arena.slots ? arena.first_frame + arena.fresh_slots++ : no_frame;
}

FrameId FramePool::pop_free_of_other(const FrameArena& arena) noexcept {
  const std::size_t count = arena_count_.load(std::memory_order_acquire);
  for (std::size_t index = 0; index < count; ++index) {
    if (arenas_[index].get() != &arena && arenas_[index]->free_list != no_frame) {
      return pop(arenas_[index]->free_list);
    }
  }
  return no_frame;
}

// Commits the next chunk if it is whole, and the budget has room for all of it.
bool FramePool::take_chunk(FrameArena& arena, FrameId& first) noexcept {
  const std::uint64_t wanted = cost(arena.frame_bytes) * arena.chunk_slots;
  if (arena.chunk_slots == 1 || arena.fresh_slots % arena.chunk_slots != 0 ||
      arena.slots - arena.fresh_slots - arena.top_slots < arena.chunk_slots ||
      committed_bytes() + wanted > budget_bytes()) {
    return false;
  }
  first = arena.first_frame + arena.fresh_slots;
  arena.fresh_slots += arena.chunk_slots;
  committed_bytes_.fetch_add(wanted, std::memory_order_relaxed);
  return true;
}

// Gives a chunk its memory; the first frame is the caller's, the others become free.
void FramePool::fill_chunk(FrameArena& arena, FrameId first) noexcept {
  const bool usable = populate_in_one_piece(address(first), huge_page_bytes) == 0;
  // Not as the arena has it now: another thread's chunk may have failed meanwhile.
  const auto slots = static_cast<FrameId>(huge_page_bytes / arena.frame_bytes);
  const std::lock_guard held(lock_);
  for (FrameId frame = first + slots; frame-- > first;) {
    records_[frame].populated = usable;
    if (frame != first) {
      push(usable ? arena.free_list : arena.hole_list, frame);
    }
  }
  const std::uint64_t others = cost(arena.frame_bytes) * (slots - 1);
  if (usable) {
    free_bytes_.fetch_add(others, std::memory_order_relaxed);
  } else {
    committed_bytes_.fetch_sub(others, std::memory_order_relaxed);
    arena.chunk_slots = 1;
  }
}

// Takes a free frame with memory, or else a hole if the budget has room, alone or with its chunk.
FramePool::Taken FramePool::take_locked(FrameArena& arena) noexcept {
  Taken taken;
  const std::uint64_t wanted = cost(arena.frame_bytes);
  taken.frame = pop(arena.free_list);
  if (taken.frame != no_frame) {
    free_bytes_.fetch_sub(wanted, std::memory_order_relaxed);
    return taken;
  }
  if (committed_bytes() + wanted <= budget_bytes()) {
    if (arena.hole_list == no_frame && take_chunk(arena, taken.first_of_chunk)) {
      return taken;
    }
    taken.frame = commit_hole(arena, pop_hole(arena));
    return taken;
  }
  taken.to_drop = pop_free_of_other(arena);
  if (taken.to_drop != no_frame) {
    free_bytes_.fetch_sub(cost(arena_of(taken.to_drop).frame_bytes), std::memory_order_relaxed);
  }
  return taken;
}

// Takes a slot that holds nothing, if the budget has room.
FrameId FramePool::take_hole_locked(FrameArena& arena) noexcept {
  if (committed_bytes() + cost(arena.frame_bytes) > budget_bytes()) {
    return no_frame;
  }
  FrameId frame = pop(arena.hole_list);
  if (frame == no_frame && arena.fresh_slots + arena.top_slots < arena.slots) {
    frame = arena.first_frame + arena.slots - ++arena.top_slots;
  }
  return commit_hole(arena, frame);
}

// What was a hole, or no_frame, is held from here on.
FrameId FramePool::commit_hole(const FrameArena& arena, FrameId frame) noexcept {
  if (frame != no_frame) {
    records_[frame].populated = false;
    committed_bytes_.fetch_add(cost(arena.frame_bytes), std::memory_order_relaxed);
  }
  return frame;
}

FrameId FramePool::try_take(FrameArena& arena) noexcept {
  while (true) {
    Taken taken;
    {
      const std::lock_guard held(lock_);
      taken = take_locked(arena);
    }
    if (taken.first_of_chunk != no_frame) {
      fill_chunk(arena, taken.first_of_chunk);
      return taken.first_of_chunk;
    }
    if (taken.to_drop == no_frame) {
      return taken.frame;
    }
    drop_memory({&taken.to_drop, 1});
  }
}

bool FramePool::try_take_two(FrameArena& arena, FrameId& data, FrameId& token) noexcept {
  data = try_take(arena);
  if (data == no_frame) {
    return false;
  }
  do {
    const std::lock_guard held(lock_);
    token = take_hole_locked(arena);
  } while (token == no_frame && empty_free(arena));
  token = token == no_frame ? try_take(arena) : token;
  if (token == no_frame) {
    give_back(data, record(data).populated);
    data = no_frame;
    return false;
  }
  if (record(token).populated && !record(data).populated) {
    std::swap(data, token);
  }
  return true;
}

// The frames, of one arena and at most most_dropped_at_once, are held by the caller, in no list; their bytes stay
// committed until their memory is really gone. Together they cost the other processors one interrupt.
void FramePool::drop_memory(std::span<const FrameId> frames) noexcept {
  FrameArena& arena = arena_of(frames.front());
  std::array<iovec, most_dropped_at_once> ranges;
  for (std::size_t index = 0; index < frames.size(); ++index) {
    ranges[index] = {address(frames[index]), arena.frame_bytes};
  }
  drop_pages(std::span(ranges).first(frames.size()));
  const std::lock_guard held(lock_);
  for (const FrameId frame : frames) {
    records_[frame].populated = false;
    push(arena.hole_list, frame);
  }
  committed_bytes_.fetch_sub(frames.size() * cost(arena.frame_bytes), std::memory_order_relaxed);
}

// Makes holes of free frames of small pages: several at once, as each change of page tables interrupts the other
// processors. False if there is hardly one.
bool FramePool::empty_free(FrameArena& arena) noexcept {
  constexpr std::size_t least_at_once = 2;
  constexpr std::size_t most_bytes = 128 << 10;  // Of large ones one is enough: to fill it again takes longer.
  return drop_free(arena, least_at_once, most_bytes / arena.frame_bytes) > 0;
}

// Makes holes of free frames, at most most_dropped_at_once, and returns how many; of none if there are under `least`.
std::size_t FramePool::drop_free(FrameArena& arena, std::size_t least, std::size_t most) noexcept {
  std::array<FrameId, most_dropped_at_once> frames;
  const std::size_t wanted = std::min<std::size_t>(most_dropped_at_once, most);
  std::size_t count = 0;
  {
    const std::lock_guard held(lock_);
    while (count < wanted && arena.free_list != no_frame) {
      frames[count++] = pop(arena.free_list);
    }
    if (count < least) {
      while (count > 0) {
        push(arena.free_list, frames[--count]);
      }
      return 0;
    }
    free_bytes_.fetch_sub(count * cost(arena.frame_bytes), std::memory_order_relaxed);
  }
  drop_memory(std::span(frames).first(count));
  return count;
}

void FramePool::give_back(FrameId frame, bool populated) noexcept {
  FrameArena& arena = arena_of(frame);
  records_[frame].region = nullptr;
  if (populated && committed_bytes() > budget_bytes()) {
    return drop_memory({&frame, 1});
  }
  const std::lock_guard held(lock_);
  records_[frame].populated = populated;
  if (populated) {
    free_bytes_.fetch_add(cost(arena.frame_bytes), std::memory_order_relaxed);
    push(arena.free_list, frame);
  } else {
    committed_bytes_.fetch_sub(cost(arena.frame_bytes), std::memory_order_relaxed);
    push(arena.hole_list, frame);
  }
}

void FramePool::release(FrameId frame) noexcept {
  records_[frame].region = nullptr;
  drop_memory({&frame, 1});
}

void FramePool::release_free(FrameArena& arena, std::uint64_t frames) noexcept {
  while (frames > 0) {
    const std::size_t dropped = drop_free(arena, 1, std::min<std::uint64_t>(frames, most_dropped_at_once));
    if (dropped == 0) {
      return;
    }
    frames -= dropped;
  }
}

void FramePool::set_budget_bytes(std::uint64_t bytes) noexcept {
  budget_bytes_.store(bytes, std::memory_order_relaxed);
  // Free frames go first: they hold nothing.
  while (committed_bytes() > bytes) {
    FrameId frame = no_frame;
    {
      const std::lock_guard held(lock_);
      for (std::size_t index = 0; index < arena_count_.load(std::memory_order_acquire) && frame == no_frame; ++index) {
        frame = pop(arenas_[index]->free_list);
      }
      if (frame != no_frame) {
        free_bytes_.fetch_sub(cost(arena_of(frame).frame_bytes), std::memory_order_relaxed);
      }
    }
    if (frame == no_frame) {
      return;
    }
    drop_memory({&frame, 1});
  }
}

std::uint64_t FramePool::available_bytes() const noexcept {
  const std::uint64_t budget = budget_bytes();
  const std::uint64_t committed = committed_bytes();
  return (budget > committed ? budget - committed : 0) + free_bytes_.load(std::memory_order_relaxed);
}

}  // namespace tiermap
