// Giving back the memory of many ranges at once.
#include "platform/drop_pages.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "platform/address_range.hpp"

namespace tiermap {
namespace {

TEST(DropPages, WhatWasNamedIsGoneAndNothingElse) {
  constexpr std::size_t page = 4096;
  for (const std::size_t count : {0U, 1U, 2U, 64U, 300U}) {
    const AddressRange memory = AddressRange::reserve(page * 1024, page, PROT_READ | PROT_WRITE);
    std::memset(memory.data(), 7, memory.size());
    std::vector<iovec> ranges;
    for (std::size_t index = 0; index < count; ++index) {  // Every third page, some of them two pages long.
      ranges.push_back({memory.data() + index * 3 * page, index % 5 == 0 ? 2 * page : page});
    }
    drop_pages(ranges);
    for (std::size_t index = 0; index < 1024; ++index) {
      const bool named = index / 3 < count && (index % 3 == 0 || (index % 3 == 1 && index / 3 % 5 == 0));
      ASSERT_EQ(memory.data()[index * page], std::byte{static_cast<unsigned char>(named ? 0 : 7)}) << index;
    }
  }
}

}  // namespace
}  // namespace tiermap
