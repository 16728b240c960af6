// The decision on a new budget, against cases worked out by hand. N = 5 periods of history, M = 10 of forecast; a
// machine of 1600 MiB, so that the reserve is 100 MiB; a budget of 160 MiB, so that a sixteenth is 10 MiB and an eighth
// 20 MiB.
#include <gtest/gtest.h>

#include "region/budget_adapter.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

class BudgetForecastTest : public ::testing::Test {
 protected:
  BudgetForecast forecast_{
      {.history_periods = 5, .forecast_periods = 10, .floor_bytes = 16 * mebibyte, .ceiling_bytes = 400 * mebibyte}};
  std::uint64_t budget_ = 160 * mebibyte;
  std::uint64_t faults_ = 0;
  double pressure_ = 0;

  std::optional<std::uint64_t> see(std::uint64_t used, std::uint64_t usable, std::uint64_t new_faults = 10) {
    faults_ += new_faults;
    auto decided = forecast_.decide({.budget_bytes = budget_,
                                     .used_bytes = used * mebibyte,
                                     .faults = faults_,
                                     .usable_bytes = usable * mebibyte,
                                     .total_bytes = 1600 * mebibyte,
                                     .pressure_percent = pressure_});
    return decided ? std::optional(*decided / mebibyte) : std::nullopt;
  }
  /// The same, five times: one sample and four changes, one short of a history.
  void see_before(std::uint64_t used, std::uint64_t usable, std::uint64_t new_faults = 10) {
    for (int period = 0; period < 5; ++period) {
      ASSERT_EQ(see(used, usable, new_faults), std::nullopt) << period;
    }
  }
};

TEST_F(BudgetForecastTest, NothingHappensWhileUseFitsBudgetAndMachine) {
  for (int period = 0; period < 50; ++period) {
    EXPECT_EQ(see(80, 500), std::nullopt);
  }
}

TEST_F(BudgetForecastTest, RaisesAFullBudgetByAQuarterWhileFaultsCome) {
  see_before(150, 1000);
  // 10 MiB are unfilled, under an eighth; kept are 2 * 100 + 10; the rest is plenty.
  EXPECT_EQ(see(150, 1000), 200U);
}

TEST_F(BudgetForecastTest, RaisesByHalfOfWhatIsLeftIfThatIsLess) {
  see_before(150, 270);
  // (270 - 210) / 2
  EXPECT_EQ(see(150, 270), 190U);
}

TEST_F(BudgetForecastTest, RaisesAheadOfUseThatGrows) {
  // From 60 to 110 MiB in 5 periods: 100 more in 10. Only 50 are unfilled.
  for (const std::uint64_t used : {60U, 70U, 80U, 90U, 100U}) {
    EXPECT_EQ(see(used, 1000), std::nullopt);
  }
  EXPECT_EQ(see(110, 1000), 200U);
}

TEST_F(BudgetForecastTest, DoesNotRaiseWithoutFaultsOrForSmallChangesOrUnderPressure) {
  see_before(150, 1000, 0);
  EXPECT_EQ(see(150, 1000, 0), std::nullopt);
  // (228 - 210) / 2 is 9, under a sixteenth.
  EXPECT_EQ(see(150, 228), std::nullopt);
  pressure_ = 10;
  EXPECT_EQ(see(150, 1000), std::nullopt);
  pressure_ = 9.9;
  EXPECT_EQ(see(150, 1000), 200U);
}

TEST_F(BudgetForecastTest, ReducesWhenGrowthWouldTouchTheReserve) {
  for (const std::uint64_t used : {60U, 70U, 80U, 90U, 100U}) {
    EXPECT_EQ(see(used, 120), std::nullopt);
  }
  // Growth fills the 50 unfilled MiB, but the machine can give 120 - 100.
  EXPECT_EQ(see(110, 120), 130U);
}

TEST_F(BudgetForecastTest, ReducesAtOnceWhenTheReserveIsTouched) {
  // 40 MiB are missing of the reserve, whatever the history.
  EXPECT_EQ(see(150, 60), 110U);
  budget_ = 110 * mebibyte;
  EXPECT_EQ(see(110, 70), 80U);
}

TEST_F(BudgetForecastTest, StaysBetweenFloorAndCeiling) {
  EXPECT_EQ(see(20, 0), 16U);
  budget_ = 390 * mebibyte;
  // A rise to the ceiling of 400 is under a sixteenth of 390.
  for (int period = 0; period < 6; ++period) {
    EXPECT_EQ(see(380, 1500), std::nullopt);
  }
  budget_ = 360 * mebibyte;
  EXPECT_EQ(see(355, 1500), 400U);
  forecast_.set_floor_bytes(500 * mebibyte);
  budget_ = 400 * mebibyte;
  EXPECT_EQ(see(400, 10), 500U);
}

TEST_F(BudgetForecastTest, WaitsForAWholeHistoryAfterAChange) {
  see_before(150, 1000);
  ASSERT_EQ(see(150, 1000), 200U);
  budget_ = 200 * mebibyte;
  // The sample that decided counts as the first of the next history.
  for (int period = 0; period < 4; ++period) {
    EXPECT_EQ(see(190, 1000), std::nullopt);
  }
  EXPECT_EQ(see(190, 1000), 250U);
}

TEST_F(BudgetForecastTest, StrongPressureTakesAnEighth) {
  pressure_ = 40;
  see_before(150, 1000);
  EXPECT_EQ(see(150, 1000), 140U);
}

TEST_F(BudgetForecastTest, PeriodsWithoutFaultsAreNoGrowth) {
  // Use grows, but by prefetch of the past: no fault, no forecast.
  for (const std::uint64_t used : {60U, 70U, 80U, 90U, 100U, 110U, 120U}) {
    EXPECT_EQ(see(used, 120, 0), std::nullopt);
  }
}

}  // namespace
}  // namespace tiermap
