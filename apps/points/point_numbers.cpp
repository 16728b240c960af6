#include "points/point_numbers.hpp"

#include <algorithm>

namespace tiermap {
namespace {

constexpr std::uint64_t bytes_a_number = sizeof(std::uint32_t);

/// Made by the first rank, opened by the others.
std::optional<Backing> file_of_all(Ranks& ranks, const std::string& url, std::uint64_t bytes) {
  std::optional<Backing> file;
  if (ranks.is_first()) {
    file = Backing::create(url, bytes);
  }
  ranks.barrier();
  if (!ranks.is_first()) {
    file = Backing::open(url, true);
  }
  return file;
}

}  // namespace

PointNumbers::PointNumbers(Ranks& ranks, const std::string& program, const std::string& what, const std::string& url,
                           std::uint64_t points)
    : ranks_(ranks),
      file_(ranks.alone() || url.empty() ? std::nullopt : file_of_all(ranks, url, points * bytes_a_number)),
      mapped_(Backing::create(ranks.alone() && !url.empty() ? url : scratch_path(program, what),
                              points * bytes_a_number)) {}

void PointNumbers::put(VectorRange points) {
  if (!file_.has_value()) {
    return;
  }
  constexpr std::uint64_t at_once = std::uint64_t{1} << 20U;
  AlignedBuffer buffer(at_once);
  const std::uint64_t end = (points.first + points.count) * bytes_a_number;
  for (std::uint64_t offset = points.first * bytes_a_number; offset < end; offset += at_once) {
    const std::uint64_t bytes = std::min(at_once, end - offset);
    read_fully(*mapped_.store(), buffer.data(), bytes, offset);
    write_fully(*file_->store(), buffer.data(), bytes, offset);
  }
  file_->make_cold();
  ranks_.barrier();
}

Store& PointNumbers::cold_store() {
  whole().make_cold();
  return *whole().store();
}

void PointNumbers::keep() {
  whole().keep();
}

}  // namespace tiermap
