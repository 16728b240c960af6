// Which server has which stripe of a data set, where that is not one after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tiermap {

/// Each server has its stripes in their order, one behind the other. Unchangeable once made.
class StripeTable {
 public:
  /// More are not kept in tables.
  static constexpr std::uint64_t most_stripes = std::uint64_t{1} << 22U;

  /// `server_of` has a number below `servers` for each stripe.
  StripeTable(std::uint32_t servers, std::vector<std::uint32_t> server_of)
      : server_of_(std::move(server_of)), stripes_of_(servers) {
    place_of_.reserve(server_of_.size());
    for (std::uint32_t stripe = 0; stripe < server_of_.size(); ++stripe) {
      std::vector<std::uint32_t>& stripes = stripes_of_[server_of_[stripe]];
      place_of_.push_back(static_cast<std::uint32_t>(stripes.size()));
      stripes.push_back(stripe);
    }
  }

  std::uint32_t server(std::uint64_t stripe) const noexcept { return server_of_[stripe]; }
  /// Counted from 0, among those of its server.
  std::uint32_t place(std::uint64_t stripe) const noexcept { return place_of_[stripe]; }
  std::span<const std::uint32_t> stripes(std::uint32_t server) const noexcept { return stripes_of_[server]; }

 private:
  std::vector<std::uint32_t> server_of_;
  std::vector<std::uint32_t> place_of_;
  std::vector<std::vector<std::uint32_t>> stripes_of_;
};

/// The server whose ranks want a stripe most, given how much those near each server want it. It stays at `present`
/// where nobody wants it, or nobody wants it more; of several others `stripe` decides, so that each gets its share.
inline std::uint32_t server_that_wants_most(std::span<const std::uint64_t> wanted, std::uint32_t present,
                                            std::uint64_t stripe) {
  const std::uint64_t most = *std::ranges::max_element(wanted);
  if (wanted[present] == most) {
    return present;
  }
  std::uint64_t nth = stripe % static_cast<std::uint64_t>(std::ranges::count(wanted, most));
  std::uint32_t server = 0;
  while (wanted[server] != most || nth-- > 0) {
    ++server;
  }
  return server;
}

}  // namespace tiermap
