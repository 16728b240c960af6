#include "mapped_files.hpp"

#include <pthread.h>

#include <atomic>
#include <exception>
#include <mutex>

#include "mapped_region.hpp"
#include "platform/hold_over_forks.hpp"
#include "platform/signals_blocked.hpp"

namespace tiermap::python {
namespace {

constinit std::mutex making_mutex;
[[maybe_unused]] const int making_held_over_forks = hold_over_forks<making_mutex>();
constinit std::atomic<MappingTable*> the_table{nullptr};
constinit std::atomic<bool> table_refused{false};

/// A child that kept it open would keep its parent's place in it taken, for as long as the child lives.
void forget_parents() noexcept {
  if (MappingTable* const parents = the_table.exchange(nullptr)) {
    parents->forget_parents();
  }
  table_refused.store(false);
}
[[maybe_unused]] const int forgotten_in_children = ::pthread_atfork(nullptr, nullptr, forget_parents);

}  // namespace

MappingTable* known_mapping_table() noexcept {
  return the_table.load();
}

MappingTable* mapping_table() noexcept {
  const SignalsBlocked quiet;
  const std::lock_guard held(making_mutex);
  if (the_table.load() == nullptr && !table_refused.load()) {
    try {
      the_table.store(new MappingTable(give_back_to_others));
    } catch (const std::exception&) {
      table_refused.store(true);
    }
  }
  return the_table.load();
}

void leave_mapping_table() noexcept {
  if (MappingTable* const known = the_table.load()) {
    known->leave();
  }
}

}  // namespace tiermap::python
