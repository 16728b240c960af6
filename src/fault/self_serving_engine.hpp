// Faults served by the thread that faults, in a SIGBUS handler (UFFD_FEATURE_SIGBUS): no message, no other thread, no
// context switch. What the handler runs is async-signal-safe: it allocates nothing, and takes only locks that no
// interrupted code of its own thread can hold.
//
// SIGBUS is the process's: one handler serves the regions of all caches, and hands on to the handler that was there
// before it what is not theirs, and what is an error. A program that wants to see SIGBUS installs its handler before
// its first self-serving cache.
#pragma once

#include <memory>

#include "fault/fillers.hpp"
#include "fault/pager.hpp"

namespace tiermap {

class SelfServingEngine {
 public:
  SelfServingEngine(Pager& pager, Fillers& fillers);
  ~SelfServingEngine();
  SelfServingEngine(const SelfServingEngine&) = delete;
  SelfServingEngine& operator=(const SelfServingEngine&) = delete;

  void attach(PagedRegion& region);
  void detach(const PagedRegion& region);

  struct Access {
    bool write;
    bool may_hand_over;  ///< To a filler, where this thread could fill the page itself.
  };
  /// Serves one fault (handler). False if it is an error that the program must be told.
  bool serve(PagedRegion& region, std::byte* address, Access access) noexcept;

 private:
  enum class Served : std::uint8_t { yes, no, elsewhere };
  Served serve_in(PagedRegion& region, std::byte* address, Access access, bool& counted) noexcept;
  enum class Filled : std::uint8_t { here, by_filler, failed };
  Filled fill(PagedRegion& region, std::uint64_t page, Access access) noexcept;
  bool left_to_filler(PagedRegion& region, std::uint64_t page, Access access, std::uint64_t started,
                      FillFrames& frames) noexcept;

  Pager& pager_;
  Fillers& fillers_;
};

}  // namespace tiermap
