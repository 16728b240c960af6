// Vectors where the kernel pages: they grow as in the other fault modes, and their file with them.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <numeric>
#include <thread>
#include <vector>

#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

class KernelModeVectorTest : public testing::Test {
 protected:
  VectorOptions options() {
    VectorOptions options;
    options.cache = &cache_;
    return options;
  }
  std::uint64_t file_bytes() const {
    struct stat status = {};
    EXPECT_EQ(::stat(path_.c_str(), &status), 0);
    return static_cast<std::uint64_t>(status.st_size);
  }
  static CacheOptions kernel_options() {
    CacheOptions options;
    options.fault_mode = FaultMode::kernel;
    options.budget_bytes = 4 << 20;
    options.publish_statistics = false;
    return options;
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "vector";
  Cache cache_{kernel_options()};
};

TEST_F(KernelModeVectorTest, it_grows_beyond_what_was_mapped_and_so_does_its_file) {
  constexpr std::uint64_t count = 10'000'000;  // More than is mapped at first.
  auto vector = Vector<std::uint64_t>::create(path_, 0, options());
  EXPECT_EQ(file_bytes(), 0U);
  vector.append(7);
  EXPECT_EQ(file_bytes(), 8U);
  const std::uint64_t* const first = vector.data();
  {
    auto adding = vector.append();
    for (std::uint64_t number = 1; number < count; ++number) {
      adding.push_back(number);
    }
    adding.commit();
  }
  EXPECT_EQ(vector.data(), first);
  EXPECT_EQ(file_bytes(), 8 * count);
  vector.sync();
  vector.close();
  vector = Vector<std::uint64_t>::open(path_, options());
  ASSERT_EQ(vector.size(), count);
  std::uint64_t sum = 0;
  vector.read().for_each([&](std::uint64_t number) { sum += number; });
  EXPECT_EQ(sum, count * (count - 1) / 2 + 7);
}

TEST_F(KernelModeVectorTest, what_is_cut_off_is_zeros_when_it_grows_again) {
  auto vector = Vector<std::uint64_t>::create(path_, 100'000, options());
  std::iota(vector.begin(), vector.end(), 1);
  vector.resize(777);
  EXPECT_EQ(file_bytes(), 8U * 777);
  vector.resize(50'000);
  EXPECT_EQ(vector[776], 777U);
  EXPECT_EQ(std::accumulate(vector.begin() + 777, vector.end(), std::uint64_t{0}), 0U);
  vector.resize(0);
  EXPECT_EQ(file_bytes(), 0U);
  vector.append(5);
  vector.close();
  EXPECT_EQ(Vector<std::uint64_t>::open_read_only(path_, options()).at(0), 5U);
}

TEST_F(KernelModeVectorTest, threads_append_at_once) {
  constexpr std::uint64_t threads = 4;
  constexpr std::uint64_t each = 100'000;
  auto vector = Vector<std::uint64_t>::temporary(0, options(), directory_.path());
  std::vector<std::thread> running;
  for (std::uint64_t thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      for (std::uint64_t number = 0; number < each; ++number) {
        vector.append(thread * each + number);
      }
    });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  ASSERT_EQ(vector.size(), threads * each);
  EXPECT_EQ(std::accumulate(vector.begin(), vector.end(), std::uint64_t{0}), threads * each * (threads * each - 1) / 2);
}

TEST_F(KernelModeVectorTest, one_that_has_all_it_may_have_says_so) {
  VectorOptions small = options();
  small.capacity_bytes = 800;
  auto vector = Vector<std::uint64_t>::create(path_, 99, small);
  vector.append(1);
  EXPECT_THROW(vector.append(1), OptionError);
  EXPECT_EQ(vector.size(), 100U);
  EXPECT_EQ(file_bytes(), 800U);
}

TEST_F(KernelModeVectorTest, what_is_no_plain_file_is_refused_as_that_and_not_made) {
  write_file(directory_ / "tiers.yaml", "tiers: [{capacity: 1MiB}]\n");
  const std::string tiered = "tiered:" + directory_.encoded() + "/tiers.yaml?store=" + path_;
  for (const std::string& url : {"sparse:" + path_ + "?capacity=1GiB", tiered}) {
    for (const auto make : {&Vector<int>::create, &Vector<int>::open_or_create}) {
      try {
        make(url, 10, options());
        FAIL() << "it was taken";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("is not one plain file"), std::string::npos) << error.what();
      }
      EXPECT_FALSE(std::filesystem::exists(path_)) << url;
    }
  }
}

}  // namespace
}  // namespace tiermap
