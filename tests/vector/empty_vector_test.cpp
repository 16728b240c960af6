// Vectors that begin without elements, on every store that can grow: they grow, and so do they when opened again.
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>
#include <string>
#include <vector>

#include "store/refusal.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/serialized_vector.hpp"
#include "tiermap/vector.hpp"
#include "vector/text_serializer.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t count = 50'000;

VectorOptions small() {
  VectorOptions options;
  options.budget_bytes = 1 << 20;
  return options;
}

class EmptyVectorTest : public testing::Test {
 protected:
  std::string sparse(const std::string& name) const { return "sparse:" + directory_.encoded() + "/" + name; }

  const TemporaryDirectory directory_;
};

TEST_F(EmptyVectorTest, it_grows_on_every_store_that_can) {
  write_file(directory_ / "tiers.yaml", "tiers: [{name: dram, capacity: 256KiB}]\n");
  const std::string tiered = "tiered:" + directory_.encoded() + "/tiers.yaml?store=";
  const std::string capacity = "?segment=64KiB&capacity=8MiB";
  for (const std::string& url : {directory_ / "plain", "file:" + directory_.encoded() + "/file",
                                 sparse("sparse") + capacity, tiered + directory_.encoded() + "/behind",
                                 tiered + sparse("behind-sparse") + "%3Fsegment=64KiB%26capacity=8MiB"}) {
    SCOPED_TRACE(url);
    std::vector<std::uint64_t> expected(count);
    std::iota(expected.begin(), expected.end(), 1);
    {
      auto numbers = Vector<std::uint64_t>::create(url, 0, small());
      ASSERT_EQ(numbers.size(), 0U);
      ASSERT_EQ(numbers.append(expected), 0U);
      numbers.close();
    }
    for (std::uint64_t round = 0; round < 2; ++round) {
      auto numbers = Vector<std::uint64_t>::open_or_create(url, 0, small());
      ASSERT_EQ(numbers.size(), expected.size());
      EXPECT_EQ(numbers.append(round), expected.size());
      expected.push_back(round);
      numbers.close();
    }
    const auto numbers = Vector<std::uint64_t>::open_read_only(url, small());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), numbers.begin(), numbers.end()));
  }
}

TEST_F(EmptyVectorTest, it_grows_up_to_the_capacity_of_a_sparse_store) {
  constexpr std::uint64_t most = (2 << 20) / sizeof(std::uint64_t);
  const auto fill = [](Vector<std::uint64_t>& numbers, std::uint64_t until) {
    EXPECT_EQ(numbers.capacity(), until);
    numbers.append(std::vector<std::uint64_t>(until - numbers.size(), 7));
    const std::string refusal = refusal_of_call<OptionError>(ENOSPC, [&] { numbers.append(7); });
    EXPECT_NE(refusal.find("?capacity="), std::string::npos) << refusal;
    refusal_of_call<OptionError>(ENOSPC, [&] { numbers.resize(until + 1); });
  };
  {
    auto numbers = Vector<std::uint64_t>::create(sparse("x") + "?segment=1MiB&capacity=2MiB", 10, small());
    fill(numbers, most);
    numbers.close();
  }
  {
    auto full = Vector<std::uint64_t>::open(sparse("x"), small());
    const std::string refusal = refusal_of_call<OptionError>(ENOSPC, [&] { full.append(7); });
    EXPECT_NE(refusal.find("?capacity="), std::string::npos) << refusal;
  }
  auto numbers = Vector<std::uint64_t>::open(sparse("x") + "?capacity=3MiB", small());
  EXPECT_EQ(numbers.size(), most);
  fill(numbers, most / 2 * 3);
  numbers.close();
  EXPECT_EQ(Vector<std::uint64_t>::open_read_only(sparse("x"), small()).at(most / 2 * 3 - 1), 7U);
}

TEST_F(EmptyVectorTest, texts_lie_in_sparse_stores) {
  using Texts = SerializedVector<std::string, TextSerializer>;
  const SerializedVectorOptions options{.vector = small()};
  {
    Texts texts = Texts::create(sparse("texts") + "?segment=1MiB&capacity=64MiB", options);
    EXPECT_TRUE(texts.empty());
    EXPECT_EQ(texts.append("one"), 0U);
    texts.close();
  }
  Texts texts = Texts::open(sparse("texts"), options);
  EXPECT_EQ(texts.append("two"), 1U);
  EXPECT_EQ(texts[0] + texts[1], "onetwo");
}

}  // namespace
}  // namespace tiermap
