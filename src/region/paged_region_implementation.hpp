// A region served by the userfaultfd engine.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "config/resolve.hpp"
#include "fault/evictors.hpp"
#include "fault/page_size_choice.hpp"
#include "fault/paged_region.hpp"
#include "observe/publication.hpp"
#include "platform/address_range.hpp"
#include "region/region_implementation.hpp"

namespace tiermap {

class UserfaultfdEngine;

class PagedRegionImplementation final : public RegionImplementation {
 public:
  PagedRegionImplementation(std::shared_ptr<UserfaultfdEngine> engine, std::shared_ptr<Store> store,
                            const RegionOptions& options, const ResolvedRegionOptions& resolved);
  ~PagedRegionImplementation() override;

  std::byte* data() const noexcept override { return region_.memory; }
  std::uint64_t size() const noexcept override { return region_.length.load(std::memory_order_relaxed); }
  std::uint64_t page_size_bytes() const noexcept override { return region_.page_bytes; }
  std::uint64_t least_page_bytes() const noexcept override {
    return small_ != nullptr ? small_->page_bytes : region_.page_bytes;
  }
  std::shared_ptr<PrefetchState> prefetch(std::span<const ByteRange> ranges) override;
  void pin(ByteRange range) override;
  void unpin(ByteRange range) override;
  void advise(Advice advice, ByteRange range) override;
  void make_room(ByteRange range) override;
  std::uint64_t pages_in_memory(ByteRange range) const noexcept override;
  void sync(ByteRange range) override;
  void write_back(ByteRange range) override;
  void flush(ByteRange range) override;
  void discard(ByteRange range) override;
  void update(ByteRange range, const std::function<void()>& change) override;
  bool hand_over(const std::function<bool()>& replace) override;
  void resize(std::uint64_t length) override;
  void unmap() override;
  void abandon() noexcept override;
  Statistics statistics() const override;

 private:
  friend class UserfaultfdEngine;

  struct Pages {
    std::uint64_t first;
    std::uint64_t end;
  };
  Pages pages_of(ByteRange range) const noexcept { return pages_of(region_, range); }
  static Pages pages_of(const PagedRegion& region, ByteRange range) noexcept;
  static Pages all_pages(const PagedRegion& region) noexcept { return {0, region.page_count()}; }
  /// Calls visit(region) for the region, and for those of the same bytes in pages of other sizes.
  template <typename Visit>
  void for_each_size(Visit&& visit) {
    visit(region_);
    if (choice_ != nullptr) {
      visit(*small_);
      visit(*wide_);
    }
  }
  PagedRegion& prefetched_in(ByteRange range) noexcept;
  std::unique_ptr<PagedRegion> in_pages_of(std::uint64_t page_bytes);
  void add_sizes();
  void set_length(std::uint64_t length) noexcept;
  void use_large_pages();
  void reserve(const RegionOptions& options);
  PageTable table_of(std::uint64_t page_bytes) const;
  void open_range(std::uint64_t from, std::uint64_t to);
  int write_back(PagedRegion& region, Pages pages);
  int write_back_sizes(ByteRange range);
  void quiesce(PagedRegion& region) noexcept;
  void drop(ByteRange range, bool to_system);
  void give_back_page_tables(Pages pages) noexcept;
  [[noreturn]] void refuse_write_back(int error) const;
  void enter_index();
  void leave_index() noexcept;
  void leave_engine() noexcept;
  void reckon_whole_bytes(std::uint64_t pages) noexcept;
  /// Whether what is dirty at the end of the region is written: a private copy's changes go with it.
  bool writes_at_end() const noexcept { return region_.writable && !region_.manual_flush && !private_copy_; }
  void grow(std::uint64_t length);
  void shrink(std::uint64_t length);
  int hold_page(std::uint64_t page);
  enum class Holding : std::uint8_t { page, in_long_update, of_chosen_size };
  static constexpr int left_to_others = 1;
  int hold_page_locked(PagedRegion& region, std::uint64_t page, Holding holding);
  int hold_alone_locked(PagedRegion& region, std::uint64_t page, Holding holding);
  bool left_to_other_sizes(PagedRegion& region, std::uint64_t page) noexcept;
  int hold_pages(PagedRegion& region, Pages pages, std::vector<std::uint64_t>& held);
  bool is_held_in_small_pages(ByteRange range) const noexcept;
  bool update_held(PagedRegion& region, ByteRange range, const std::function<void()>& change);
  void take_out(PagedRegion& region, Pages pages);
  int take_out_locked(PagedRegion& region, Pages pages);
  int take_out_around_locked(const PagedRegion& held_in, std::uint64_t page);
  void take_out_other_sizes();
  void let_go(PagedRegion& region, std::span<const std::uint64_t> pages) noexcept;
  void close_range(std::uint64_t first, std::uint64_t keep_bytes);
  void quiesce() noexcept;
  void forbid(std::uint64_t from, std::uint64_t end) noexcept;
  [[noreturn]] void refuse_resize(int error) const;
  void reopen() noexcept;
  bool make_resident(std::uint64_t page, bool pinned);
  bool add_pin(std::uint64_t page, PageWord word) noexcept;
  bool remove_pin(std::uint64_t page) noexcept;
  void unpin_all(Pages pages) noexcept;
  std::uint64_t page_cost() const noexcept;
  void take_down() noexcept;

  std::shared_ptr<UserfaultfdEngine> engine_;
  PagedRegion region_;
  std::uint64_t whole_bytes_ = 0;  ///< As the pager was told.
  /// Where the page size follows the access: the same bytes in small pages and in wide ones, and what decides.
  std::unique_ptr<PagedRegion> small_;
  std::unique_ptr<PagedRegion> wide_;
  std::unique_ptr<PageSizeChoice> choice_;
  std::atomic<bool> all_large_{false};  ///< The choice has ended, and no page of another size is left.
  AddressRange memory_;
  const bool private_copy_;
  std::uint64_t reserved_bytes_ = 0;
  std::unique_ptr<CounterBlock> own_counters_;  ///< When the publication has no slot left.
  PublishedRegion* published_ = nullptr;
  std::mutex long_update_mutex_;           ///< One update() of a long range at a time; taken before write_mutex_.
  std::mutex write_mutex_;                 ///< One sync, unmap or resize of this region at a time.
  std::unique_ptr<WriteBack> write_back_;  ///< For single pages.
  bool taken_down_ = false;
};

}  // namespace tiermap
