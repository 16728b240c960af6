// Where the bytes of a data set lie on its servers. Nothing here knows a server.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "cluster/memory_protocol.hpp"
#include "cluster/remote/stripe_table.hpp"

namespace tiermap {

class DataSetPlacement {
 public:
  /// With a table, stripes of one copy lie where that says.
  explicit DataSetPlacement(const DataSetLayout& layout, std::shared_ptr<const StripeTable> table = nullptr) noexcept
      : layout_(layout), table_(std::move(table)) {}

  /// How far from `offset` on, at most `bytes`, everything is on the same servers, one behind the other.
  std::uint64_t run(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return striped() ? std::min(bytes, layout_.stripe_bytes - offset % layout_.stripe_bytes) : bytes;
  }
  /// How many servers have a byte.
  std::uint32_t copies() const noexcept { return striped() ? layout_.copies : layout_.servers; }
  std::uint32_t server(std::uint64_t offset, std::uint32_t copy) const noexcept {
    if (table_ != nullptr) {
      return table_->server(offset / layout_.stripe_bytes);
    }
    return striped() ? static_cast<std::uint32_t>((offset / layout_.stripe_bytes + copy) % layout_.servers) : copy;
  }
  /// Where it has it. A server has `copies` stripes of each round of the servers.
  std::uint64_t local_offset(std::uint64_t offset, std::uint32_t copy) const noexcept {
    if (!striped()) {
      return offset;
    }
    const std::uint64_t within = offset % layout_.stripe_bytes;
    if (table_ != nullptr) {
      return table_->place(offset / layout_.stripe_bytes) * layout_.stripe_bytes + within;
    }
    const std::uint64_t round = offset / layout_.stripe_bytes / layout_.servers;
    return (round * layout_.copies + copy) * layout_.stripe_bytes + within;
  }
  /// The other way round, of one copy: what lies there on a server. UINT64_MAX for what is beyond the last stripe.
  std::uint64_t whole_offset(std::uint32_t server, std::uint64_t local) const noexcept {
    if (!striped()) {
      return local;
    }
    const std::uint64_t within = local % layout_.stripe_bytes;
    const std::uint64_t place = local / layout_.stripe_bytes;
    if (table_ == nullptr) {
      return (place * layout_.servers + server) * layout_.stripe_bytes + within;
    }
    const std::span<const std::uint32_t> stripes = table_->stripes(server);
    return place < stripes.size() ? stripes[place] * layout_.stripe_bytes + within : UINT64_MAX;
  }
  /// Of what is counted in whole stripes.
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 62U;
  /// What each server has to have for so many bytes, without a table.
  std::uint64_t local_bytes(std::uint64_t bytes) const noexcept {
    if (!striped()) {
      return bytes;
    }
    const std::uint64_t round = layout_.stripe_bytes * layout_.servers;
    return (bytes + round - 1) / round * layout_.copies * layout_.stripe_bytes;
  }
  /// What this one has to have: a stripe at least, as a data set has a size.
  std::uint64_t local_bytes_of(std::uint32_t server, std::uint64_t bytes) const noexcept {
    return table_ == nullptr ? local_bytes(bytes)
                             : std::max<std::uint64_t>(table_->stripes(server).size(), 1) * layout_.stripe_bytes;
  }
  /// How far what servers have for so many bytes goes.
  std::uint64_t kept_bytes(std::uint64_t bytes) const noexcept {
    const std::uint64_t round = striped() ? layout_.stripe_bytes * layout_.servers : 1;
    return (bytes + round - 1) / round * round;
  }
  /// Whether different bytes may be moved to different servers.
  bool striped() const noexcept { return layout_.kind == DataSetLayout::Kind::striped; }

 private:
  DataSetLayout layout_;
  std::shared_ptr<const StripeTable> table_;
};

}  // namespace tiermap
