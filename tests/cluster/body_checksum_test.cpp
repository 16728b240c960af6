#include "cluster/wire/body_checksum.hpp"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <vector>

namespace tiermap {
namespace {

TEST(BodyChecksum, is_the_same_in_registers_of_any_width) {
  std::vector<std::byte> body(70000);
  for (std::size_t i = 0; i < body.size(); ++i) {
    body[i] = static_cast<std::byte>(i * 7 + (i >> 8));
  }
  for (const std::size_t bytes : {0UL, 1UL, 16UL, 17UL, 128UL, 129UL, 240UL, 241UL, 1024UL, 4096UL, 65536UL, 70000UL}) {
    EXPECT_EQ(body_checksum(std::span(body).first(bytes), 42), XXH3_64bits_withSeed(body.data(), bytes, 42)) << bytes;
  }
}

TEST(BodyChecksum, tells_of_one_bit) {
  std::vector<std::byte> body(65536, std::byte{1});
  const std::uint64_t before = body_checksum(body, 1);
  body[40000] ^= std::byte{4};
  EXPECT_NE(body_checksum(body, 1), before);
  EXPECT_NE(body_checksum(std::span(body).first(65535), 1), body_checksum(body, 1));
}

}  // namespace
}  // namespace tiermap
