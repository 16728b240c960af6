// A store under a vector: it has as many bytes as the vector has elements for, and no more, whatever the size of pages.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "tiermap/store.hpp"

namespace tiermap {

/// Pages reach beyond the last element, and are written as whole blocks. What is written beyond the limit is dropped
/// here, and before anything is written beyond the end of the store it is given the limit's length: so it never ends in
/// the middle of an element.
///
/// Thread-safe. Whoever changes the length of the store holds length_mutex_. While the limit is lowered nobody but the
/// engine may be at work on the store: what it began to write before may still arrive, and make the store longer again.
class GrowingStore final : public Store {
 public:
  /// `base` can grow. The limit is its size.
  GrowingStore(std::shared_ptr<Store> base, std::string name);

  /// What the vector has.
  std::uint64_t limit_bytes() const noexcept { return limit_.load(std::memory_order_acquire); }
  static constexpr std::uint64_t no_room = ~std::uint64_t{0};
  /// Adds to the limit and returns what it was; no_room, and nothing is changed, if it would be over `most`.
  std::uint64_t extend(std::uint64_t bytes, std::uint64_t most) noexcept;
  /// For a new limit. Of what lies behind nothing is written from now on.
  void set_limit(std::uint64_t bytes) noexcept { limit_.store(bytes, std::memory_order_release); }
  /// Makes the store as long as the limit says if it is shorter. Returns 0 or a negative errno value.
  int lengthen();
  int lengthen_to(std::uint64_t bytes);
  /// Makes the store shorter, and the limit lower only once it is: where that fails nothing may have been dropped
  /// meanwhile. Returns 0 or a negative errno value.
  int cut(std::uint64_t bytes);
  /// Makes it as long as the limit says if it is longer, or may be: of a write that was on its way it does not know
  /// itself.
  int shorten();

  /// From now on the kernel may map the store's file further than that reaches: what is behind its end is touched when
  /// it has been made longer, and not before. False where the store is no plain file. Before it is mapped.
  bool map_by_kernel();
  /// Nothing to do, where the kernel maps it.
  int resize(std::uint64_t bytes) override;

  std::uint64_t size_bytes() const override { return base_->size_bytes(); }
  bool writable() const override { return true; }
  bool growable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int flush() override;
  int settle() override { return base_->settle(); }
  void score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept override {
    base_->score(offset, bytes, score, sharer);
  }
  double read_microseconds(std::uint64_t offset, std::uint64_t bytes) const noexcept override {
    return base_->read_microseconds(offset, bytes);
  }
  void show_tiers(PublishedTiers& tiers, bool shown) noexcept override { base_->show_tiers(tiers, shown); }
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override;
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override;
  std::uint32_t direct_alignment() const override { return base_->direct_alignment(); }
  bool writes_whole_pages() const override { return base_->writes_whole_pages(); }
  std::uint32_t max_reads_in_flight() const override { return base_->max_reads_in_flight(); }
  std::uint32_t max_writes_in_flight() const override { return base_->max_writes_in_flight(); }
  std::string name() const override { return name_; }

 private:
  int make_longer(std::uint64_t bytes);

  const std::shared_ptr<Store> base_;
  const std::string name_;
  std::atomic<std::uint64_t> limit_;
  std::mutex length_mutex_;
  int mapped_descriptor_ = -1;  ///< The file's, where the kernel maps it.
};

}  // namespace tiermap
