// A Store that is a table of C functions.
#pragma once

#include "tiermap/store.h"
#include "tiermap/store.hpp"

namespace tiermap {

/// Thread-safe as far as the functions are. What they return is checked: a count larger than what was asked for, which
/// would let bytes that nobody wrote into a page, is -EIO.
class CallbackStore final : public Store {
 public:
  /// Copies the table; calls destroy() when it is destroyed itself, and only then: after an exception the context is
  /// still the caller's. Throws OptionError for a table without size or read, of an unknown length, or with unknown
  /// flags.
  explicit CallbackStore(const tiermap_store_functions& functions);
  ~CallbackStore() override;
  CallbackStore(const CallbackStore&) = delete;
  CallbackStore& operator=(const CallbackStore&) = delete;

  std::uint64_t size_bytes() const override;
  bool writable() const override { return functions_.write != nullptr; }
  bool growable() const override { return writable() && (functions_.flags & TIERMAP_STORE_GROWABLE) != 0; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int flush() override;
  int resize(std::uint64_t bytes) override;
  bool reads_in_signal_handler() const override {
    return (functions_.flags & TIERMAP_STORE_READS_IN_SIGNAL_HANDLER) != 0;
  }
  std::uint32_t max_reads_in_flight() const override { return functions_.max_reads_in_flight; }
  std::uint32_t max_writes_in_flight() const override { return functions_.max_writes_in_flight; }
  std::string name() const override { return name_; }

 private:
  const tiermap_store_functions functions_;
  const std::string name_;
};

}  // namespace tiermap
