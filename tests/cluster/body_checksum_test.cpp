#include "cluster/wire/body_checksum.hpp"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <vector>

#include "fault/wide_registers.hpp"

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

TEST(BodyChecksum, leaves_the_programs_own_instructions_as_fast) {
  const std::vector<std::byte> body(70000, std::byte{3});
  for (const std::size_t bytes : {100UL, 1000UL, 70000UL}) {
    std::uint64_t checksum = 0;
    expect_wide_registers_left_clear([&] { checksum = body_checksum(std::span(body).first(bytes), 42); });
    EXPECT_NE(checksum, 0U);
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
