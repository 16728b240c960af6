// How a shared data set is moved to other homes, while nobody asks for it.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cluster/job/home_client.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

bool is_zero(std::span<const std::byte> bytes) noexcept {
  return bytes.front() == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

/// The other data set has zeros already.
void add_what_is_not_zero(ChangeSender& sender, std::uint64_t offset, std::span<const std::byte> bytes) {
  std::size_t begin = 0;  // Of what is to be added with the next blocks.
  std::size_t at = 0;
  const auto add = [&] {
    if (at > begin) {
      sender.add(offset + begin, bytes.subspan(begin, at - begin));
    }
  };
  while (at < bytes.size()) {
    const std::size_t block = std::min<std::size_t>(home_block_bytes, bytes.size() - at);
    if (is_zero(bytes.subspan(at, block))) {
      add();
      begin = at + block;
    }
    at += block;
  }
  add();
}

}  // namespace

void HomeClient::carry_to(HomeClient& other, std::span<const ByteRange> ranges) {
  constexpr std::uint64_t most_at_once = 4 << 20;
  std::vector<std::byte> buffer;
  ChangeSender sender(other);
  for (ByteRange range : ranges) {
    while (range.bytes > 0) {
      buffer.resize(static_cast<std::size_t>(std::min(range.bytes, most_at_once)));
      const Wanted piece{buffer, range.offset};
      if (const int result = fetch({&piece, 1}, nullptr, other); result != 0) {
        throw StoreError(-result, failure());
      }
      add_what_is_not_zero(sender, range.offset, buffer);
      counters_->placed_bytes.fetch_add(buffer.size(), std::memory_order_relaxed);
      range.offset += buffer.size();
      range.bytes -= buffer.size();
    }
  }
  if (const int result = sender.finish(); result != 0) {
    throw StoreError(-result, other.failure());
  }
}

std::vector<std::uint64_t> HomeClient::sequences() const {
  std::vector<std::uint64_t> all;
  all.reserve(homes_->parts.size());
  for (const Part& part : homes_->parts) {
    all.push_back(part.seen.load(std::memory_order_acquire));
  }
  return all;
}

void HomeClient::change_places(HomeClient& other, std::span<const std::uint64_t> sequences) {
  scores_before_ = scores_sent();
  homes_.swap(other.homes_);
  for (std::uint32_t server = 0; server < homes_->parts.size(); ++server) {
    homes_->parts[server].sequence = sequences[server];
    see_of_server(server, sequences[server]);
  }
}

std::pair<std::uint64_t, std::uint64_t> HomeClient::scores_sent() const noexcept {
  return {scores_before_.first + homes_->scores.messages(), scores_before_.second + homes_->scores.bytes()};
}

void HomeClient::note_score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept {
  homes_->scores.score(offset, bytes, score, sharer);
  if (wanted_ != nullptr) {
    wanted_->add(offset, bytes, std::clamp(score, 0.0, 1.0));
  }
}

}  // namespace tiermap
