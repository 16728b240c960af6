// A store over another one, which is asked for everything that a derived class does not do otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tiermap/store.hpp"

namespace tiermap {

class ForwardingStore : public Store {
 public:
  std::uint64_t size_bytes() const override { return base_->size_bytes(); }
  bool writable() const override { return base_->writable(); }
  bool growable() const override { return base_->growable(); }
  std::uint64_t most_bytes() const override { return base_->most_bytes(); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return base_->read(buffer, bytes, offset);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return base_->write(buffer, bytes, offset);
  }
  int flush() override { return base_->flush(); }
  int settle() override { return base_->settle(); }
  void score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept override {
    base_->score(offset, bytes, score, sharer);
  }
  double read_microseconds(std::uint64_t offset, std::uint64_t bytes) const noexcept override {
    return base_->read_microseconds(offset, bytes);
  }
  void show_tiers(PublishedTiers& tiers, bool shown) noexcept override { base_->show_tiers(tiers, shown); }
  int resize(std::uint64_t bytes) override { return base_->resize(bytes); }
  int punch(std::uint64_t offset, std::uint64_t bytes) override { return base_->punch(offset, bytes); }
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override {
    return base_->locate_read(offset, bytes, extent);
  }
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override {
    return base_->locate_write(offset, bytes, extent);
  }
  std::uint32_t direct_alignment() const override { return base_->direct_alignment(); }
  bool reads_in_signal_handler() const override { return base_->reads_in_signal_handler(); }
  bool writes_whole_pages() const override { return base_->writes_whole_pages(); }
  std::uint32_t max_reads_in_flight() const override { return base_->max_reads_in_flight(); }
  std::uint32_t max_writes_in_flight() const override { return base_->max_writes_in_flight(); }
  std::optional<ElementLayout> element_layout() const override { return base_->element_layout(); }
  std::string name() const override { return base_->name(); }

 protected:
  explicit ForwardingStore(std::shared_ptr<Store> base) : base_(std::move(base)) {}

  const std::shared_ptr<Store> base_;
};

}  // namespace tiermap
