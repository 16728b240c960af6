// What the program does to the addresses of served mappings.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "preload/kernel_calls.hpp"
#include "preload/locking.hpp"
#include "preload/mappings.hpp"
#include "preload/program_threads.hpp"
#include "tiermap/error.hpp"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace tiermap::preload {
namespace {

constexpr const char* in_part = "a part of it was unmapped, replaced, moved or protected";

int fail(int error_number) noexcept {
  errno = error_number;
  return -1;
}

bool is_aligned(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) % kernel::page_bytes == 0;
}

bool reaches_past_file(const Mapping& mapping, ByteRange range) noexcept {
  const std::uint64_t end = static_cast<std::uint64_t>(mapping.request.offset) + range.offset + range.bytes;
  return end > kernel::round_up(mapping.store->actual_bytes());
}

}  // namespace

std::array<int, 5> Mapping::descriptors() const noexcept {
  const auto files = store->descriptors();
  const auto scratch = overlay == nullptr ? std::array{-1, -1} : overlay->descriptors();
  return {files[0], files[1], files[2], scratch[0], scratch[1]};
}

int Mapping::kernel_flags() const noexcept {
  return (request.flags & (MAP_SHARED | MAP_PRIVATE | MAP_NORESERVE)) | MAP_FIXED;
}

// Those that overlap the range. `each` may remove the mapping that it is given, and others.
void Mappings::for_each(const std::byte* address, std::size_t length, const Each& each) {
  std::vector<Mapping*> found;
  for (const auto& mapping : mappings_) {
    if (mapping->start < address + length && address < mapping->end()) {
      found.push_back(mapping.get());
    }
  }
  for (Mapping* mapping : found) {
    if (std::ranges::any_of(mappings_, [&](const auto& other) { return other.get() == mapping; })) {
      each(*mapping);
    }
  }
}

// The parts of the range that are not served.
void Mappings::for_each_gap(std::byte* address, std::size_t length,
                            const std::function<void(std::byte*, std::size_t)>& each) {
  std::byte* at = address;
  std::byte* const end = address + length;
  for_each(address, length, [&](const Mapping& mapping) {
    if (at < mapping.start) {
      each(at, static_cast<std::size_t>(mapping.start - at));
    }
    at = mapping.end();
  });
  if (at < end) {
    each(at, static_cast<std::size_t>(end - at));
  }
}

ByteRange Mappings::range_in(const Mapping& mapping, const std::byte* address, std::size_t length) noexcept {
  const std::byte* first = std::max<const std::byte*>(mapping.start, address);
  const std::byte* end = std::min<const std::byte*>(mapping.end(), address + length);
  return {static_cast<std::uint64_t>(first - mapping.start), static_cast<std::uint64_t>(end - first)};
}

// Closing a descriptor of the file would end the record locks that the process has there.
bool Mappings::retire_if_locked(FileIdentity file, const std::shared_ptr<MappedFileStore>& store) {
  if (!record_locked_.hold(file)) {
    return false;
  }
  own_descriptors_.add_all(store->descriptors());
  retired_.emplace_back(file, store);
  retired_count_.store(retired_.size(), std::memory_order_release);
  return true;
}

// The bookkeeping of a mapping whose region is gone. Once its file is closed another file may have its number: others
// are told before, unless the kernel maps it now.
void Mappings::forget(Mapping& mapping, bool by_kernel) {
  served_.remove(mapping.slot);
  if (!by_kernel) {
    tell_others_of_end(mapping.file);
  }
  if (!retire_if_locked(mapping.file, mapping.store)) {
    own_descriptors_.remove_all(mapping.descriptors());
  }
  std::erase_if(mappings_, [&](const auto& other) { return other.get() == &mapping; });
}

// Unmaps; what cannot be written then is lost, as when the kernel cannot write it later.
void Mappings::end_mapping(Mapping& mapping) {
  try {
    if (mapping.overlay != nullptr) {
      mapping.region.discard({0, mapping.region.size()});
    }
    mapping.region.unmap();
  } catch (const Error& error) {
    Outcome::complain(std::string(error.what()) + "; the program has unmapped it: that is lost");
    mapping.region = Region();
  }
  forget(mapping, false);
}

int Mappings::unmap(std::byte* address, std::size_t length) {
  // What the kernel refuses as a whole must not be done in part.
  const bool beyond = length > kernel::end_of_addresses - reinterpret_cast<std::uintptr_t>(address);
  if (!is_aligned(address) || length == 0 || beyond) {
    return kernel::unmap(address, length);
  }
  length = kernel::round_up(length);
  const Changing changing(lock_);
  bool done = true;
  for_each(address, length, [&](Mapping& mapping) {
    if (mapping.start < address || mapping.end() > address + length) {
      done = convert(mapping, in_part) && done;
    }
  });
  if (!done) {
    return fail(ENOMEM);
  }
  // The gaps first: what a region gives free may be another thread's a moment later.
  int result = 0;
  for_each_gap(address, length,
               [&](std::byte* start, std::size_t bytes) { result = kernel::unmap(start, bytes) != 0 ? -1 : result; });
  for_each(address, length, [&](Mapping& mapping) { end_mapping(mapping); });
  return result;
}

// 0, or an errno value: then it is still served.
int Mappings::clear(Mapping& mapping) noexcept {
  try {
    if (mapping.overlay != nullptr) {
      mapping.region.discard({0, mapping.region.size()});
    }
    const bool done = mapping.region.hand_over([&] {
      return kernel::map(mapping.start, mapping.bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
    });
    if (!done) {
      return ENOMEM;
    }
    forget(mapping, false);
    return 0;
  } catch (const Error& error) {
    Outcome::complain(error.what());
    return error.code().value();
  }
}

// Before another mapping takes the place of what is in the range: nothing may come between, so the place stays taken.
// Everything is written before anything is cleared: 0, or the errno value of what cannot be.
int Mappings::clear_range(std::byte* address, std::size_t length) {
  int problem = 0;
  for_each(address, length, [&](Mapping& mapping) {
    const int result = write_back(mapping, {0, mapping.region.size()});
    problem = result != 0 ? result : problem;
  });
  for_each(address, length, [&](Mapping& mapping) {
    const bool whole = mapping.start >= address && mapping.end() <= address + length;
    if (problem == 0) {
      problem = whole ? clear(mapping) : convert(mapping, in_part) ? 0 : ENOMEM;
    }
  });
  return problem;
}

// Before another mapping takes the place of what is served there: 0, or an errno value, and nothing has gone then.
int Mappings::make_way(std::byte* address, std::size_t length) {
  if (!other_threads_run(::gettid())) {
    return clear_range(address, length);
  }
  return convert_range(address, length, "another mapping takes its place, and other threads may be using it") ? 0 : EIO;
}

// The kernel maps the same bytes in the region's place, and no other thread notices.
bool Mappings::convert(Mapping& mapping, const char* reason) noexcept {
  try {
    const MapRequest& request = mapping.request;
    const bool done = mapping.region.hand_over([&] {
      return mapping.overlay != nullptr
                 ? replace_private(mapping)
                 : kernel::map(mapping.start, mapping.bytes, request.protection, mapping.kernel_flags(),
                               mapping.store->program_descriptor(), request.offset) != MAP_FAILED;
    });
    if (!done) {
      return false;
    }
    if (!mapping.in_children) {
      kernel::advise(mapping.start, mapping.bytes, MADV_DONTFORK);
    }
    outcome_.given_back(mapping.path, reason);
    const FileIdentity file = mapping.file;
    const bool may_write = mapping.store->writable();
    forget(mapping, true);
    note_kernel_mapping(file, may_write);
    tell_others_of_end(file);
    return true;
  } catch (const std::exception& error) {
    Outcome::complain(error.what());
    return false;
  }
}

// The program's own changes are copied into a private mapping elsewhere, which is then moved over the region.
bool Mappings::replace_private(const Mapping& mapping) noexcept {
  const MapRequest& request = mapping.request;
  void* fresh = kernel::map(nullptr, mapping.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                            mapping.store->program_descriptor(), request.offset);
  if (fresh == MAP_FAILED) {
    return false;
  }
  const auto first = static_cast<std::uint64_t>(request.offset);
  const std::uint64_t end = std::min(first + mapping.bytes, kernel::round_up(mapping.store->actual_bytes()));
  bool done = true;
  for (std::uint64_t at = first; at < end && done; at += OverlayStore::block_bytes) {
    if (mapping.overlay->is_written(at / OverlayStore::block_bytes)) {
      done = mapping.overlay->read(static_cast<std::byte*>(fresh) + (at - first), OverlayStore::block_bytes, at) > 0;
    }
  }
  done = done && kernel::protect(fresh, mapping.bytes, request.protection) == 0 &&
         kernel::remap(fresh, mapping.bytes, mapping.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, mapping.start) != MAP_FAILED;
  if (!done) {
    kernel::unmap(fresh, mapping.bytes);
  }
  return done;
}

bool Mappings::convert_range(std::byte* address, std::size_t length, const char* reason) {
  bool done = true;
  for_each(address, length, [&](Mapping& mapping) { done = convert(mapping, reason) && done; });
  return done;
}

bool Mappings::give_back(std::byte* address, std::size_t length, const char* reason) {
  const Changing changing(lock_);
  return convert_range(address, length, reason);
}

void Mappings::give_back_all(const char* reason) {
  const Changing changing(lock_);
  convert_range(nullptr, SIZE_MAX, reason);
}

void Mappings::convert_file(FileIdentity file, const char* reason, bool writable_only) {
  for_each(nullptr, SIZE_MAX, [&](Mapping& mapping) {
    if (mapping.file == file && (!writable_only || mapping.shared_and_writable())) {
      convert(mapping, reason);
    }
  });
}

int Mappings::protect(std::byte* address, std::size_t length, int protection) {
  if (!is_aligned(address) || length == 0) {
    return kernel::protect(address, length, protection);
  }
  length = kernel::round_up(length);
  if ((protection & PROT_WRITE) != 0) {
    enter_to_write(address, length);
  }
  const Changing changing(lock_);
  bool done = true;
  for_each(address, length, [&](Mapping& mapping) {
    if (mapping.request.protection != protection) {
      done = convert(mapping, "its protection was changed") && done;
    }
  });
  int result = done ? 0 : fail(ENOMEM);
  for_each_gap(address, length, [&](std::byte* start, std::size_t bytes) {
    result = result == 0 ? kernel::protect(start, bytes, protection) : result;
  });
  return result;
}

int Mappings::synchronise(std::byte* address, std::size_t length, int flags) {
  {
    const Looking looking(lock_);
    int error = 0;
    if (is_aligned(address) && (flags & (MS_SYNC | MS_ASYNC)) != (MS_SYNC | MS_ASYNC)) {
      for_each(address, kernel::round_up(length), [&](Mapping& mapping) {
        const ByteRange range = range_in(mapping, address, kernel::round_up(length));
        try {
          if (mapping.shared_and_writable()) {
            (flags & MS_SYNC) != 0 ? mapping.region.sync(range) : mapping.region.flush(range);
          }
          if ((flags & MS_INVALIDATE) != 0) {
            mapping.region.advise(Advice::dont_need, range);
          }
        } catch (const Error& failure) {
          error = failure.code().value();
        }
      });
    }
    if (error != 0) {
      return fail(error);
    }
  }
  // What the kernel maps of it, and what is wrong with the arguments.
  return kernel::synchronise(address, length, flags);
}

// 0, an errno value, or -1: the kernel is to do it.
int Mappings::advise_one(Mapping& mapping, ByteRange range, int advice) {
  Region& region = mapping.region;
  switch (advice) {
    case MADV_NORMAL:
      region.advise(Advice::normal);
      return 0;
    case MADV_RANDOM:
      region.advise(Advice::random);
      return 0;
    case MADV_SEQUENTIAL:
      region.advise(Advice::sequential);
      return 0;
    case MADV_WILLNEED:
      region.advise(Advice::will_need, range);
      return 0;
    case MADV_POPULATE_READ:
    case MADV_POPULATE_WRITE:
      if (advice == MADV_POPULATE_WRITE && (mapping.request.protection & PROT_WRITE) == 0) {
        return EINVAL;
      }
      region.prefetch(range).wait();
      return reaches_past_file(mapping, range) ? EFAULT : 0;
    case MADV_COLD:
      region.advise(Advice::cold, range);
      return 0;
    case MADV_PAGEOUT:
      region.advise(Advice::dont_need, range);
      return 0;
    case MADV_DONTNEED:
      if (mapping.overlay != nullptr) {
        return -1;
      }
      region.advise(Advice::dont_need, range);
      return 0;
    case MADV_DONTFORK:
    case MADV_DOFORK:
      if (range.bytes != mapping.bytes) {
        return -1;
      }
      mapping.in_children = advice == MADV_DOFORK;
      return 0;
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
    case MADV_DODUMP:
    case MADV_DONTDUMP:
      return 0;
    default:
      return -1;
  }
}

int Mappings::advise(std::byte* address, std::size_t length, int advice) {
  if (!is_aligned(address) || length == 0) {
    return kernel::advise(address, length, advice);
  }
  length = kernel::round_up(length);
  const Changing changing(lock_);
  int error = 0;
  for_each(address, length, [&](Mapping& mapping) {
    try {
      const int result = advise_one(mapping, range_in(mapping, address, length), advice);
      if (result < 0 && !convert(mapping, "madvise() asks for what only the kernel can do")) {
        error = ENOMEM;
      }
      error = result > 0 ? result : error;
    } catch (const Error& failure) {
      error = failure.code().value();
    }
  });
  int result = error == 0 ? 0 : fail(error);
  for_each_gap(address, length, [&](std::byte* start, std::size_t bytes) {
    result = result == 0 ? kernel::advise(start, bytes, advice) : result;
  });
  return result;
}

// A larger region elsewhere; the old one's bytes are in the file before it is gone.
void* Mappings::move_larger(Mapping& mapping, std::size_t new_length) {
  if (mapping.shared_and_writable()) {
    mapping.region.write_back({0, mapping.region.size()});
  }
  struct stat status = {};
  if (kernel::status(mapping.store->program_descriptor(), &status) != 0) {
    return MAP_FAILED;
  }
  MapRequest request = mapping.request;
  request.address = nullptr;
  request.length = new_length;
  request.descriptor = mapping.store->program_descriptor();
  RegionOptions options;
  options.length = kernel::round_up(new_length);
  std::unique_ptr<Mapping> larger = make_mapping(request, status, mapping.path, options);
  larger->in_children = mapping.in_children;
  std::byte* start = larger->start;
  const std::size_t before = mapping.bytes;
  end_mapping(mapping);
  outcome_.lengthened(larger->bytes - before);
  mappings_.insert(std::ranges::upper_bound(mappings_, start, {}, [](const auto& other) { return other->start; }),
                   std::move(larger));
  return start;
}

void* Mappings::remap(std::byte* address, std::size_t old_length, std::size_t new_length, int flags, void* target) {
  const Changing changing(lock_);
  const std::size_t old_bytes = kernel::round_up(old_length);
  const std::size_t new_bytes = kernel::round_up(new_length);
  Mapping* whole = nullptr;
  for_each(address, std::max<std::size_t>(old_bytes, 1), [&](Mapping& mapping) {
    whole = mapping.start == address && mapping.bytes == old_bytes ? &mapping : nullptr;
  });
  const bool plain = (flags & ~MREMAP_MAYMOVE) == 0 && new_bytes >= old_bytes && old_bytes > 0;
  if (whole != nullptr && plain && whole->overlay == nullptr) {
    if (new_bytes == old_bytes) {
      return address;
    }
    try {
      whole->region.resize(new_bytes);
      whole->bytes = new_bytes;
      whole->request.length = new_length;
      served_.lengthen(whole->slot, new_bytes);
      outcome_.lengthened(new_bytes - old_bytes);
      return address;
    } catch (const Error&) {  // The addresses behind it are taken.
    }
    try {
      if ((flags & MREMAP_MAYMOVE) != 0) {
        return move_larger(*whole, new_length);
      }
    } catch (const Error&) {  // The kernel may have what the engine lacks.
    }
  }
  // Given back, and not cleared: if the call fails, what is at the target stays.
  const bool fixed = (flags & MREMAP_FIXED) != 0;
  if (fixed && !convert_range(static_cast<std::byte*>(target), new_bytes, "mremap() puts another in its place")) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  if (!convert_range(address, std::max<std::size_t>(old_bytes, 1), "mremap() cuts, moves or doubles it")) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return kernel::remap(address, old_length, new_length, flags, target);
}

}  // namespace tiermap::preload
