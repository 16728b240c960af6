// What tiermap-gray-scott is made of: several steps in one pass are those of plain loops, whatever the number of steps
// and threads; checks find what is wrong.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "apps/program_fixture.hpp"
#include "gray-scott/checkpoint.hpp"
#include "gray-scott/simulation_check.hpp"
#include "gray-scott/wavefront.hpp"
#include "store/file_size_limit.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/cache.hpp"

namespace tiermap::test {
namespace {

template <typename T>
Survey survey_all(std::uint64_t size, const PlaneReader<T>& read) {
  return whole_survey(survey_planes<T>(size, {0, size}, read));
}

template <typename T>
class ArrayGrid final : public Grid<T> {
 public:
  ArrayGrid(std::uint64_t size, std::vector<T>& cells) : Grid<T>(size, cells.data()) {}
  void begin_pass(std::uint64_t planes, std::uint64_t) override { expected_ = planes; }
  void passed(std::uint64_t planes) override {
    EXPECT_GE(planes, passed_);
    EXPECT_LE(planes, expected_);
    passed_ = planes;
  }
  void end_pass() override {
    EXPECT_EQ(passed_, expected_);
    passed_ = 0;
  }
  void save() override {}

 private:
  std::uint64_t expected_ = 0;
  std::uint64_t passed_ = 0;
};

template <typename T>
std::vector<T> random_cells(std::uint64_t size) {
  std::mt19937 random(1);
  std::vector<T> cells(2 * size * size * size);
  std::generate(cells.begin(), cells.end(), [&] { return static_cast<T>(random() % 1000) / 1000; });
  return cells;
}

template <typename T>
PlaneReader<T> reader_of(const std::vector<T>& cells, std::uint64_t size) {
  return [&cells, size](std::uint64_t z, T* u, T* v) {
    const std::uint64_t plane = size * size;
    std::copy_n(cells.data() + 2 * z * plane, plane, u);
    std::copy_n(cells.data() + (2 * z + 1) * plane, plane, v);
  };
}

template <typename T>
void expect_plain_steps(std::uint64_t size, std::uint32_t steps, std::uint32_t threads, double most) {
  const std::vector<T> start = random_cells<T>(size);
  std::vector<T> cells = start;
  ArrayGrid<T> grid(size, cells);
  ThreadTeam team(threads);
  ProgressDisplay progress("testing", 0);
  const Reaction reaction;
  Wavefront<T> wavefront(grid, reaction, team, progress, steps);
  const std::vector<SpeciesSums> of_planes = wavefront.advance(steps, nullptr);
  ASSERT_EQ(of_planes.size(), steps * size);
  const double difference =
      difference_from_plain_loops<T>(size, steps, reaction, reader_of(start, size), reader_of(cells, size));
  EXPECT_LE(difference, most) << size << "^3 cells, " << steps << " steps, " << threads << " threads";
  // Each step's sums, and what is conserved.
  SpeciesSums before = survey_all<T>(size, reader_of(start, size)).sums;
  for (std::uint32_t step = 0; step < steps; ++step) {
    SpeciesSums after;
    for (std::uint64_t plane = 0; plane < size; ++plane) {
      after.add(of_planes[step * size + plane]);
    }
    EXPECT_EQ(find_imbalance(before, after, reaction, size * size * size, sizeof(T) == 8, step + 1), "");
    before = after;
  }
  const SpeciesSums last = survey_all<T>(size, reader_of(cells, size)).sums;
  EXPECT_NEAR(before.u, last.u, 1e-5 * last.u);
  EXPECT_NEAR(before.v, last.v, 1e-5 * last.v);
}

TEST(GrayScottWavefront, StepsInOnePassAreThoseOfPlainLoops) {
  for (const std::uint64_t size : {8U, 9U, 17U, 31U}) {
    for (const std::uint32_t steps : {1U, 2U, 3U, 5U, 20U}) {
      expect_plain_steps<double>(size, steps, 1 + steps % 3, 1e-12);
    }
  }
  expect_plain_steps<float>(37, 6, 4, 1e-5);
  expect_plain_steps<double>(8, 3, 11, 1e-12);
}

TEST(GrayScottWavefront, StepsAPassFitTheMemory) {
  EXPECT_EQ(Wavefront<float>::steps_for(256, 1), 1U);
  EXPECT_EQ(Wavefront<float>::steps_for(256, std::uint64_t{1} << 40U), 8U);
  EXPECT_EQ(Wavefront<float>::steps_for(4096, std::uint64_t{1} << 50U), 16U);
}

TEST(GrayScottReaction, SumsAreThoseOfTheRow) {
  for (const std::uint64_t cells : {8U, 9U, 16U, 100U, 1000U}) {
    std::vector<float> row(cells);
    std::iota(row.begin(), row.end(), 1.0F);
    for (float& cell : row) {
      cell /= static_cast<float>(cells);
    }
    const RowStencil<float> same{row.data(), row.data(), row.data(), row.data(), row.data()};
    std::vector<float> new_u(cells);
    std::vector<float> new_v(cells);
    const SpeciesSums sums = step_row(same, same, cells, {}, new_u.data(), new_v.data());
    EXPECT_NEAR(sums.u, std::accumulate(new_u.begin(), new_u.end(), 0.0), 1e-4);
    EXPECT_NEAR(sums.v, std::accumulate(new_v.begin(), new_v.end(), 0.0), 1e-4);
  }
}

class GrayScottCheckpointTest : public testing::Test {
 protected:
  GrayScottCheckpointTest() { state_.size = 16; }
  CheckpointOptions options() const {
    CheckpointOptions made;
    made.folder = folder_.path();
    return made;
  }
  void fill(CheckpointVectors<float>& vectors) const {
    vectors.begin(0);
    std::fill_n(vectors.u_plane(0), state_.cells(), 0.5F);
    std::fill_n(vectors.v_plane(0), state_.cells(), 0.25F);
  }

  const TemporaryDirectory folder_;
  CheckpointState state_;
  Cache cache_{{.budget_bytes = 1 << 20}};
};

// Steps go on meanwhile, in the same memory.
TEST_F(GrayScottCheckpointTest, WhatCannotBeWrittenLeavesMemory) {
  CheckpointVectors<float> vectors(options(), state_, cache_, 4096);
  fill(vectors);
  const FileSizeLimit full(0);
  EXPECT_THROW(vectors.finish(), Error);
  EXPECT_EQ(cache_.statistics().dirty_bytes, 0U);
}

TEST_F(GrayScottCheckpointTest, WhatCannotBeWrittenIsSaidWhileItIsMade) {
  state_.size = 40;
  CheckpointVectors<float> vectors(options(), state_, cache_, 4096);
  fill(vectors);
  const FileSizeLimit full(0);
  Region cells = cache_.map("memory:4MiB", {.access = Access::read_write, .page_size_bytes = 4096});
  const auto go_on = [&] {
    for (int turn = 0; turn < 20; ++turn) {
      std::fill_n(cells.data(), cells.size(), std::byte{1});
      vectors.passed(state_.size);
    }
  };
  EXPECT_THROW(go_on(), Error);
}

TEST(GrayScottCheck, FindsWhatIsWrong) {
  constexpr std::uint64_t size = 8;
  std::vector<double> cells = random_cells<double>(size);
  const Survey right = survey_all<double>(size, reader_of(cells, size));
  EXPECT_EQ(find_impossible(right), "");
  std::swap(cells[3], cells[4]);
  const Survey swapped = survey_all<double>(size, reader_of(cells, size));
  EXPECT_NE(swapped.checksum, right.checksum);
  EXPECT_NEAR(swapped.sums.u, right.sums.u, 1e-9);
  cells[5] = -0.1;
  EXPECT_NE(find_impossible(survey_all<double>(size, reader_of(cells, size))).find("-0.1"), std::string::npos);
  cells[5] = 1.5;
  EXPECT_NE(find_impossible(survey_all<double>(size, reader_of(cells, size))).find("1.5"), std::string::npos);

  Reaction reaction;
  const SpeciesSums before{400, 100};
  const double fed = reaction.feed * (512 - 400) - (reaction.feed + reaction.kill) * 100;
  EXPECT_EQ(find_imbalance(before, {390, 110 + fed}, reaction, 512, true, 7), "");
  EXPECT_NE(find_imbalance(before, {390, 110.01 + fed}, reaction, 512, false, 7).find("step 7"), std::string::npos);
}

}  // namespace
}  // namespace tiermap::test
