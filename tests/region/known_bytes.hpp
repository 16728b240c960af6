// Stores whose every byte is known from its offset, so that a byte from anywhere else shows.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "store/memory_store.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

inline constexpr std::uint64_t kib = 1024;
inline constexpr std::uint64_t mib = 1024 * kib;

// Tests are compiled without optimisation, but these go over megabytes.
#if !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif

/// Never 0, so that a hole or a cleared page is told from data.
inline std::byte known_byte(std::uint64_t offset) {
  const std::uint64_t mixed = (offset / 64 + 1) * 0x9E3779B97F4A7C15U + offset * 29;
  return static_cast<std::byte>((mixed >> 32) % 255 + 1);
}

inline void fill_known(std::byte* data, std::uint64_t bytes, std::uint64_t offset) {
  for (std::uint64_t index = 0; index < bytes; ++index) {
    data[index] = known_byte(offset + index);
  }
}

/// The index of the first byte that is another; `bytes` if none is.
inline std::uint64_t first_not_known(const std::byte* data, std::uint64_t bytes, std::uint64_t offset) {
  std::uint64_t index = 0;
  while (index < bytes && data[index] == known_byte(offset + index)) {
    ++index;
  }
  return index;
}

inline std::uint64_t first_other_than(std::byte value, const std::byte* data, std::uint64_t bytes) {
  std::uint64_t index = 0;
  while (index < bytes && data[index] == value) {
    ++index;
  }
  return index;
}

#if !defined(__clang__)
#pragma GCC pop_options
#endif

inline std::vector<std::byte> known_bytes(std::uint64_t offset, std::uint64_t bytes) {
  std::vector<std::byte> result(bytes);
  fill_known(result.data(), bytes, offset);
  return result;
}

/// A store in memory of `bytes` known bytes.
inline std::shared_ptr<MemoryStore> known_store(std::uint64_t bytes) {
  auto store = std::make_shared<MemoryStore>(bytes);
  const std::vector<std::byte> content = known_bytes(0, bytes);
  if (store->write(content.data(), content.size(), 0) != static_cast<std::int64_t>(bytes)) {
    throw std::runtime_error("cannot fill the store");
  }
  return store;
}

/// A directory in shared memory: tests whose point is not the disk spare it.
inline TemporaryDirectory shared_memory_directory() {
  return TemporaryDirectory("/dev/shm");
}

inline void write_known_file(const std::string& path, std::uint64_t bytes) {
  const std::vector<std::byte> content = known_bytes(0, bytes);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(bytes));
}

/// Whether `data` holds the known bytes from `offset` on; the first difference is named.
inline ::testing::AssertionResult is_known(std::span<const std::byte> data, std::uint64_t offset) {
  const std::uint64_t index = first_not_known(data.data(), data.size(), offset);
  if (index < data.size()) {
    return ::testing::AssertionFailure() << "byte " << index << " is " << static_cast<int>(data[index])
                                         << " and should be " << static_cast<int>(known_byte(offset + index))
                                         << ", that of offset " << offset + index;
  }
  return ::testing::AssertionSuccess();
}

/// Whether every byte is `value`.
inline ::testing::AssertionResult is_all(std::span<const std::byte> data, std::byte value) {
  const std::uint64_t index = first_other_than(value, data.data(), data.size());
  if (index < data.size()) {
    return ::testing::AssertionFailure() << "byte " << index << " is " << static_cast<int>(data[index]);
  }
  return ::testing::AssertionSuccess();
}

/// The bytes of a store, by its own read().
inline std::vector<std::byte> read_store(Store& store, std::uint64_t offset, std::uint64_t bytes) {
  std::vector<std::byte> result(bytes);
  EXPECT_EQ(store.read(result.data(), bytes, offset), static_cast<std::int64_t>(bytes));
  return result;
}

/// The bytes of a file, by plain input.
inline std::vector<std::byte> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> result(content.size());
  std::memcpy(result.data(), content.data(), content.size());
  return result;
}

/// Waits until it is so, at most ten seconds. Returns whether it came to be.
inline bool comes_to_be(const std::function<bool()>& so) {
  for (int attempt = 0; attempt < 5000; ++attempt) {
    if (so()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return so();
}

}  // namespace tiermap
