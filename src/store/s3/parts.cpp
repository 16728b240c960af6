#include "store/s3/parts.hpp"

#include <algorithm>

namespace tiermap {
namespace {

// S3's own limits, but for the last but one, which keeps a copy from taking long.
constexpr std::uint64_t most_parts = 10'000;
constexpr std::uint64_t least_copied_bytes = 5 << 20;
constexpr std::uint64_t most_copied_bytes = 1ULL << 30;
constexpr std::uint64_t part_step_bytes = 1 << 20;

}  // namespace

std::vector<S3Client::Part> plan_s3_parts(const S3PartsWanted& wanted) {
  const std::uint64_t least = (wanted.bytes + most_parts - 1) / most_parts;
  const std::uint64_t step =
      std::max(wanted.part_bytes, (least + part_step_bytes - 1) / part_step_bytes * part_step_bytes);
  std::vector<S3Client::Part> parts;
  for (std::uint64_t offset = 0; offset < wanted.bytes; offset += step) {
    const std::uint64_t bytes = std::min(step, wanted.bytes - offset);
    const bool copied =
        wanted.old_bytes > least_copied_bytes && offset + bytes <= wanted.old_bytes && wanted.unchanged(offset, bytes);
    if (copied && !parts.empty() && parts.back().copied && parts.back().bytes + bytes <= most_copied_bytes) {
      parts.back().bytes += bytes;
      continue;
    }
    parts.push_back({static_cast<std::uint32_t>(parts.size() + 1), offset, bytes, copied, ""});
  }
  return parts;
}

}  // namespace tiermap
