#include "heap/store_bytes.hpp"

#include <algorithm>
#include <cerrno>

#include "heap/data_ranges.hpp"
#include "store/file_open.hpp"

namespace tiermap {

void read_bytes(Store& store, std::uint64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const std::int64_t got = store.read(bytes.data(), bytes.size(), offset);
    if (got == -EINTR) {
      continue;
    }
    if (got < 0) {
      throw_file_error(static_cast<int>(-got), store.name(), "cannot be read");
    }
    if (got == 0) {
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
      return;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void write_bytes(Store& store, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::int64_t put = store.write(bytes.data(), bytes.size(), offset);
    if (put == -EINTR) {
      continue;
    }
    if (put <= 0) {
      throw_file_error(put == 0 ? ENOSPC : static_cast<int>(-put), store.name(), "cannot be written");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
}

namespace {

int write_zeros(Store& store, std::uint64_t offset, std::uint64_t bytes) {
  alignas(4096) static constexpr std::byte zeros[64 << 10] = {};
  while (bytes > 0) {
    const std::int64_t put = store.write(zeros, std::min<std::uint64_t>(bytes, sizeof(zeros)), offset);
    if (put <= 0 && put != -EINTR) {
      return put == 0 ? -ENOSPC : static_cast<int>(put);
    }
    const auto done = static_cast<std::uint64_t>(std::max<std::int64_t>(put, 0));
    offset += done;
    bytes -= done;
  }
  return 0;
}

}  // namespace

int clear_bytes(Store& store, std::uint64_t offset, std::uint64_t bytes) {
  if (const int result = store.punch(offset, bytes); result != -ENOTSUP) {
    return result;
  }
  int result = 0;
  for (std::uint64_t at = offset; at < offset + bytes && result == 0;) {
    const DataRange data = first_data(store, at, offset + bytes);
    result = write_zeros(store, data.begin, data.end - data.begin);
    at = data.end;
  }
  return result;
}

}  // namespace tiermap
