// Boxes: one after the other they are a run of elements in row-major order, and they are few.
#include "store/hdf5/hyperslab.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tiermap {
namespace {

/// The places of a box's elements, in row-major order.
void append_places(const std::vector<std::uint64_t>& shape, const Hyperslab& box, std::size_t dimension,
                   std::uint64_t before, std::vector<std::uint64_t>& places) {
  if (dimension == shape.size()) {
    places.push_back(before);
    return;
  }
  for (std::uint64_t index = 0; index < box.count[dimension]; ++index) {
    append_places(shape, box, dimension + 1, before * shape[dimension] + box.start[dimension] + index, places);
  }
}

TEST(HyperslabTest, BoxesAreTheRun) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::uint64_t> shape(1 + random() % 4);
    std::uint64_t elements = 1;
    for (std::uint64_t& extent : shape) {
      extent = 1 + random() % 6;
      elements *= extent;
    }
    const std::uint64_t begin = random() % elements;
    const std::uint64_t end = begin + 1 + random() % (elements - begin);
    std::vector<std::uint64_t> places;
    std::size_t boxes = 0;
    for (std::uint64_t at = begin; at < end; ++boxes) {
      const Hyperslab box = first_hyperslab(shape, at, end - at);
      append_places(shape, box, 0, 0, places);
      at += box.elements;
      ASSERT_EQ(places.size(), at - begin);
    }
    ASSERT_LE(boxes, 2 * shape.size());
    for (std::uint64_t at = begin; at < end; ++at) {
      ASSERT_EQ(places[at - begin], at);
    }
  }
}

TEST(HyperslabTest, ASingleItemHasNoDimensions) {
  EXPECT_EQ(first_hyperslab({}, 0, 1).elements, 1U);
}

}  // namespace
}  // namespace tiermap
