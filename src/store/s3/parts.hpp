// How an object is cut into what S3 takes at once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "store/s3/client.hpp"

namespace tiermap {

/// What is known of an object that is to be written anew.
struct S3PartsWanted {
  std::uint64_t bytes = 0;       ///< Of the new one.
  std::uint64_t part_bytes = 0;  ///< At least so much in each part that is uploaded, but for the last.
  std::uint64_t old_bytes = 0;   ///< Of the one that is there; 0 where there is none.
  /// Whether all of [first, first + bytes) is in the object that is there, at the same place.
  std::function<bool(std::uint64_t first, std::uint64_t bytes)> unchanged;
};

/// In order and without gaps, at most 10,000; neighbours that are unchanged are one, which the server copies. `bytes`
/// is not 0.
std::vector<S3Client::Part> plan_s3_parts(const S3PartsWanted& wanted);

}  // namespace tiermap
