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
#pragma once

#include <array>

#include "cache/policy/frame_list.hpp"
#include "cache/policy/rule_duel.hpp"
#include "platform/lazy_array.hpp"

namespace tiermap {

class Cyclic final : public EvictionPolicy {
 public:
  static constexpr std::uint32_t default_unmapped_share_percent = 25;
  explicit Cyclic(const PolicyOptions& options);

  void capacity_changed(std::uint64_t capacity_units) override { capacity_units_ = capacity_units; }
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
  /// Which group a page belongs to, once there are enough frames to sample.
  static Group group_of(PageKey key);

 private:
  static constexpr std::uint8_t group_count = 3;
  static constexpr std::array<std::uint64_t, group_count> sixteenths{1, 1, 14};

  struct FramePage {
    std::uint32_t idle_since;  ///< Count of fills when it was unmapped.
    Group group;
    bool passing;              ///< Was chosen from young under retention.
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
  std::uint64_t share_units(Group group) const { return capacity_units_ * sixteenths[group] / 16; }
  std::uint64_t transient_units(Group group) const;
  bool retains(Group group) const;
  bool long_idle(FrameId frame) const;
  void count_miss(Group group);
  void settle_young(Group group);
  void return_one_refused();
  FrameId next_victim();
  FrameId oldest_mapped(Group group);
  bool has_spare(Group group) const;
  FrameId oldest_idle(Group group) const;

  std::uint32_t unmapped_share_percent_;
  std::uint64_t capacity_units_;
  std::uint32_t fills_ = 0;                                        ///< The clock; wraps around.
  std::uint64_t fills_since_read_ahead_ = std::uint64_t{1} << 62;  ///< None yet.
  RuleDuel duel_;  ///< Recency is the incumbent, retention the challenger.
  FrameLists<4 * group_count + 1> frames_;
  LazyArray<FramePage> pages_;
};

}  // namespace tiermap
