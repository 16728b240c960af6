// A store beside plain bytes that say what it should hold, and random changes made to both.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "heap/checkpointed_store.hpp"
#include "store/random_rounds.hpp"
#include "store/reference_check.hpp"

namespace tiermap {

inline std::vector<char> content_of(Store& store) {
  std::vector<char> bytes(static_cast<std::size_t>(store.size_bytes()));
  EXPECT_EQ(store.read(bytes.data(), bytes.size(), 0), static_cast<std::int64_t>(bytes.size()));
  return bytes;
}

/// One random change: of bytes anywhere, of whole blocks, a hole, or with `resizes` another size.
inline void change_at_random(Store& store, std::vector<char>& expected, std::mt19937_64& random, bool resizes = false) {
  const std::uint64_t kind = random() % 16;
  if (kind == 0 && resizes) {
    const std::uint64_t size = 1 + random() % (expected.size() + 20'000);
    const std::uint64_t limited = std::min<std::uint64_t>(size, 400'000);
    ASSERT_EQ(store.resize(limited), 0);
    expected.resize(limited, 0);
    return;
  }
  const bool whole = random() % 2 == 0;
  std::uint64_t offset = random() % expected.size();
  offset = whole ? offset / 4096 * 4096 : offset;
  const std::uint64_t most = random() % 8 == 0 ? 60'000 : 9'000;
  std::uint64_t bytes = 1 + random() % most;
  bytes = std::min<std::uint64_t>(whole ? (bytes + 4095) / 4096 * 4096 : bytes, expected.size() - offset);
  const auto at = expected.begin() + static_cast<std::ptrdiff_t>(offset);
  if (kind < 4) {
    ASSERT_EQ(store.punch(offset, bytes), 0);
    std::fill_n(at, bytes, 0);
    return;
  }
  const AlignedBuffer buffer = aligned_buffer(static_cast<std::size_t>(bytes));
  const std::uint64_t seed = random();
  for (std::size_t index = 0; index < bytes; ++index) {
    buffer.get()[index] = static_cast<char>(seed * (index / 8 + 1) >> 40);
  }
  ASSERT_EQ(engine_write(store, buffer.get(), static_cast<std::size_t>(bytes), offset), 0);
  std::copy_n(buffer.get(), bytes, at);
}

}  // namespace tiermap
