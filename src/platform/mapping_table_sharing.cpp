// Who takes a share of the memory, and how many that are.
#include <algorithm>
#include <cmath>
#include <string>

#include "platform/mapping_table.hpp"
#include "platform/mapping_table_layout.hpp"
#include "platform/memory_limits.hpp"

namespace tiermap {

std::size_t MappingTable::share_memory() {
  start_answering();
  const MachineMemory memory = read_machine_memory();
  cgroup_ = memory.cgroup;
  part_of_machine_ =
      static_cast<double>(memory.usable_bytes()) / static_cast<double>(std::max<std::uint64_t>(memory.available, 1));
  Layout::Slot& mine = layout_->slots[Layout::slot_of(me_)];
  mine.sharing.store(mine.generation.load());
  const std::size_t sharers = count_sharers();
  for (std::size_t slot = 0; slot < Layout::most_processes; ++slot) {
    if (shares_memory(slot)) {
      ring_slot(slot);
    }
  }
  sharers_ = sharers;
  ring(me_);  // Who has come in between.
  return sharers;
}

bool MappingTable::shares_memory(std::size_t slot) const noexcept {
  const std::uint32_t sharing = layout_->slots[slot].sharing.load();
  return sharing != 0 && is_alive(static_cast<std::uint32_t>(slot << Layout::generation_bits) | sharing);
}

// Of a process in another namespace nobody can tell.
bool MappingTable::is_in_group(std::size_t slot) const {
  const Layout::Slot& other = layout_->slots[slot];
  return cgroup_.empty() || process_namespace_ == 0 || other.process_namespace.load() != process_namespace_ ||
         lies_in_cgroup(std::to_string(other.process.load()), cgroup_);
}

// Processes in other groups, as a user's other jobs on a node, have memory of their own, but the machine's is one.
std::size_t MappingTable::count_sharers() const {
  std::size_t all = 0;
  std::size_t in_group = 0;
  for (std::size_t slot = 0; slot < Layout::most_processes; ++slot) {
    if (shares_memory(slot)) {
      ++all;
      in_group += is_in_group(slot) ? 1U : 0U;
    }
  }
  return std::max(in_group, static_cast<std::size_t>(std::ceil(static_cast<double>(all) * part_of_machine_)));
}

// False if this process is to go on with its share at once. One that is taken in part is gone on with even if there are
// as many as before again: whoever has come may have gone meanwhile.
bool MappingTable::tell_sharers() {
  const std::size_t known = sharers_;
  const std::size_t sharers = known == 0 ? 0 : count_sharers();
  if (known == 0 || (sharers == known && share_taken_)) {
    return true;
  }
  std::atomic<std::uint32_t>& taking = layout_->slots[Layout::slot_of(me_)].taking;
  taking = 1;
  const Share share = share_out_(sharers);
  taking = 0;
  share_taken_ = share == Share::taken;
  if (share != Share::in_part) {
    sharers_ = sharers;
  }
  return share != Share::in_part;
}

}  // namespace tiermap
