// The side that writes. See publication_layout.hpp for the file and observation.cpp for the side that reads.
#include "observe/publication.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>

#include "observe/publication_layout.hpp"
#include "observe/published_name.hpp"
#include "platform/file_size_limit.hpp"
#include "platform/own_descriptor.hpp"
#include "platform/process_start.hpp"

namespace tiermap {
namespace {

constexpr const char* shared_memory_folder = "/dev/shm";

/// The next number for a cache of this process.
std::uint32_t next_instance() {
  static std::atomic<std::uint32_t> instances{0};
  return instances.fetch_add(1, std::memory_order_relaxed);
}

void clear(CounterBlock& block) noexcept {
  for (auto& counter : block.counters) {
    counter.store(0, std::memory_order_relaxed);
  }
  for (auto& stage : block.stages) {
    for (auto& bucket : stage) {
      bucket.store(0, std::memory_order_relaxed);
    }
  }
  for (auto* gauge : {&block.budget_bytes, &block.resident_bytes, &block.mapped_bytes, &block.dirty_bytes}) {
    gauge->store(0, std::memory_order_relaxed);
  }
}

}  // namespace

Publication::Publication(const std::string& cache_name, const std::string& policy, const std::string& fault_mode,
                         bool publish)
    : owner_(::getpid()) {
  if (!publish || !make_file()) {
    // Touched only as far as regions come.
    void* memory = ::mmap(nullptr, sizeof(PublishedCache), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::bad_alloc();
    }
    memory_ = static_cast<PublishedCache*>(memory);
  }
  PublishedHeader& header = memory_->header;
  header.version = PublishedHeader::version_value;
  header.counters = counter_count;
  header.stages = stage_count;
  header.max_regions = max_regions;
  header.file_bytes = sizeof(PublishedCache);
  header.process_start = process_start_time(owner_).value_or(0);
  header.process = owner_;
  copy_name(header.name, cache_name);
  copy_name(header.policy, policy);
  copy_name(header.fault_mode, fault_mode);
  header.magic.store(PublishedHeader::magic_value, std::memory_order_release);
}

Publication::~Publication() {
  if (!path_.empty() && ::getpid() == owner_) {
    ::unlink(path_.c_str());
  }
  ::munmap(memory_, sizeof(PublishedCache));
  if (file_descriptor_ >= 0) {
    ::close(file_descriptor_);
  }
}

/// Makes, locks, sizes and maps the file; false, with nothing left behind, if any of it is refused.
bool Publication::make_file() {
  remove_abandoned_publications(shared_memory_folder);
  // A name may be taken by a file that a dead process of our number left; the next one is free.
  constexpr int attempts = 64;
  PublicationName name{::geteuid(), owner_, 0};
  for (int attempt = 0; attempt < attempts && file_descriptor_ < 0; ++attempt) {
    name.instance = next_instance();
    path_ = std::string(shared_memory_folder) + "/" + format_publication_name(name);
    file_descriptor_ = above_standard_streams(
        ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (file_descriptor_ < 0 && errno != EEXIST) {
      break;
    }
  }
  if (file_descriptor_ < 0) {
    path_.clear();
    return false;
  }
  void* memory = MAP_FAILED;
  // The file has its full size from the start, but memory only as far as it is used: all that is written to has been
  // reserved before, since a full file system would turn the first write to a page into a SIGBUS.
  if (::flock(file_descriptor_, LOCK_SH | LOCK_NB) == 0 && ::fchmod(file_descriptor_, S_IRUSR | S_IWUSR) == 0 &&
      file_may_have(sizeof(PublishedCache)) && ::ftruncate(file_descriptor_, sizeof(PublishedCache)) == 0 &&
      reserve(offsetof(PublishedCache, regions))) {
    memory = ::mmap(nullptr, sizeof(PublishedCache), PROT_READ | PROT_WRITE, MAP_SHARED, file_descriptor_, 0);
  }
  if (memory == MAP_FAILED) {
    ::unlink(path_.c_str());
    ::close(file_descriptor_);
    file_descriptor_ = -1;
    path_.clear();
    return false;
  }
  memory_ = static_cast<PublishedCache*>(memory);
  memory_->header.instance = name.instance;
  return true;
}

/// Makes sure that the file's bytes before `end_bytes` can be written. Plain memory always can.
bool Publication::reserve(std::uint64_t end_bytes) noexcept {
  if (file_descriptor_ < 0) {
    return true;
  }
  int result = 0;
  do {
    result = ::fallocate(file_descriptor_, 0, 0, static_cast<off_t>(end_bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

CounterBlock& Publication::cache_counters() noexcept {
  return memory_->counters;
}

PublishedRegion* Publication::add_region(const std::string& store_name, std::uint64_t length_bytes,
                                         std::uint64_t page_size_bytes) {
  const std::lock_guard lock(mutex_);
  const auto free_slot = std::ranges::find_if(memory_->regions, [](const PublishedRegion& region) {
    return region.in_use.load(std::memory_order_relaxed) == 0;
  });
  if (free_slot == std::end(memory_->regions)) {
    return nullptr;
  }
  const auto slot = static_cast<std::uint32_t>(free_slot - std::begin(memory_->regions));
  PublishedHeader& header = memory_->header;
  if (slot >= header.slots_used.load(std::memory_order_relaxed)) {
    if (!reserve(offsetof(PublishedCache, regions) + (slot + std::uint64_t{1}) * sizeof(PublishedRegion))) {
      return nullptr;
    }
    header.slots_used.store(slot + 1, std::memory_order_relaxed);
  }
  PublishedRegion& region = *free_slot;
  const std::size_t room = sizeof(region.name) - 1;
  const std::size_t cut = store_name.size() > room ? store_name.size() - room : 0;
  copy_name(region.name, std::string_view(store_name).substr(cut));
  region.length_bytes.store(length_bytes, std::memory_order_relaxed);
  region.page_size_bytes.store(page_size_bytes, std::memory_order_relaxed);
  clear(region.counters);
  region.tiers.clear();
  region.in_use.store(1, std::memory_order_release);
  return &region;
}

void Publication::remove_region(PublishedRegion* region) noexcept {
  if (region != nullptr) {
    const std::lock_guard lock(mutex_);
    region->in_use.store(0, std::memory_order_release);
  }
}

}  // namespace tiermap
