// A region in fault mode kernel.
#pragma once

#include <memory>
#include <mutex>

#include "observe/publication.hpp"
#include "region/kernel_mapping.hpp"
#include "region/region_implementation.hpp"

namespace tiermap {

class KernelEngine;

class KernelRegion final : public RegionImplementation {
 public:
  KernelRegion(std::shared_ptr<KernelEngine> engine, const std::shared_ptr<Store>& store, const RegionOptions& options,
               const ResolvedRegionOptions& resolved);
  ~KernelRegion() override;

  std::byte* data() const noexcept override { return mapping_ == nullptr ? nullptr : mapping_->data(); }
  std::uint64_t size() const noexcept override { return mapping_ == nullptr ? 0 : mapping_->length(); }
  std::uint64_t page_size_bytes() const noexcept override { return page_bytes_; }
  std::shared_ptr<PrefetchState> prefetch(std::span<const ByteRange> ranges) override;
  void pin(ByteRange range) override;
  void unpin(ByteRange range) override;
  void advise(Advice advice, ByteRange range) override;
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
  CounterBlock& counters() noexcept { return published_ != nullptr ? published_->counters : *own_counters_; }
  int write_back(ByteRange range, bool wait) noexcept;
  void discard_private(ByteRange range);
  void discard_shared(ByteRange range);
  void take_down() noexcept;

  const std::shared_ptr<KernelEngine> engine_;
  const std::uint64_t page_bytes_;
  std::unique_ptr<KernelMapping> mapping_;
  std::unique_ptr<CounterBlock> own_counters_;  ///< When the publication has no slot left.
  PublishedRegion* published_ = nullptr;
  std::mutex write_mutex_;  ///< One resize or unmap of this region at a time.
};

}  // namespace tiermap
