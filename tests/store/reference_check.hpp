// Random work on a store beside a plain array that says what it should hold.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tiermap/store.hpp"

namespace tiermap {

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};
using AlignedBuffer = std::unique_ptr<char, FreeDeleter>;

/// As the engine's frames are.
inline AlignedBuffer aligned_buffer(std::size_t bytes) {
  return AlignedBuffer(static_cast<char*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
}

/// Reads as the engine does: extents where the store names them, read() elsewhere; what the store does not have is
/// zeros. Returns 0 or a negative errno value.
inline std::int64_t engine_read(Store& store, char* buffer, std::size_t bytes, std::uint64_t offset) {
  std::memset(buffer, 0x5a, bytes);
  std::size_t done = 0;
  while (done < bytes) {
    Extent extent;
    std::int64_t got = 0;
    if (store.locate_read(offset + done, bytes - done, extent)) {
      EXPECT_GT(extent.bytes, 0U);
      EXPECT_LE(extent.bytes, bytes - done);
      if (!extent.hole) {
        EXPECT_EQ(extent.bytes % store.direct_alignment(), 0U);
        EXPECT_EQ(extent.offset % store.direct_alignment(), 0U);
        got = ::pread(extent.file_descriptor, buffer + done, extent.bytes, static_cast<off_t>(extent.offset));
        got = got < 0 ? -errno : got;
      }
      if (got >= 0) {
        std::memset(buffer + done + got, 0, extent.bytes - static_cast<std::size_t>(got));
        got = static_cast<std::int64_t>(extent.bytes);
      }
    } else {
      got = store.read(buffer + done, bytes - done, offset + done);
    }
    if (got < 0) {
      return got;
    }
    if (got == 0) {
      std::memset(buffer + done, 0, bytes - done);
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return 0;
}

/// The same for writing.
inline std::int64_t engine_write(Store& store, const char* buffer, std::size_t bytes, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < bytes) {
    Extent extent;
    std::int64_t put = 0;
    if (store.locate_write(offset + done, bytes - done, extent)) {
      EXPECT_GT(extent.bytes, 0U);
      EXPECT_LE(extent.bytes, bytes - done);
      EXPECT_FALSE(extent.hole);
      EXPECT_EQ(extent.bytes % store.direct_alignment(), 0U);
      EXPECT_EQ(extent.offset % store.direct_alignment(), 0U);
      put = ::pwrite(extent.file_descriptor, buffer + done, extent.bytes, static_cast<off_t>(extent.offset));
      put = put < 0 ? -errno : put;
    } else {
      put = store.write(buffer + done, bytes - done, offset + done);
    }
    if (put <= 0) {
      return put == 0 ? -EIO : put;
    }
    done += static_cast<std::size_t>(put);
  }
  return 0;
}

/// Every byte of the store, and that there are no more.
inline void expect_equal(Store& store, const std::vector<char>& expected) {
  ASSERT_EQ(store.size_bytes(), expected.size());
  const std::size_t piece = 1 << 20;
  const AlignedBuffer buffer = aligned_buffer(piece);
  const std::vector<char> zeros(piece);
  for (std::size_t offset = 0; offset < expected.size(); offset += piece) {
    const std::size_t bytes = std::min(piece, expected.size() - offset);
    ASSERT_EQ(engine_read(store, buffer.get(), piece, offset), 0);
    ASSERT_EQ(std::memcmp(buffer.get(), expected.data() + offset, bytes), 0) << "from offset " << offset;
    ASSERT_EQ(std::memcmp(buffer.get() + bytes, zeros.data(), piece - bytes), 0) << "past the end";
  }
}

/// `steps` reads and writes at random places of [begin, end), aligned or not, by extents or not. `expected` is the
/// whole store; other threads may work on other ranges.
inline void random_work(Store& store, std::vector<char>& expected, std::uint64_t begin, std::uint64_t end, int steps,
                        std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::size_t most = std::min<std::uint64_t>(100'000, end - begin);
  const AlignedBuffer frame = aligned_buffer(most + 8192);
  for (int step = 0; step < steps; ++step) {
    const bool pages = random() % 2 == 0;
    std::uint64_t offset = begin + random() % (end - begin);
    std::uint64_t bytes = 1 + random() % most;
    char* buffer = frame.get() + random() % 513;
    if (pages) {
      offset = std::max(begin, offset / 4096 * 4096);
      bytes = (bytes + 4095) / 4096 * 4096;
      buffer = frame.get();
    }
    bytes = std::min({bytes, end - offset, static_cast<std::uint64_t>(most)});
    const auto count = static_cast<std::size_t>(bytes);
    if (store.writable() && random() % 2 == 0) {
      for (std::size_t index = 0; index < count; ++index) {
        buffer[index] = static_cast<char>(random() % 251);
      }
      ASSERT_EQ(pages ? engine_write(store, buffer, count, offset) : store.write(buffer, count, offset),
                pages ? 0 : static_cast<std::int64_t>(count));
      std::memcpy(expected.data() + offset, buffer, count);
    } else if (pages) {
      ASSERT_EQ(engine_read(store, buffer, count, offset), 0);
      ASSERT_EQ(std::memcmp(buffer, expected.data() + offset, count), 0) << "at " << offset << " for " << count;
    } else {
      ASSERT_EQ(store.read(buffer, count, offset), static_cast<std::int64_t>(count));
      ASSERT_EQ(std::memcmp(buffer, expected.data() + offset, count), 0) << "at " << offset << " for " << count;
    }
  }
}

}  // namespace tiermap
