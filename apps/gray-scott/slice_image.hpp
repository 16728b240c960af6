// A picture of one plane.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tiermap {

/// Makes the file and removes it again: whether it can be made is to be known before the steps are. Throws as
/// write_slice_image().
void check_slice_image(const std::string& path);

/// Of size^2 values: the largest is white, nothing is dark. Grey for a path that ends with .pgm, else in colours.
/// Throws StoreError if the file is there or cannot be written.
void write_slice_image(const std::string& path, std::span<const double> values, std::uint64_t size);

}  // namespace tiermap
