// What is left to the kernel because it fits: where nothing has to be given up, nobody is faster than the kernel, whose
// page cache may have the data already.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "platform/process_maps.hpp"
#include "preload/served_ranges.hpp"

namespace tiermap::preload {

/// Files whose mappings are only read, each as a whole, whatever parts of it are mapped; together no more than seven
/// eighths of the buffer, and of one under 128 MiB so much that 16 MiB are left, or half. What they take, the engine's
/// budget is less by. A file that is unmapped stays in the account until the engine starts: its pages stay in memory.
/// Under the lock of Mappings.
class FittingFiles {
 public:
  /// Nothing fits in a buffer of 0 bytes.
  explicit FittingFiles(std::uint64_t buffer_bytes) noexcept : buffer_bytes_(buffer_bytes) {}

  /// Whether mappings of the file, which has so many bytes, would be the kernel's.
  bool has_room(FileIdentity file, std::uint64_t bytes) const {
    const auto known = files_.find(file);
    const std::uint64_t before = known == files_.end() ? 0 : known->second;
    if (bytes <= before) {
      return known != files_.end();
    }
    return !closed_ && bytes_ + (bytes - before) <= buffer_bytes_ - kept_bytes();
  }
  /// Whether they are; the file is in the account then.
  bool admit(FileIdentity file, std::uint64_t bytes) {
    if (!has_room(file, bytes)) {
      return false;
    }
    std::uint64_t& counted = files_[file];
    bytes_ += std::max(bytes, counted) - counted;
    counted = std::max(bytes, counted);
    return true;
  }
  /// The engine starts: from here on nothing more fits beside it, but what is still mapped. Returns what that leaves of
  /// the buffer, nothing if that is all. `mapped`: the numbers of such files.
  std::optional<std::uint64_t> close(const MappedNumbers& mapped) noexcept {
    closed_ = true;
    std::erase_if(files_, [&](const auto& entry) {
      const bool unmapped = !mapped.may_contain(entry.first);
      bytes_ -= unmapped ? entry.second : 0;
      return unmapped;
    });
    return bytes_ == 0 ? std::nullopt : std::optional(buffer_bytes_ - bytes_);
  }

 private:
  /// For what comes later and does not fit.
  std::uint64_t kept_bytes() const noexcept {
    return std::min(buffer_bytes_ / 2, std::max(buffer_bytes_ / 8, std::uint64_t{16} << 20U));
  }

  std::uint64_t buffer_bytes_;
  std::uint64_t bytes_ = 0;
  bool closed_ = false;
  std::map<FileIdentity, std::uint64_t> files_;
};

}  // namespace tiermap::preload
