// What a Cache is inside: one of two engines behind one interface. The userfaultfd engine owns frames, policy, threads
// and faults; the kernel engine maps files with plain mmap where userfaultfd cannot be had.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "config/resolve.hpp"
#include "platform/memory_promise.hpp"
#include "region/region_implementation.hpp"
#include "store/store_url.hpp"
#include "tiermap/options.hpp"
#include "tiermap/statistics.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  virtual ~Engine() = default;
  /// Maps a store whose options have been checked against it (see check_mapping).
  virtual std::shared_ptr<RegionImplementation> map(std::shared_ptr<Store> store, const RegionOptions& options,
                                                    const ResolvedRegionOptions& resolved) = 0;
  /// Throws what map() would, as far as it can be told before there is a store: nothing is to be created for a mapping
  /// that cannot be.
  virtual void check_room(const RegionOptions& options, const ResolvedRegionOptions& resolved) const;
  /// Throws if a store that has to be made first could not be mapped.
  virtual void check_new_store(const StoreUrl&) const {}
  virtual std::uint64_t budget_bytes() const noexcept = 0;
  virtual void set_budget_bytes(std::uint64_t bytes) = 0;
  virtual std::uint64_t minimum_budget_bytes() const noexcept = 0;
  virtual Statistics statistics() const = 0;
  /// Keeps what it is promised for as long as it may take it; an engine whose memory the kernel takes back does not.
  virtual void hold(MemoryPromise) {}

  /// Whether this is a forked child, which shares nothing with the engine but a copy of its memory.
  bool in_child() const noexcept { return ::getpid() != owner_; }
  FaultMode fault_mode() const noexcept { return fault_mode_; }
  const std::string& fault_mode_reason() const noexcept { return reason_; }

 protected:
  Engine(FaultMode fault_mode, std::string reason) : fault_mode_(fault_mode), reason_(std::move(reason)) {}

 private:
  FaultMode fault_mode_;
  std::string reason_;
  pid_t owner_ = ::getpid();
};

/// Makes the engine that the options ask for, or the best this machine allows. Throws PlatformError.
std::shared_ptr<Engine> make_engine(const ResolvedCacheOptions& options);

/// Each in a file of its own; make_engine() chooses.
std::shared_ptr<Engine> make_userfaultfd_engine(const ResolvedCacheOptions& options, FaultMode mode,
                                                std::string reason);
std::shared_ptr<Engine> make_kernel_engine(const ResolvedCacheOptions& options, std::string reason);

}  // namespace tiermap
