// Stores in memory that behave as files on one disk: what was not flushed may be lost, calls can fail, and everything
// that was done to them can be done again up to any point.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tiermap/store.hpp"

namespace tiermap {

using Bytes = std::vector<char>;

/// One change of one file of the disk.
struct DiskChange {
  enum class Kind : std::uint8_t { write, resize, punch, flush } kind;
  std::size_t file;
  std::uint64_t offset;  ///< Or the new size.
  std::uint64_t bytes;
  Bytes content;
};

inline void redo(const DiskChange& change, Bytes& file) {
  switch (change.kind) {
    case DiskChange::Kind::write:
      file.resize(std::max<std::size_t>(file.size(), change.offset + change.bytes));
      std::copy(change.content.begin(), change.content.end(),
                file.begin() + static_cast<std::ptrdiff_t>(change.offset));
      break;
    case DiskChange::Kind::resize:
      file.resize(change.offset);
      break;
    case DiskChange::Kind::punch:
      std::fill_n(file.begin() + static_cast<std::ptrdiff_t>(change.offset), change.bytes, 0);
      break;
    case DiskChange::Kind::flush:
      break;
  }
}

/// The changes of all files, in the order in which they were made.
class DiskLog {
 public:
  void add(DiskChange change) {
    const std::lock_guard lock(mutex_);
    changes_.push_back(std::move(change));
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return changes_.size();
  }
  const DiskChange& operator[](std::size_t index) const { return changes_[index]; }

  /// The file as the disk may have it if power fails after the first `count` changes: what was flushed, and of the rest
  /// each sector or not. Sizes are metadata: a change of one is there or not, as a whole.
  Bytes after_power_loss(std::size_t file, Bytes content, std::size_t count, std::mt19937_64& random) const {
    std::size_t durable = 0;
    for (std::size_t index = 0; index < count; ++index) {
      if (changes_[index].file == file && changes_[index].kind == DiskChange::Kind::flush) {
        durable = index;
      }
    }
    const std::uint64_t keep_of_4 = random() % 5;
    for (std::size_t index = 0; index < count; ++index) {
      const DiskChange& change = changes_[index];
      if (change.file != file) {
        continue;
      }
      if (index < durable) {
        redo(change, content);
      } else if (change.kind == DiskChange::Kind::write) {
        for (std::uint64_t at = 0; at < change.bytes; at += sector_bytes) {
          if (random() % 4 < keep_of_4) {
            const auto from = change.content.begin() + static_cast<std::ptrdiff_t>(at);
            const std::uint64_t bytes = std::min(sector_bytes, change.bytes - at);
            redo({change.kind, file, change.offset + at, bytes, {from, from + static_cast<std::ptrdiff_t>(bytes)}},
                 content);
          }
        }
      } else if (random() % 4 < keep_of_4 &&
                 (change.kind != DiskChange::Kind::punch || change.offset + change.bytes <= content.size())) {
        redo(change, content);
      }
    }
    return content;
  }

 private:
  static constexpr std::uint64_t sector_bytes = 512;
  mutable std::mutex mutex_;
  std::vector<DiskChange> changes_;
};

/// One file of the disk.
class FileOnDisk final : public Store {
 public:
  FileOnDisk(std::string name, Bytes content, std::shared_ptr<DiskLog> log = nullptr, std::size_t file = 0)
      : name_(std::move(name)), content_(std::move(content)), log_(std::move(log)), file_(file) {}

  /// Asked before every change: 0, or the errno value with which it fails.
  std::function<int(DiskChange::Kind)> refuse;

  Bytes content() const {
    const std::lock_guard lock(mutex_);
    return content_;
  }
  std::uint64_t size_bytes() const override {
    const std::lock_guard lock(mutex_);
    return content_.size();
  }
  bool writable() const override { return true; }
  bool growable() const override { return true; }
  std::string name() const override { return name_; }

  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const std::lock_guard lock(mutex_);
    const std::uint64_t got = std::min<std::uint64_t>(bytes, content_.size() - std::min(content_.size(), offset));
    std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>(std::min(content_.size(), offset)), got,
                static_cast<char*>(buffer));
    return static_cast<std::int64_t>(got);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const char* const from = static_cast<const char*>(buffer);
    const int result = change({DiskChange::Kind::write, file_, offset, bytes, {from, from + bytes}});
    return result == 0 ? static_cast<std::int64_t>(bytes) : result;
  }
  int flush() override { return change({DiskChange::Kind::flush, file_, 0, 0, {}}); }
  int resize(std::uint64_t bytes) override { return change({DiskChange::Kind::resize, file_, bytes, 0, {}}); }
  int punch(std::uint64_t offset, std::uint64_t bytes) override {
    return change({DiskChange::Kind::punch, file_, offset, bytes, {}});
  }

 private:
  int change(DiskChange change) {
    const std::lock_guard lock(mutex_);
    if (const int error = refuse ? refuse(change.kind) : 0; error != 0) {
      return -error;
    }
    redo(change, content_);
    if (log_ != nullptr) {
      log_->add(std::move(change));
    }
    return 0;
  }

  const std::string name_;
  mutable std::mutex mutex_;
  Bytes content_;
  const std::shared_ptr<DiskLog> log_;
  const std::size_t file_;
};

}  // namespace tiermap
