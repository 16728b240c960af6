#include "shared/common_addresses.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/size.hpp"
#include "platform/page_sizes.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr int most_turns = 16;
/// In the first turn; the last one asks for 128 times as much.
constexpr std::uint64_t least_beside = std::uint64_t{64} << 20U;

/// What a rank says of itself: a number, and what is wrong if it is 0.
using Saying = std::vector<std::byte>;

Saying say(std::uint64_t number, const std::string& complaint) {
  Saying saying(sizeof(number) + complaint.size());
  std::memcpy(saying.data(), &number, sizeof(number));
  std::ranges::copy(std::as_bytes(std::span(complaint)), saying.begin() + sizeof(number));
  return saying;
}

std::uint64_t number_of(const Saying& saying) {
  std::uint64_t number = 0;
  std::memcpy(&number, saying.data(), std::min(saying.size(), sizeof(number)));
  return number;
}

/// Throws what the first rank that has a complaint says.
void require_no_complaint(const std::vector<Saying>& sayings) {
  for (std::size_t rank = 0; rank < sayings.size(); ++rank) {
    if (number_of(sayings[rank]) == 0) {
      const auto text = std::span(sayings[rank]).subspan(std::min(sayings[rank].size(), sizeof(std::uint64_t)));
      throw PlatformError(ENOMEM, "rank " + std::to_string(rank) + ": " +
                                      std::string(reinterpret_cast<const char*>(text.data()), text.size()));
    }
  }
}

/// Which end of free space is proposed: kernels fill address spaces from the top, or all of them from the bottom.
enum class End : std::uint8_t { low, high };

/// Where this rank's kernel has it, with so much free space beside it.
Saying own_wish(std::uint64_t bytes, std::uint64_t beside, End end) {
  try {
    const AddressRange free = AddressRange::reserve(bytes + beside, huge_page_bytes, PROT_NONE);
    const std::uint64_t skipped = end == End::high ? beside / huge_page_bytes * huge_page_bytes : 0;
    return say(reinterpret_cast<std::uintptr_t>(free.data()) + skipped, "");
  } catch (const Error& error) {
    return beside > 0 ? own_wish(bytes, 0, end) : say(0, error.what());
  }
}

std::optional<AddressRange> try_reserve(std::uint64_t address, std::uint64_t bytes) {
  try {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it came from another process.
    return AddressRange::reserve_at(reinterpret_cast<void*>(address), bytes, PROT_NONE, Replacement::none);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

// What one process has free below (above) everything that it has mapped is likely to be free in those that have less.
// Small pieces the kernel puts into holes between other things, which no two processes have alike: so each turn asks
// for more space, and takes what is farthest from its neighbours.
AddressRange reserve_on_all_ranks(JobClient& job, std::uint64_t bytes) {
  if (bytes == 0 || bytes > std::uint64_t{1} << 46U) {
    throw OptionError("address space of " + std::to_string(bytes) + " bytes: choose 1 byte to 64 TiB");
  }
  bytes = round_up(bytes, kernel_page_bytes);
  job.collective("reserves " + std::to_string(bytes) + " bytes at an address of all ranks");
  std::vector<AddressRange> refused;  // Kept, so that the kernel chooses other ones.
  for (int turn = 0; turn < most_turns; ++turn) {
    const End end = turn % 2 == 0 ? End::low : End::high;
    const std::vector<Saying> wishes = job.gather(own_wish(bytes, least_beside << (turn / 2), end));
    require_no_complaint(wishes);
    const auto [lowest, highest] = std::ranges::minmax(wishes, {}, number_of);
    std::optional<AddressRange> place = try_reserve(number_of(end == End::low ? lowest : highest), bytes);
    const std::vector<Saying> outcomes = job.gather(say(place.has_value() ? 1 : 0, ""));
    if (std::ranges::all_of(outcomes, number_of)) {
      return std::move(*place);
    }
    if (place.has_value()) {
      refused.push_back(std::move(*place));
    }
  }
  throw PlatformError(EADDRNOTAVAIL, "job " + quote_value(job.place().name) + ": none of " +
                                         std::to_string(most_turns) + " places for " + format_size(bytes) +
                                         " is free on all " + std::to_string(job.place().ranks) +
                                         " ranks: reserve less, or before other things are mapped");
}

}  // namespace tiermap
