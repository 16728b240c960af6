// Faults by message: manager threads read userfaultfd events in batches and see to it that each is served. Works for
// every access, those of system calls included. One manager does as long as few reads are under way, the others sleep:
// two that wait for the same messages are both woken for each. With many reads under way one thread is what the others
// wait for, and a second one pays.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "fault/fillers.hpp"
#include "fault/pager.hpp"
#include "fault/region_index.hpp"

namespace tiermap {

class NotifyEngine {
 public:
  struct Settings {
    std::uint32_t managers = 2;
    std::uint32_t max_fault_events = 64;
    std::uint32_t spin_microseconds = 20;
  };
  /// Serves the regions of `index` whose faults arrive at `userfaultfds`.
  NotifyEngine(Pager& pager, Fillers& fillers, RegionIndex& index, std::span<const Userfaultfd> userfaultfds,
               const Settings& settings);
  ~NotifyEngine();
  NotifyEngine(const NotifyEngine&) = delete;
  NotifyEngine& operator=(const NotifyEngine&) = delete;

 private:
  /// What a manager thread works with, made before it starts.
  struct Manager {
    Manager(Pager& pager, const Settings& settings, std::size_t most_descriptors);
    FillWorker worker;
    std::vector<uffd_msg> messages;
    std::vector<uffd_msg> deferred;  ///< Faults that are not served while others have their turn.
    std::vector<pollfd> descriptors;
    bool helps = false;  ///< Sleeps until another has more reads under way than one serves well.
  };

  NotifyEngine(Pager& pager, Fillers& fillers, RegionIndex& index, std::span<const Userfaultfd> userfaultfds,
               const Settings& settings, int stop_event);
  void run(Manager& manager);
  bool read_all(Manager& manager);
  void retry_deferred(Manager& manager);
  void handle(const uffd_msg& message, Manager& manager, std::uint64_t now);
  /// False if the address is served in pages of another size by now.
  bool handle_in(PagedRegion& region, std::byte* address, const uffd_msg& message, Manager& manager, std::uint64_t now,
                 bool& counted);
  void fill(PagedRegion& region, std::uint64_t page, bool write, FillWorker& worker, std::uint64_t now);
  void sleep(Manager& manager);
  void call_helper() noexcept;
  void wait_for_call() noexcept;

  Pager& pager_;
  Fillers& fillers_;
  RegionIndex& index_;
  std::span<const Userfaultfd> userfaultfds_;
  Settings settings_;
  int stop_event_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> calls_{0};  ///< What helpers sleep on; changes with each call, and at the end.
  std::atomic<std::uint32_t> idle_helpers_{0};
  std::vector<std::thread> threads_;
};

}  // namespace tiermap
