// A store of which no more is asked at once than it likes: the engine sees the tiers in front, and not its wish.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <semaphore>
#include <utility>

#include "store/forwarding_store.hpp"

namespace tiermap {

class CappedStore final : public ForwardingStore {
 public:
  explicit CappedStore(std::shared_ptr<Store> base)
      : ForwardingStore(std::move(base)),
        reads_(base_->max_reads_in_flight()),
        writes_(base_->max_writes_in_flight()) {}

  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const Turn turn(reads_);
    return base_->read(buffer, bytes, offset);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const Turn turn(writes_);
    return base_->write(buffer, bytes, offset);
  }

 private:
  struct Cap {
    explicit Cap(std::uint32_t most) {
      if (most != 0) {
        turns.emplace(static_cast<std::ptrdiff_t>(most));
      }
    }
    std::optional<std::counting_semaphore<>> turns;
  };
  class Turn {
   public:
    explicit Turn(Cap& cap) : cap_(cap) {
      if (cap_.turns) {
        cap_.turns->acquire();
      }
    }
    ~Turn() {
      if (cap_.turns) {
        cap_.turns->release();
      }
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Cap& cap_;
  };

  Cap reads_;
  Cap writes_;
};

}  // namespace tiermap
