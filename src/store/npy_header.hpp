// The header of numpy's .npy files (NEP 1, and numpy.lib.format): what the elements are, and where they begin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tiermap/store.hpp"

namespace tiermap {

struct NpyHeader {
  ElementLayout elements;
  std::vector<std::uint64_t> shape;  ///< Empty: a single element.
  bool fortran_order = false;
  std::uint64_t data_offset = 0;
  std::uint64_t data_bytes = 0;
};

/// The file's first bytes, as many as this says once it has seen the first npy_prefix_bytes of them.
inline constexpr std::size_t npy_prefix_bytes = 12;
/// Throws StoreError that names `file` unless the prefix is that of a .npy file.
std::uint64_t npy_header_bytes(std::string_view prefix, const std::string& file);
/// Throws StoreError that names `file`, what is wrong and the remedy. Arrays of Python objects are refused.
NpyHeader parse_npy_header(std::string_view beginning, const std::string& file);

}  // namespace tiermap
