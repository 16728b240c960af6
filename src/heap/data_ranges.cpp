#include "heap/data_ranges.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tiermap {
namespace {

/// In a file. The position of the descriptor, which this moves, is nobody's: all reads and writes name an offset.
DataRange first_data_in_file(int descriptor, std::uint64_t begin, std::uint64_t end) noexcept {
  const off_t data = ::lseek(descriptor, static_cast<off_t>(begin), SEEK_DATA);
  if (data < 0) {
    return errno == ENXIO ? DataRange{end, end} : DataRange{begin, end};
  }
  const auto first = std::min(static_cast<std::uint64_t>(data), end);
  if (first == end) {
    return {end, end};
  }
  const off_t hole = ::lseek(descriptor, data, SEEK_HOLE);
  return {first, hole <= data ? end : std::min(static_cast<std::uint64_t>(hole), end)};
}

}  // namespace

DataRange first_data(const Store& store, std::uint64_t begin, std::uint64_t end) noexcept {
  while (begin < end) {
    Extent extent;
    if (!store.locate_read(begin, end - begin, extent)) {
      return {begin, end};
    }
    const std::uint64_t bytes = std::min(extent.bytes, end - begin);
    if (!extent.hole) {
      const DataRange found = first_data_in_file(extent.file_descriptor, extent.offset, extent.offset + bytes);
      if (found.begin < extent.offset + bytes) {
        return {begin + (found.begin - extent.offset), begin + (found.end - extent.offset)};
      }
    }
    begin += bytes;
  }
  return {end, end};
}

}  // namespace tiermap
