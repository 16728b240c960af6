// The queues that policies are made of: doubly linked lists threaded through one table indexed by FrameId, so that a
// frame leaves whatever list it is in by two writes, without a search and without memory.
//
// A frame is in one place at a time: gone (not in memory), named (a choose_* call has named it and nothing has come
// back yet), or one of the policy's lists. Each list knows how many frames and how many units of 4 KiB it holds; shares
// are of units, because frames differ in size. Every list has an old end, where victims are taken, and a young end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cache/eviction_policy.hpp"
#include "platform/lazy_array.hpp"

namespace tiermap {

/// Where a frame is. Lists are numbered from first_list on; 0 is what an untouched table says.
using Place = std::uint8_t;
inline constexpr Place gone_place = 0;
inline constexpr Place named_place = 1;
inline constexpr Place first_list = 2;

/// A set of `list_count` lists over one table of frames. Not thread-safe; no call allocates or throws but the
/// constructor.
template <std::size_t list_count>
class FrameLists {
 public:
  /// Reserves address space for the frames 0 to max_frames - 1; throws std::system_error.
  explicit FrameLists(FrameId max_frames) : links_(max_frames) {}

  Place place(FrameId frame) const noexcept { return links_[frame].place; }
  bool resident(FrameId frame) const noexcept { return place(frame) != gone_place; }
  std::uint32_t units(FrameId frame) const noexcept { return links_[frame].units; }

  bool empty(Place list) const noexcept { return ends(list).frames == 0; }
  std::uint64_t list_frames(Place list) const noexcept { return ends(list).frames; }
  std::uint64_t list_units(Place list) const noexcept { return ends(list).units; }
  /// The frame at the old end, or no_frame.
  FrameId oldest(Place list) const noexcept { return empty(list) ? no_frame : ends(list).oldest; }
  /// Frames that are not gone, the named ones included.
  std::uint64_t resident_frames() const noexcept { return resident_frames_; }
  /// What they hold.
  std::uint64_t resident_units() const noexcept { return resident_units_; }

  /// A page came into the frame: it counts as resident, named, in no list.
  void enter(FrameId frame, std::uint32_t units) noexcept {
    leave(frame);
    links_[frame].units = units;
    links_[frame].place = named_place;
    ++resident_frames_;
    resident_units_ += units;
  }
  /// The page left the frame.
  void leave(FrameId frame) noexcept {
    if (resident(frame)) {
      name(frame);
      links_[frame].place = gone_place;
      --resident_frames_;
      resident_units_ -= links_[frame].units;
    }
  }
  /// Takes the frame out of its list, if it is in one.
  void name(FrameId frame) noexcept {
    Link& link = links_[frame];
    if (link.place < first_list) {
      return;
    }
    Ends& list = ends(link.place);
    (link.older == no_frame ? list.oldest : links_[link.older].younger) = link.younger;
    (link.younger == no_frame ? list.youngest : links_[link.younger].older) = link.older;
    --list.frames;
    list.units -= link.units;
    link.place = named_place;
  }
  /// Moves a resident frame to the young end of the list.
  void put_young(Place target, FrameId frame) noexcept {
    name(frame);
    Ends& list = ends(target);
    const FrameId neighbour = list.frames == 0 ? no_frame : list.youngest;
    links_[frame].older = neighbour;
    links_[frame].younger = no_frame;
    (neighbour == no_frame ? list.oldest : links_[neighbour].younger) = frame;
    list.youngest = frame;
    joined(target, frame);
  }
  /// Moves a resident frame to the old end of the list.
  void put_old(Place target, FrameId frame) noexcept {
    name(frame);
    Ends& list = ends(target);
    const FrameId neighbour = list.frames == 0 ? no_frame : list.oldest;
    links_[frame].younger = neighbour;
    links_[frame].older = no_frame;
    (neighbour == no_frame ? list.youngest : links_[neighbour].older) = frame;
    list.oldest = frame;
    joined(target, frame);
  }

 private:
  struct Link {
    FrameId older;
    FrameId younger;
    std::uint32_t units;
    Place place;
  };
  struct Ends {
    FrameId oldest = no_frame;
    FrameId youngest = no_frame;
    std::uint64_t frames = 0;
    std::uint64_t units = 0;
  };

  Ends& ends(Place list) noexcept { return ends_[static_cast<std::size_t>(list - first_list)]; }
  const Ends& ends(Place list) const noexcept { return ends_[static_cast<std::size_t>(list - first_list)]; }
  void joined(Place target, FrameId frame) noexcept {
    Ends& list = ends(target);
    ++list.frames;
    list.units += links_[frame].units;
    links_[frame].place = target;
  }

  LazyArray<Link> links_;
  std::array<Ends, list_count> ends_{};
  std::uint64_t resident_frames_ = 0;
  std::uint64_t resident_units_ = 0;
};

}  // namespace tiermap
