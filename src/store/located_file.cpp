#include "store/located_file.hpp"

#include <sys/stat.h>

#include "platform/page_sizes.hpp"

namespace tiermap {

std::optional<std::uint64_t> file_bytes_from(const Store& store, std::uint64_t offset) noexcept {
  Extent extent;
  struct stat status = {};
  const bool located = store.locate_read(offset, kernel_page_bytes, extent) && !extent.hole && extent.complete &&
                       ::fstat(extent.file_descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (!located) {
    return std::nullopt;
  }
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  return file_bytes > extent.offset ? file_bytes - extent.offset : 0;
}

}  // namespace tiermap
