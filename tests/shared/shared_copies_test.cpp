// Elements of shared vectors that are copied out and in, past the frames.
#include <numeric>

#include "shared/rank_processes.hpp"
#include "shared/small_pages.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

TEST(SharedCopiesTest, CopiesGoHomeAndComeFromThereInAnyPhase) {
  const Servers servers(2);
  run_job(servers, 2, [](Job& job) {
    constexpr std::uint64_t count = 700'001;
    auto vector = SharedVector<std::uint32_t>::create(job, "v", count, small_pages());
    vector.set_phase(Phase::local);
    const std::uint64_t questions = vector.statistics().questions;
    const std::uint64_t half = count / 2;
    const VectorRange own = job.rank() == 0 ? VectorRange{0, half} : VectorRange{half, count - half};
    std::vector<std::uint32_t> words(own.count);
    for (std::uint32_t round = 1; round <= 3; ++round) {
      std::iota(words.begin(), words.end(), round * static_cast<std::uint32_t>(own.first + 1));
      vector.copy_from(words, own.first);
      job.barrier();
      std::vector<std::uint32_t> all(count);
      vector.copy_to(all);
      for (std::uint64_t index = 0; index < count; ++index) {
        const std::uint64_t first = index < half ? 0 : half;
        ASSERT_EQ(all[index], round * static_cast<std::uint32_t>(first + 1) + (index - first));
      }
      job.barrier();
    }
    EXPECT_EQ(vector.statistics().questions, questions);
    vector.close();
  });
}

TEST(SharedCopiesTest, ACopyHasWhatThisRankWroteAndReplacesWhatItHasInMemory) {
  const Servers servers;
  run_job(servers, 1, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 5000, small_pages());
    vector[1000] = 7;
    std::vector<std::uint64_t> words(3);
    vector.copy_to(words, 999);
    EXPECT_EQ(words, (std::vector<std::uint64_t>{0, 7, 0}));
    vector[1001] = 8;
    words = {1, 2};
    vector.copy_from(words, 999);
    EXPECT_EQ(vector[999], 1U);
    EXPECT_EQ(vector[1000], 2U);
    EXPECT_EQ(vector[1001], 8U);
    vector.copy_to({}, 5000);
    EXPECT_THROW(vector.copy_to(words, 4999), OptionError);
    EXPECT_THROW(vector.copy_from(words, 4999), OptionError);
    vector.set_phase(Phase::read_only);
    EXPECT_THROW(vector.copy_from(words, 0), OptionError);
    vector.copy_to(words, 1000);
    EXPECT_EQ(words, (std::vector<std::uint64_t>{2, 8}));
    vector.close();
  });
}

}  // namespace
}  // namespace tiermap
