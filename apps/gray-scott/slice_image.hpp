// A picture of one plane.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tiermap {

/// Of size^2 values: the largest is white, nothing is dark. Grey for a path that ends with .pgm, else in colours.
/// Throws StoreError if the file is there or cannot be written.
void write_slice_image(const std::string& path, std::span<const double> values, std::uint64_t size);

}  // namespace tiermap
