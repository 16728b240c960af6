// Recency until a scan is larger than memory, then retention: a choice of two rules, made by measuring both.
//
// A scan that comes round again and is larger than memory defeats every policy that keeps what is young: each page
// leaves just before it is wanted. Keeping any fixed part of the data serves that part from memory on every round, and
// no policy can do better than that. On other accesses keeping a fixed part is wrong. So two sixteenths of the pages
// are samples, each with a sixteenth of the budget: one is always paged by recency (which is segmented FIFO), the other
// by retention. The sample that misses less shows the rest of the pages which rule to follow (set duelling: Qureshi et
// al., ISCA 2007). Of each sixteen neighbouring pages one is in either sample, so that a scan meets both alike.
//
// Each of the three groups of pages has two queues of mapped pages and two of unmapped ones:
//
//   filled --> young --> kept --> idle kept --> freed        recency: one long queue, young behind kept
//                |
//                +-----> idle passing --> freed              retention: kept stays; what leaves young passes through
//
// Under retention the oldest kept pages are unmapped too, so that their use is seen: touched, they go to kept's young
// end; untouched for very long, they are freed, and pages that leave young take their place. A page that is touched
// while it passes becomes a kept one.
//
// Not any pages are kept: evicted ones are remembered, and those that are back soonest take the places of the oldest
// kept ones, one in sixteen of the pages that are filled (absence.hpp). Where pages are popular by degrees, as in
// look-ups, those that are touched most are kept; of a scan, where all come back alike, what is kept changes slowly.
// That needs no hits to be seen, and small pages show none: the engine drops most of them when they are to go.
#pragma once

#include <array>
#include <optional>

#include "cache/policy/absence.hpp"
#include "cache/policy/frame_list.hpp"
#include "cache/policy/ghost_table.hpp"
#include "cache/policy/rule_duel.hpp"
#include "platform/lazy_array.hpp"

namespace tiermap {

class Cyclic final : public EvictionPolicy {
 public:
  static constexpr std::uint32_t default_unmapped_share_percent = 25;
  explicit Cyclic(const PolicyOptions& options);

  void capacity_changed(std::uint64_t capacity_units) override;
  void filled(FrameId frame, PageKey key, std::uint32_t units, FillKind kind) override;
  void rescued(FrameId frame) override;
  void removed(FrameId frame, bool evicted) override;
  void advised(FrameId frame, Hotness hotness) override;
  std::size_t choose_to_unmap(std::span<FrameId> victims) override;
  void unmapped(FrameId frame) override;
  void refused(FrameId frame) override;
  FrameId choose_to_free() override;
  std::uint32_t unmapped_share_percent() const override { return unmapped_share_percent_; }
  std::string_view name() const override { return "cyclic"; }

  enum Group : std::uint8_t { recency_sample, retention_sample, followers };
  /// Which group a page belongs to, where of so many neighbours one is in either sample.
  static Group group_of(PageKey key, std::uint64_t neighbours);

 private:
  static constexpr std::uint8_t group_count = 3;

  struct FramePage {
    std::uint64_t hash;
    std::uint32_t idle_since;  ///< Count of fills when it was unmapped.
    Group group;
    Absence absence;           ///< What is thought of it.
    bool passing;              ///< Was chosen from young under retention.
    bool unmapping;            ///< Was named to be unmapped, and has not been yet.
    std::uint8_t rescues;      ///< How often it was touched while it was unmapped, up to a limit.
    std::uint8_t rounds_left;  ///< How often its turn passes before it is unmapped again, under recency.
  };

  static Place young(Group group) { return static_cast<Place>(first_list + 4 * group); }
  static Place kept(Group group) { return static_cast<Place>(young(group) + 1); }
  static Place idle_passing(Group group) { return static_cast<Place>(young(group) + 2); }
  static Place idle_kept(Group group) { return static_cast<Place>(young(group) + 3); }

  static constexpr Place refused_list = first_list + 4 * group_count;  ///< Named only when nothing else is left.

  std::uint64_t mapped_units(Group group) const;
  std::uint64_t idle_units(Group group) const;
  std::uint64_t kept_units(Group group) const;
  /// Of `neighbours_` parts of the memory.
  std::uint64_t parts(Group group) const { return group == followers ? neighbours_ - 2 : 1; }
  std::uint64_t share_units(Group group) const { return capacity_units_ * parts(group) / neighbours_; }
  std::uint64_t transient_units(Group group) const;
  std::uint64_t most_kept_units(Group group) const;
  bool keeps_too_much(Group group) const;
  bool drops() const { return unmapped_since_drop_ < most_unmapped_between_drops; }
  bool retains(Group group) const;
  bool long_idle(FrameId frame) const;
  void choose_samples(std::uint32_t units);
  void note_rest();
  std::optional<GhostTable::Remembered> recall(std::uint64_t hash);
  bool takes_place_of_kept(Group group, Absence absence, Absence now);
  void count_miss(Group group);
  void settle_young(Group group);
  void return_one_refused();
  FrameId next_victim();
  FrameId oldest_mapped(Group group);
  bool has_spare(Group group) const;
  FrameId oldest_idle(Group group) const;

  /// Where pages are dropped, this many are unmapped between two drops at most.
  static constexpr std::uint32_t most_unmapped_between_drops = 128;

  std::uint32_t unmapped_share_percent_;
  std::uint64_t capacity_units_;
  std::uint32_t fills_ = 0;                                        ///< The clock; wraps around.
  std::uint64_t fills_since_read_ahead_ = std::uint64_t{1} << 62;  ///< None yet.
  bool sampled_ = false;                                           ///< There are enough frames to sample.
  std::uint64_t neighbours_ = 16;                                  ///< One of so many is in either sample.
  std::uint64_t frame_units_ = 0;                                  ///< Of the mean page in memory.
  std::uint64_t resting_units_;                                    ///< In memory when the engine has made room.
  std::uint32_t victims_ = 0;                                      ///< Wraps around.
  std::uint32_t unmapped_since_drop_ = most_unmapped_between_drops;
  std::uint64_t most_resident_frames_ = 0;  ///< Rounded up to a power of two.
  GhostTable ghosts_;
  AbsenceLimit absence_limit_;
  RuleDuel duel_;  ///< Recency is the incumbent, retention the challenger.
  FrameLists<4 * group_count + 1> frames_;
  LazyArray<FramePage> pages_;
};

}  // namespace tiermap
