// What other processes map. Their mappings of a file by the kernel, and what one of them serves, are copies of its
// bytes as much as two mappings of this process are.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <utility>

#include "config/resolve.hpp"
#include "platform/process_maps.hpp"
#include "platform/signals_blocked.hpp"
#include "preload/kernel_calls.hpp"
#include "preload/locking.hpp"
#include "preload/mapped_by_kernel.hpp"
#include "preload/mappings.hpp"
#include "preload/reasons.hpp"
#include "tiermap/error.hpp"

namespace tiermap::preload {
namespace {

/// Of Tiermap's Python package, which has a table of its own in this process: who asks it for the file waits for what
/// this thread is mapping now.
bool gives_back_itself() noexcept {
  char name[16] = {};
  return ::prctl(PR_GET_NAME, name) == 0 && std::string_view(name) == MappingTable::giving_thread;
}

}  // namespace

// Nothing where there is no such table. It is never destroyed: others are answered until the process is gone.
MappingTable* Mappings::table() noexcept {
  if (MappingTable* const known = known_table_.load()) {
    return known;
  }
  const Changing changing(lock_);
  if (table_ == nullptr && table_problem_.empty()) {
    try {
      table_ = std::make_unique<MappingTable>([this](FileIdentity file) { return give_back_to_others(file); },
                                              [this](std::size_t processes) { return share_out(processes); });
      known_table_ = table_.get();
    } catch (const std::exception& error) {
      table_problem_ = error.what();
    }
  }
  return table_.get();
}

// Without the lock: who serves the file may be waiting for what is served here, and that is given back under it.
MappingTable::Entered Mappings::enter(const MapRequest& request, bool writes) {
  struct stat status = {};
  if (!owned_by_caller() || (request.flags & MAP_ANONYMOUS) != 0 || kernel::status(request.descriptor, &status) != 0 ||
      !S_ISREG(status.st_mode) || lies_in_memory(request.descriptor) || gives_back_itself()) {
    return {};
  }
  MappingTable* const known = table();
  return known == nullptr ? MappingTable::Entered() : known->enter(FileIdentity::of(status), writes);
}

// Before something of what is served becomes writable, and the kernel's, or something that the kernel maps.
void Mappings::enter_to_write(const std::byte* address, std::size_t length) {
  if (!owned_by_caller() || gives_back_itself()) {
    return;
  }
  std::set<FileIdentity> files;
  {
    const Looking looking(lock_);
    for_each(address, length, [&](const Mapping& mapping) {
      if (!mapping.is_private() && !mapping.shared_and_writable()) {
        files.insert(mapping.file);
      }
    });
    if (kernels_to_protect_) {
      add_kernels_to_protect(address, length, files);
    }
  }
  if (files.empty()) {
    return;
  }
  if (MappingTable* const known = table()) {
    for (const FileIdentity file : files) {
      static_cast<void>(known->enter(file, true));
    }
  }
  const Changing changing(lock_);
  for (const FileIdentity file : files) {
    histories_[file].to_protect = false;
  }
  kernels_to_protect_ = std::ranges::any_of(histories_, [](const auto& known) { return known.second.to_protect; });
}

void Mappings::add_kernels_to_protect(const std::byte* address, std::size_t length,
                                      std::set<FileIdentity>& files) const {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  visit_kernel_mappings("self", [&](const KernelMapping& mapping) {
    if (mapping.allowed[3] == 's' && mapping.start < first + length && first < mapping.end) {
      for (const auto& [file, history] : histories_) {
        if (history.to_protect && (file.inode == mapping.inode || !is_listed_by_number(file))) {
          files.insert(file);
        }
      }
    }
    return mapping.start >= first + length;
  });
}

void Mappings::before_protect_of_kernels(const std::byte* address, std::size_t length) noexcept {
  try {
    enter_to_write(address, length);
  } catch (const std::exception&) {  // The kernel can do without memory of ours.
  }
}

const char* Mappings::why_not_beside_others(const MapRequest& request, const MappingTable::Entered& entered) const {
  if (entered.by_others) {
    return reasons::mapped_by_others;
  }
  return table_ == nullptr && request.stores() ? reasons::others_unknown : nullptr;
}

// What a call writes is seen in the kernel's mappings alone, as what others store is.
void Mappings::tell_others_of_change(FileIdentity file) noexcept {
  const auto is_untold = [&](const auto& mapping) {
    return mapping->file == file && !mapping->others_told && !mapping->shared_and_writable();
  };
  try {
    {
      const Looking looking(lock_);
      if (!owned_by_caller() || std::ranges::none_of(mappings_, is_untold)) {
        return;
      }
    }
    MappingTable* const known = table();
    if (known == nullptr) {
      return;
    }
    const MappingTable::Entered entered = known->enter(file, true);
    const Changing changing(lock_);
    if (entered.by_others) {
      convert_file(file, reasons::mapped_by_others, false);
    }
    for_each(nullptr, SIZE_MAX, [&](Mapping& mapping) { mapping.others_told |= mapping.file == file; });
  } catch (const std::exception&) {  // The kernel can do without memory of ours.
  }
}

// In a thread of the table's, which ends while the lock is held.
bool Mappings::give_back_to_others(FileIdentity file) {
  const SignalsBlocked quiet;
  const Inside inside;
  if (!lock_.try_lock_for(std::chrono::milliseconds(10))) {
    return false;
  }
  const std::lock_guard held(lock_, std::adopt_lock);
  convert_file(file, reasons::mapped_by_others, false);
  return true;
}

// Half of the memory that is available is what the cache takes, where nobody says how much: of all processes together.
void Mappings::share_memory() {
  const ResolvedCacheOptions options = resolve(CacheOptions());
  whole_budget_bytes_ = cache_->budget_bytes();
  if (table_ != nullptr && !options.budget_chosen && !options.adapt_budget) {
    static_cast<void>(take_share(table_->share_memory()));  // Nothing is to be given up yet.
  }
}

// As give_back_to_others().
MappingTable::Share Mappings::share_out(std::size_t processes) {
  const SignalsBlocked quiet;
  const Inside inside;
  if (!lock_.try_lock_shared_for(std::chrono::milliseconds(10))) {
    return MappingTable::Share::in_part;
  }
  const std::shared_lock held(lock_, std::adopt_lock);
  return cache_ == nullptr ? MappingTable::Share::taken : take_share(processes);
}

// In steps, of which this is one: what is given up may have to be written, and between them others are answered and the
// program's calls go on.
MappingTable::Share Mappings::take_share(std::size_t processes) {
  constexpr std::uint64_t least_step_bytes = 16 << 20;
  const std::uint64_t least_bytes = std::max<std::uint64_t>(4 << 20, cache_->minimum_budget_bytes());
  const std::uint64_t part = std::max(whole_budget_bytes_ / std::max<std::size_t>(processes, 1), least_bytes);
  const std::uint64_t share = std::min(part, whole_budget_bytes_);
  const Statistics now = cache_->statistics();
  const std::uint64_t step = std::max(least_step_bytes, now.budget_bytes / 64);
  const std::uint64_t used = std::min(now.budget_bytes, now.resident_bytes);
  const std::uint64_t next = std::max(share, used - std::min(used, step));
  try {
    cache_->set_budget_bytes(next);
    return next == share ? MappingTable::Share::taken : MappingTable::Share::in_part;
  } catch (const Error&) {  // Pages that are in use, or cannot be written.
    return MappingTable::Share::in_the_way;
  }
}

// Of what is not served any more others need not ask.
void Mappings::tell_others_of_end(FileIdentity file) noexcept {
  if (table_ == nullptr || served_.hold(file, false)) {
    return;
  }
  table_->stop_serving(file);
  if (const auto known = histories_.find(file); known == histories_.end() || !known->second.kernel_maps) {
    table_->forget(file);
  }
}

// The child has the kernel's mappings, and is another process to whoever serves their files.
void Mappings::join_others_in_child() noexcept {
  if (table_ == nullptr) {
    return;
  }
  known_table_ = nullptr;
  table_.release()->forget_parents();
  try {
    const MappedNumbers mapped = read_mapped_numbers("self");
    std::map<FileIdentity, bool> files;
    for (const auto& [file, history] : histories_) {
      if (history.kernel_maps && mapped.may_contain(file)) {
        files.emplace(file, history.kernel_writes);
      }
    }
    if (!files.empty() && table() != nullptr) {
      table_->inherit(files);
    }
  } catch (const std::exception& error) {
    Outcome::complain(error.what());
  }
}

}  // namespace tiermap::preload
