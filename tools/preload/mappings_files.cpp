// Calls that read or change files of which a part is served: to the program its mappings and its calls are the same
// bytes.
#include <algorithm>
#include <cerrno>
#include <ctime>
#include <exception>
#include <utility>

#include "config/resolve.hpp"
#include "preload/kernel_calls.hpp"
#include "preload/locking.hpp"
#include "preload/mapped_by_kernel.hpp"
#include "preload/mappings.hpp"
#include "tiermap/error.hpp"

namespace tiermap::preload {
namespace {

std::int64_t change_time(const Mapping& mapping) noexcept {
  struct stat status = {};
  kernel::status(mapping.store->program_descriptor(), &status);
  return changed_at(status);
}

/// 0 if the options cannot be read: who starts the engine says why.
std::uint64_t buffer_bytes() noexcept {
  try {
    return resolve(CacheOptions{}).budget_bytes;
  } catch (const std::exception&) {
    return 0;
  }
}

/// The part of [offset, offset + bytes) of the file that the mapping shows, in bytes from its start.
ByteRange shown(const Mapping& mapping, std::uint64_t offset, std::uint64_t bytes) noexcept {
  const auto first = static_cast<std::uint64_t>(mapping.request.offset);
  const std::uint64_t file_end = offset > UINT64_MAX - bytes ? UINT64_MAX : offset + bytes;
  const std::uint64_t from = std::max(first, offset);
  const std::uint64_t to = std::min(first + mapping.bytes, file_end);
  return from < to ? ByteRange{from - first, to - from} : ByteRange{0, 0};
}

}  // namespace

std::int64_t settled(std::int64_t changed) noexcept {
  constexpr std::int64_t second = 1'000'000'000;
  constexpr std::int64_t longest_tick = 20'000'000;  // Of kernels' clocks.
  // Without a fraction it may be of a file system that has only whole seconds, or even ones.
  const std::int64_t longest = changed % second == 0 ? 2 * second + longest_tick : longest_tick;
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * second + now.tv_nsec - changed > longest ? changed : 0;
}

// Other libraries begin before this one, and may map files as they do.
void Mappings::note_earlier_mappings() {
  if (std::exchange(earlier_noted_, true)) {
    return;
  }
  for (const FileIdentity file : files_shared_by_kernel()) {
    if (FileHistory& history = histories_[file]; !history.kernel_maps) {
      history.note_kernel_mapping(true);
    }
  }
}

// Programs map any number of files, one after the other.
void Mappings::forget_unmapped_files() {
  const MappedNumbers mapped = read_mapped_numbers("self");
  std::erase_if(histories_, [&](const auto& entry) {
    const auto& [file, history] = entry;
    const bool only_mapped = history.streams == 0 && !history.parts_locked && !history.logged;
    const bool useless = only_mapped && !mapped.may_contain(file);
    if (useless && table_ != nullptr) {
      table_->forget(file);
    }
    return useless;
  });
  most_histories_ = std::max(most_histories_, 2 * histories_.size());
}

FittingFiles& Mappings::fitting() {
  if (!fitting_.has_value()) {
    fitting_.emplace(settings_.serve_all ? 0 : buffer_bytes());
  }
  return *fitting_;
}

// Whoever can be told by a call gets the errno value; there is a line on standard error in any case. Before a child of
// vfork() began all was written.
int Mappings::write_back(Mapping& mapping, ByteRange range) const noexcept {
  try {
    if (mapping.shared_and_writable() && range.bytes != 0 && owned_by_caller()) {
      mapping.region.write_back(range);
    }
    return 0;
  } catch (const Error& error) {
    Outcome::complain(error.what());
    return error.code().value();
  } catch (const std::exception& error) {
    Outcome::complain(error.what());
    return ENOMEM;
  }
}

int Mappings::before_read(FileIdentity file, std::uint64_t offset, std::uint64_t bytes) {
  const Looking looking(lock_);
  int problem = 0;
  for (const auto& mapping : mappings_) {
    if (mapping->file == file) {
      const int result = write_back(*mapping, shown(*mapping, offset, bytes));
      problem = result != 0 ? result : problem;
    }
  }
  return problem;
}

void Mappings::change_next(const std::vector<std::pair<Mapping*, ByteRange>>& pieces, std::size_t index,
                           const std::function<void()>& change) {
  if (index == pieces.size()) {
    change();
    return;
  }
  pieces[index].first->region.update(pieces[index].second, [&] { change_next(pieces, index + 1, change); });
}

int Mappings::around_change(FileIdentity file, std::uint64_t offset, std::uint64_t bytes, IfUnwritten if_unwritten,
                            const std::function<void()>& change) {
  tell_others_of_change(file);
  const Looking looking(lock_);
  std::vector<std::pair<Mapping*, ByteRange>> pieces;
  for (const auto& mapping : mappings_) {
    // A private mapping that can be written keeps its own pages, as the kernel's would.
    if (mapping->file == file && mapping->overlay == nullptr) {
      if (const ByteRange range = shown(*mapping, offset, bytes); range.bytes != 0) {
        pieces.emplace_back(mapping.get(), range);
        mapping->store->note_change(offset, bytes);
      }
    }
  }
  bool changed = false;
  const auto change_once = [&] {
    if (!changed) {
      changed = true;
      change_noting_times(file, change);
    }
  };
  try {
    change_next(pieces, 0, change_once);
  } catch (const Error& error) {
    Outcome::complain(error.what());
    if (!changed && if_unwritten == IfUnwritten::fail) {
      return error.code().value();
    }
    change_once();
  }
  return 0;
}

// A time stamp that another process's change may have too tells nothing, nor does one where another process had changed
// the file before: that is still to be read anew.
void Mappings::change_noting_times(FileIdentity file, const std::function<void()>& change) {
  for (const auto& mapping : mappings_) {
    if (mapping->file == file && mapping->changed != change_time(*mapping)) {
      mapping->changed = 0;
    }
  }
  change();
  for (const auto& mapping : mappings_) {
    if (mapping->file == file && mapping->changed != 0) {
      mapping->changed = settled(change_time(*mapping));
    }
  }
}

void Mappings::note_stream(FileIdentity file, bool writes, int change) {
  const Changing changing(lock_);
  FileHistory& history = histories_[file];
  history.streams = std::max(history.streams + change, 0);
  history.writing_streams = std::max(history.writing_streams + (writes ? change : 0), 0);
  if (history.streams == 0 && !history.kernel_maps && !history.parts_locked && !history.logged) {
    histories_.erase(file);
  } else if (change > 0 && served_.hold(file, !writes)) {
    convert_file(file, "a stream of stdio is open on the file", !writes);
  }
}

void Mappings::locked(FileIdentity file) {
  const Looking looking(lock_);
  for (const auto& mapping : mappings_) {
    if (mapping->file != file || mapping->overlay != nullptr) {
      continue;
    }
    const std::int64_t now = change_time(*mapping);
    const std::int64_t known = settled(now);
    if (mapping->shared_and_writable() || mapping->changed != now) {
      read_anew(*mapping);
      mapping->changed = known;
    }
  }
}

void Mappings::read_anew(Mapping& mapping) noexcept {
  try {
    mapping.region.advise(Advice::dont_need);
  } catch (const std::exception& error) {
    Outcome::complain(error.what());
  }
}

// A child reads the file, and may write it.
void Mappings::before_child() noexcept {
  static_cast<void>(write_back_all());
  const Looking looking(lock_);
  for (const auto& mapping : mappings_) {
    const std::int64_t now = change_time(*mapping);
    // What was changed before is not read anew, and must not be forgotten.
    mapping->changed = mapping->changed == now ? settled(now) : 0;
  }
}

// The region's own writing back since then looks like the child's.
void Mappings::after_child() noexcept {
  const Looking looking(lock_);
  for (const auto& mapping : mappings_) {
    const std::int64_t now = change_time(*mapping);
    if (mapping->overlay == nullptr && mapping->changed.exchange(settled(now)) != now) {
      read_anew(*mapping);
    }
  }
}

void Mappings::give_back_file(FileIdentity file, const char* reason) {
  const Changing changing(lock_);
  convert_file(file, reason, false);
}

// A lock that is given up is so whatever has come of this: there was a line on standard error.
void Mappings::unlocking(FileIdentity file) {
  static_cast<void>(before_read(file, 0, UINT64_MAX));
}

void Mappings::release_retired(FileIdentity file) {
  const Changing changing(lock_);
  std::erase_if(retired_, [&](const auto& entry) {
    if (entry.first != file) {
      return false;
    }
    own_descriptors_.remove_all(entry.second->descriptors());
    return true;
  });
  retired_count_.store(retired_.size(), std::memory_order_release);
}

}  // namespace tiermap::preload
