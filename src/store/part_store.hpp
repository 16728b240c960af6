// A part of another store, as a store of its own.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "store/forwarding_store.hpp"

namespace tiermap {

/// Of fixed size, whatever becomes of the whole. Thread-safe as that is.
class PartStore final : public ForwardingStore {
 public:
  /// `whole` has all of the part.
  PartStore(std::shared_ptr<Store> whole, std::uint64_t first, std::uint64_t bytes, std::string name,
            std::optional<ElementLayout> elements)
      : ForwardingStore(std::move(whole)),
        first_(first),
        bytes_(bytes),
        name_(std::move(name)),
        elements_(std::move(elements)) {}

  std::uint64_t size_bytes() const override { return bytes_; }
  bool growable() const override { return false; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return base_->read(buffer, within(bytes, offset), first_ + std::min(offset, bytes_));
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const std::size_t count = within(bytes, offset);
    return count == 0 && bytes > 0 ? -ENOSPC : base_->write(buffer, count, first_ + std::min(offset, bytes_));
  }
  void score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept override {
    base_->score(first_ + offset, bytes, score, sharer);
  }
  double read_microseconds(std::uint64_t offset, std::uint64_t bytes) const noexcept override {
    return base_->read_microseconds(first_ + offset, bytes);
  }
  // NOLINTBEGIN(bugprone-parent-virtual-call): as any store that cannot, and not as the one below.
  int resize(std::uint64_t bytes) override { return Store::resize(bytes); }
  int punch(std::uint64_t offset, std::uint64_t bytes) override { return Store::punch(offset, bytes); }
  // NOLINTEND(bugprone-parent-virtual-call)
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override {
    const std::size_t count = within(bytes, offset);
    return aligned() && count > 0 && base_->locate_read(first_ + offset, count, extent);
  }
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override {
    const std::size_t count = within(bytes, offset);
    return aligned() && count > 0 && base_->locate_write(first_ + offset, count, extent);
  }
  std::uint32_t direct_alignment() const override { return aligned() ? base_->direct_alignment() : 1; }
  std::optional<ElementLayout> element_layout() const override { return elements_; }
  std::string name() const override { return name_; }

 private:
  std::size_t within(std::uint64_t bytes, std::uint64_t offset) const noexcept {
    return static_cast<std::size_t>(std::min(bytes, bytes_ - std::min(offset, bytes_)));
  }
  /// Otherwise an aligned place in the part is none in the whole.
  bool aligned() const noexcept { return first_ % base_->direct_alignment() == 0; }

  const std::uint64_t first_;
  const std::uint64_t bytes_;
  const std::string name_;
  const std::optional<ElementLayout> elements_;
};

}  // namespace tiermap
