// A store made as slow as another kind would be: an emulated backing store.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "store/forwarding_store.hpp"
#include "tier/throttle.hpp"

namespace tiermap {

class ThrottledStore final : public ForwardingStore {
 public:
  ThrottledStore(std::shared_ptr<Store> base, double bytes_per_second, double latency_microseconds)
      : ForwardingStore(std::move(base)), throttle_(bytes_per_second, latency_microseconds) {}

  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    throttle_.transfer(bytes);
    return base_->read(buffer, bytes, offset);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    throttle_.transfer(bytes);
    return base_->write(buffer, bytes, offset);
  }
  // All has to come by here.
  bool locate_read(std::uint64_t, std::uint64_t, Extent&) const noexcept override { return false; }
  bool locate_write(std::uint64_t, std::uint64_t, Extent&) noexcept override { return false; }
  bool reads_in_signal_handler() const override { return false; }
  std::string name() const override { return base_->name() + " (emulated)"; }

 private:
  Throttle throttle_;
};

}  // namespace tiermap
