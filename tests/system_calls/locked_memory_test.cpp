// Programs that lock their memory: a budget cannot be locked, but nothing hangs, fails or is lost for it.
#include <sys/mman.h>

#include <cerrno>

#include "system_calls/region_fixture.hpp"

namespace tiermap {
namespace {

class LockedMemory : public RegionFixture {
 protected:
  void TearDown() override { ::munlockall(); }

  // Everything twice, in a quarter of the memory that it takes.
  void change_everything() {
    for (std::uint64_t round = 0; round < 2; ++round) {
      for (std::uint64_t word = 0; word < store_bytes / 8; word += 512) {
        ASSERT_EQ(words_[word], first_content(word) + round);
        words_[word] = first_content(word) + round + 1;
      }
    }
    region_.sync();
    for (std::uint64_t word = 0; word < store_bytes / 8; word += 512) {
      std::uint64_t stored = 0;
      ASSERT_EQ(store_->read(&stored, sizeof stored, word * 8), 8);
      ASSERT_EQ(stored, first_content(word) + 2);
    }
    EXPECT_LE(cache_->statistics().resident_bytes, cache_->budget_bytes());
  }
};

TEST_P(LockedMemory, ARegionThatIsLockedIsPagedAllTheSame) {
  open(Access::read_write);
  if (::mlock2(region_.data(), region_.size(), MLOCK_ONFAULT) != 0) {
    GTEST_SKIP() << "mlock2: " << strerror(errno);
  }
  change_everything();
}

TEST_P(LockedMemory, SoIsOneOfAProgramThatLocksAllItHas) {
  if (::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
    GTEST_SKIP() << "mlockall: " << strerror(errno);
  }
  open(Access::read_write);
  change_everything();
}

TEST_P(LockedMemory, SoIsOneThatWasThereBefore) {
  open(Access::read_write);
  words_[0] = first_content(0);
  if (::mlockall(MCL_CURRENT | MCL_ONFAULT) != 0) {
    GTEST_SKIP() << "mlockall: " << strerror(errno);
  }
  change_everything();
}

INSTANTIATE_TEST_SUITE_P(Engines, LockedMemory, testing::ValuesIn(all_engine_settings), engine_setting_name);

}  // namespace
}  // namespace tiermap
