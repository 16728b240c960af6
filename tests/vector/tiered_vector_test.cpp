// Vectors on tiers: by their URL, and with transactions that bring near what comes next.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <numeric>

#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page_bytes = 16 << 10;
constexpr std::uint64_t elements_a_page = page_bytes / sizeof(std::uint64_t);
constexpr std::uint64_t pages_of_all = 512;
constexpr std::uint64_t count = pages_of_all * elements_a_page;

class TieredVectorTest : public testing::Test {
 protected:
  TieredVectorTest() { write_tiers("tiers: [{name: dram, capacity: 2MiB}]\n"); }

  void write_tiers(const std::string& tiers) {
    write_file(directory_ / "tiers.yaml", "block: 16KiB\norganize_seconds: 0.002\n" + tiers);
  }
  /// Memory for an eighth of the elements; the tier has room for a quarter.
  static VectorOptions eighth() {
    VectorOptions options;
    options.budget_bytes = count * sizeof(std::uint64_t) / 8;
    options.page_size_bytes = page_bytes;
    options.advice = Advice::random;
    return options;
  }
  void fill() {
    std::vector<std::uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    auto vector = Vector<std::uint64_t>::create(path_, 0, eighth());
    vector.append(numbers);
    vector.close();
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "vector";
  const std::string url_ = "tiered://" + directory_.encoded() + "/tiers.yaml?store=" + path_;
};

TEST_F(TieredVectorTest, all_is_in_the_store_behind_the_tiers_once_it_is_closed) {
  {
    auto vector = Vector<std::uint64_t>::create(url_, 0, eighth());
    auto append = vector.append();
    for (std::uint64_t number = 0; number < count; ++number) {
      append.push_back(3 * number);
    }
    append.commit();
    vector.close();
  }
  EXPECT_EQ(std::filesystem::file_size(path_), count * sizeof(std::uint64_t));
  {
    auto vector = Vector<std::uint64_t>::open(url_, eighth());
    vector.read_write().for_each([](std::uint64_t& number) { ++number; });
    vector.close();
  }
  auto vector = Vector<std::uint64_t>::open_read_only(path_, eighth());
  std::uint64_t expected = 1;
  vector.read().for_each([&](std::uint64_t number) {
    ASSERT_EQ(number, expected);
    expected += 3;
  });
  EXPECT_EQ(expected, 3 * count + 1);
}

TEST_F(TieredVectorTest, a_transaction_brings_nearer_what_comes_after_its_window) {
  fill();
  write_tiers("backing: {emulated: true, latency_microseconds: 200}\ntiers: [{name: dram, capacity: 2MiB}]\n");
  std::uint64_t promoted[2] = {};  // Without the transaction's scores hardly any is, but where room was just made.
  for (const bool prefetch : {false, true}) {
    auto vector = Vector<std::uint64_t>::open_read_only(url_, eighth());
    TransactionOptions options;
    options.prefetch = prefetch;
    std::uint64_t sum = 0;
    vector.read(vector.all(), options).for_each([&](std::uint64_t number) { sum += number; });
    EXPECT_EQ(sum, count * (count - 1) / 2);
    const std::vector<TierReport> reports = vector.tier_reports();
    ASSERT_EQ(reports.size(), 2U);
    EXPECT_TRUE(!prefetch || reports[0].reads > 0);
    promoted[prefetch ? 1 : 0] = reports[0].promoted_in;
  }
  EXPECT_GT(promoted[1], 4 * promoted[0] + 8) << promoted[0];
}

TEST_F(TieredVectorTest, bad_input_creates_nothing) {
  const auto refusal = [](const std::string& url) -> std::string {
    try {
      Vector<std::uint64_t>::create(url, 10, eighth());
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    ADD_FAILURE() << "it was taken";
    return "";
  };
  const std::string tiers = "tiered://" + directory_.encoded() + "/tiers.yaml";
  EXPECT_EQ(refusal(tiers),
            "store '" + tiers + "' names nothing behind its tiers: write tiered:///tiers.yaml?store=/data/points.bin");
  write_tiers("tiers: [{name: far, path: " + (directory_ / "none") + ", capacity: 1MiB}]\n");
  EXPECT_EQ(refusal(url_),
            directory_ / "none" +
                " cannot take tier 'far': No such file or directory: check the path, and that its folder "
                "is there");
  write_tiers("tires: []\n");
  EXPECT_NE(refusal(url_).find(": the file has the unknown key 'tires'"), std::string::npos);
  write_tiers("tiers: []\n");
  EXPECT_NE(refusal(url_).find("tiers.yaml: no list of tiers"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(TieredVectorTest, others_have_no_tiers) {
  fill();
  auto vector = Vector<std::uint64_t>::open(path_, eighth());
  EXPECT_THROW(vector.tier_reports(), OptionError);
}

TEST_F(TieredVectorTest, what_the_tiers_cost_is_told) {
  write_tiers("backing: {cost_per_gigabyte: 0.1}\ntiers: [{name: dram, capacity: 2MiB, cost_per_gigabyte: 5}]\n");
  auto vector = Vector<std::uint64_t>::create(url_, count, eighth());
  const std::vector<TierReport> reports = vector.tier_reports();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_DOUBLE_EQ(reports[0].capacity_cost(), 2097152 * 5e-9);
  EXPECT_DOUBLE_EQ(reports[1].used_cost(), static_cast<double>(count) * 8 * 0.1e-9);
}

}  // namespace
}  // namespace tiermap
