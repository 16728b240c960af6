// fork(), and the end of the process.
#include <cerrno>
#include <new>

#include "observe/publication_layout.hpp"
#include "preload/kernel_calls.hpp"
#include "preload/locking.hpp"
#include "preload/mappings.hpp"
#include "tiermap/error.hpp"

namespace tiermap::preload {
namespace {

/// Numbers that this process's cache may be published under: a child of a child of its begins further on.
constexpr std::uint32_t most_instances = 8;

}  // namespace

void Mappings::write_back_all() noexcept {
  const Looking looking(lock_);
  for (const auto& mapping : mappings_) {
    if (mapping->shared_and_writable()) {
      try {
        mapping->region.write_back({0, mapping->region.size()});
      } catch (const std::exception& error) {
        Outcome::complain(error.what());
      }
    }
  }
}

// Parent and child share what they write, or each has its own from here on: only the kernel can do that. What is only
// read the child gets from the kernel, and the parent keeps.
void Mappings::before_fork() noexcept {
  lock_.lock();
  fork_quiet_.emplace();
  fork_inside_.emplace();
  for_each(nullptr, SIZE_MAX, [&](Mapping& mapping) {
    if (mapping.shared_and_writable() || mapping.overlay != nullptr) {
      convert(mapping, "the program forked, and can write to it");
    }
  });
}

void Mappings::after_fork_in_parent() noexcept {
  fork_inside_.reset();
  fork_quiet_.reset();
  lock_.unlock();
}

// One thread, and whatever the others held is held for ever: nothing is freed here, nor destroyed.
void Mappings::after_fork_in_child() noexcept {
  for (auto& mapping : mappings_) {
    if (mapping->in_children) {
      const MapRequest& request = mapping->request;
      kernel::map(mapping->start, mapping->bytes, request.protection,
                  (request.flags & (MAP_SHARED | MAP_PRIVATE)) | MAP_FIXED | MAP_NORESERVE,
                  mapping->store->descriptor(), request.offset);
      FileHistory& history = histories_[{mapping->file.device, mapping->file.inode}];
      history.kernel_maps = true;
      history.kernel_writes = history.kernel_writes || mapping->store->writable();
    }
    ::syscall(SYS_close, mapping->store->direct_descriptor());
    ::syscall(SYS_close, mapping->store->descriptor());
    [[maybe_unused]] const auto* const left = mapping.release();
  }
  mappings_.clear();
  for (auto& [file, store] : retired_) {
    new std::shared_ptr<MappedFileStore>(std::move(store));
  }
  retired_.clear();
  retired_count_.store(0);
  own_descriptors_.close_found();
  served_.clear();
  cache_ = nullptr;
  fitting_.reset();
  outcome_.begin_anew();
  owner_ = ::getpid();
  ended_ = false;
  fork_inside_.reset();
  fork_quiet_.reset();
  new (&lock_) std::shared_mutex;
}

void Mappings::at_end() noexcept {
  if (!owned_by_caller()) {
    return;
  }
  write_back_all();
  try {
    const Looking looking(lock_);
    if (!ended_.exchange(true)) {
      if (cache_ != nullptr) {
        const Statistics statistics = cache_->statistics();
        outcome_.report(&statistics, page_bytes_);
      } else {
        outcome_.report(nullptr, page_bytes_);
      }
    }
    // The cache is never destroyed, so that what other threads still touch is there to the last.
    for (std::uint32_t instance = 0; cache_ != nullptr && instance < most_instances; ++instance) {
      ::unlink(("/dev/shm/" + format_publication_name({::geteuid(), owner_, instance})).c_str());
    }
  } catch (const std::exception& error) {
    Outcome::complain(error.what());
  }
}

}  // namespace tiermap::preload
