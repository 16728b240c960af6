// The same pointer from three systems: a tiermap Region, mmap, or plain memory. What an application says about its
// accesses goes to each in the system's own words, so that a comparison is of systems and not of programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "command_line/backing.hpp"
#include "command_line/options.hpp"
#include "tiermap/cache.hpp"
#include "tiermap/region.hpp"
#include "tiermap/statistics.hpp"

namespace tiermap {

/// A store's bytes as an address range. Members are thread-safe; ranges are in bytes.
class MappedBytes {
 public:
  virtual ~MappedBytes() = default;
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }
  template <typename T>
  std::span<T> as_span() const noexcept {
    return {reinterpret_cast<T*>(data_), static_cast<std::size_t>(size_ / sizeof(T))};
  }

  /// These ranges will be touched soon, in this order: Region::prefetch(), MADV_WILLNEED, nothing.
  virtual void prefetch(std::span<const ByteRange> ranges) = 0;
  void prefetch(ByteRange range) { prefetch(std::span<const ByteRange>(&range, 1)); }
  /// Region::advise(), madvise(), nothing.
  virtual void advise(Advice advice, ByteRange range) = 0;
  /// Starts writing back: Region::flush(), sync_file_range(), nothing.
  virtual void flush(ByteRange range) = 0;
  /// What was written is on the store when this returns: Region::sync(), msync(); in memory nothing.
  virtual void sync() = 0;
  /// For memory: writes the bytes to the store. For the others the same as sync().
  virtual void save() = 0;
  /// What is in memory is not needed any more, nor to be written: Region::discard(); the others know it when the file
  /// is removed.
  virtual void discard() {}

 protected:
  MappedBytes() = default;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

/// Makes MappedBytes. Outlives what it made.
class MemorySystem {
 public:
  /// Throws what Cache's constructor throws, and what Cache::map() throws for options that suit no store.
  static std::unique_ptr<MemorySystem> make(const WorkloadOptions& options);
  virtual ~MemorySystem() = default;

  /// Throws OptionError if a store of this URL cannot be mapped, as far as the URL tells: before one is made and
  /// filled. Throws StoreError for what is no URL.
  virtual void check_url(const std::string& url) const = 0;
  /// Throws OptionError if what is mapped, of so many bytes in all, would take more memory than may still be taken, and
  /// the process be killed with all that it has made still there.
  virtual void check_memory_for(std::uint64_t /*bytes*/) const {}
  /// Throws OptionError for a store that the system cannot map, StoreError, PlatformError.
  virtual std::unique_ptr<MappedBytes> map(const Backing& backing, Access access) = 0;

  /// tiermap's, for what makes regions of its own; null for the others.
  virtual Cache* cache() { return nullptr; }
  /// DRAM that the program should reckon with.
  virtual std::uint64_t budget_bytes() const = 0;
  /// The unit in which the system moves bytes.
  virtual std::uint64_t page_size_bytes() const = 0;
  /// In what a few bytes come that are fetched ahead: less than a page where the page size follows the access.
  virtual std::uint64_t least_page_bytes() const { return page_size_bytes(); }
  /// How the system works here, in a few words.
  virtual std::string description() const = 0;
  /// tiermap's numbers; all zero for the others.
  virtual Statistics statistics() const { return {}; }
};

}  // namespace tiermap
