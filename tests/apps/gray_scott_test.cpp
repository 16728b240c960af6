// tiermap-gray-scott from outside: the same cells, bit for bit, on every system, with any number of threads and in any
// memory; checkpoints that are whole whenever it is killed, and from which it goes on as if nothing had been; what
// cannot be computed is refused.
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <limits>
#include <thread>

#include "apps/program_fixture.hpp"
#include "tiermap/vector.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-gray-scott";

std::vector<std::string> join(std::vector<std::string> some, const std::vector<std::string>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

const std::vector<std::string> small = {"--size", "24", "--steps", "12", "--seed", "3"};
const std::vector<std::string> in_half = {"--budget", "56KiB", "--page-size", "4KiB"};

class GrayScottTest : public ProgramTest {
 protected:
  /// What is the same of all runs that compute the same.
  nlohmann::json state(const std::vector<std::string>& arguments) const {
    const nlohmann::json report = verified_report(program, join(arguments, {"--json"}));
    nlohmann::json kept;
    for (const char* name : {"last_step", "sum_u", "sum_v", "checksum"}) {
      kept[name] = report.value(name, nlohmann::json());
    }
    return kept;
  }
  std::string folder(const std::string& name) const {
    std::filesystem::create_directory(path(name));
    return path(name);
  }
  static std::string bytes_of(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
};

TEST_F(GrayScottTest, TheSameOnEverySystemWithAnyNumberOfThreadsInHalfOfTheMemory) {
  const nlohmann::json report = verified_report(program, join(small, {"--check-in-memory", "--json"}));
  expect_shared_fields(report, "gray-scott", "tiermap");
  EXPECT_LT(report.at("largest_difference"), 1e-5);
  EXPECT_LT(report.at("sum_u"), 24 * 24 * 24);
  EXPECT_GT(report.at("sum_v"), 1);
  const nlohmann::json expected = state(small);
  for (const auto& [threads, steps] : {std::pair{"1", "5"}, {"3", "1"}, {"2", "64"}, {"30", "3"}}) {
    EXPECT_EQ(state(join(join(small, in_half), {"--threads", threads, "--steps-per-pass", steps})), expected)
        << threads << " threads, " << steps << " steps a pass";
  }
  EXPECT_EQ(state(join(small, {"--system", "mmap"})), expected);
  EXPECT_EQ(state(join(small, {"--system", "memory", "--steps-per-pass", "3"})), expected);
  EXPECT_EQ(state(join(join(small, in_half), {"--prefetch", "off"})), expected);
  EXPECT_NE(state(join(small, {"--feed", "0.03"})), expected);
  verified_report(program, join(small, {"--precision", "double", "--check-in-memory", "--json"}));
  EXPECT_TRUE(left_behind().empty());
}

TEST_F(GrayScottTest, GoesOnFromACheckpointAsIfNothingHadBeen) {
  const std::string all = folder("all");
  const std::vector<std::string> more = {"--plotgap", "4", "--kill", "0.055", "--precision", "double", "--checkpoints"};
  const nlohmann::json expected = state(join(join(join(small, in_half), more), {all}));
  const std::string first = folder("first");
  state(join(join({"--size", "24", "--seed", "3", "--steps", "8"}, more), {first, "--checkpoint", "synchronous"}));
  // Written in the background and between the steps they are the same files.
  for (const char* step : {"/step_00000004.h5", "/step_00000008.h5"}) {
    EXPECT_TRUE(bytes_of(all + step) == bytes_of(first + step));
  }
  // Its last one is that of the folder, whatever somebody has put aside there; it says by which rates.
  std::filesystem::copy(first + "/step_00000004.h5", first + "/step_00000010-before.h5");
  EXPECT_EQ(state({"--restart", first, "--steps", "4", "--plotgap", "4", "--checkpoints", first, "--check-in-memory"}),
            expected);
  EXPECT_TRUE(bytes_of(all + "/step_00000012.h5") == bytes_of(first + "/step_00000012.h5"));
  EXPECT_EQ(state({"--restart", all + "/step_00000008.h5", "--steps", "4", "--system", "memory"}), expected);

  expect_refused(program, {"--restart", all, "--size", "32"}, "is of size 24, not 32");
  expect_refused(program, {"--restart", all, "--precision", "float"}, "has doubles, not floats");
  expect_refused(program, {"--restart", first + "/step_00000004.h5", "--plotgap", "2", "--checkpoints", first},
                 "step_00000008.h5 exists");
  expect_refused(program, {"--restart", folder("none")}, "has no finished checkpoint");
  expect_refused(program, {"--restart", write_file("text", "text")}, "no HDF5 file");
}

TEST_F(GrayScottTest, CheckpointsGoThroughTiers) {
  const std::string tiers = write_file("tiers.yaml",
                                       "block: 4KiB\n"
                                       "tiers:\n"
                                       "  - {name: fast, kind: memory, capacity: 64KiB}\n"
                                       "backing: {emulated: true, bandwidth: 100MiB, latency_microseconds: 10}\n");
  const std::string with = folder("with");
  const std::string without = folder("without");
  const std::vector<std::string> every_six = join(join(small, in_half), {"--plotgap", "6", "--checkpoints"});
  state(join(every_six, {with, "--tiers", tiers}));
  state(join(every_six, {without}));
  EXPECT_TRUE(bytes_of(with + "/step_00000012.h5") == bytes_of(without + "/step_00000012.h5"));
}

TEST_F(GrayScottTest, WhenKilledWhatIsThereByNameIsWhole) {
  const std::string expected = folder("expected");
  const std::vector<std::string> each = {"--size", "48", "--plotgap", "1", "--checkpoints"};
  state(join(each, {expected, "--steps", "3"}));
  std::size_t partial = 0;
  for (int round = 0; round < 8; ++round) {
    const std::string killed = folder("killed" + std::to_string(round));
    const pid_t child = start(program, join(each, {killed, "--steps", "1000000", "--checkpoint",
                                                   round % 2 == 0 ? "background" : "synchronous"}));
    for (int wait = 0; wait < 1000 && std::filesystem::is_empty(killed); ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * round));
    ::kill(child, SIGKILL);
    EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGKILL);
    for (const char* step : {"/step_00000001.h5", "/step_00000002.h5", "/step_00000003.h5"}) {
      if (std::filesystem::exists(killed + step)) {
        EXPECT_TRUE(bytes_of(killed + step) == bytes_of(expected + step));
      }
    }
    bool finished = false;
    for (const auto& entry : std::filesystem::directory_iterator(killed)) {
      const bool whole = entry.path().extension() == ".h5";
      finished = finished || whole;
      partial += whole ? 0 : 1;
    }
    if (finished) {
      // The rest is taken away by whoever goes on.
      verified_report(program,
                      {"--restart", killed, "--steps", "2", "--plotgap", "1", "--checkpoints", killed, "--json"});
      for (const auto& entry : std::filesystem::directory_iterator(killed)) {
        EXPECT_EQ(entry.path().extension(), ".h5");
      }
    }
  }
  EXPECT_GT(partial, 0U) << "none was killed while it wrote";
}

TEST_F(GrayScottTest, ACheckpointThatCannotBeWrittenEndsTheRunAndLeavesNothing) {
  const std::string folder_name = folder("work/checkpoints");
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit before = limit;
  limit.rlim_cur = 2 * 24 * 24 * 24 * 4 + 512;  // The grid, and not what an HDF5 file has beside it.
  std::signal(SIGXFSZ, SIG_IGN);
  for (const char* how : {"background", "synchronous"}) {
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Outcome outcome =
        run(program, join(small, {"--plotgap", "3", "--checkpoints", folder_name, "--checkpoint", how}));
    ::setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
    EXPECT_TRUE(std::filesystem::is_empty(folder_name));
  }
  std::signal(SIGXFSZ, SIG_DFL);
}

TEST_F(GrayScottTest, APictureOfAPlane) {
  state(join(small, {"--image", path("slice.ppm")}));
  EXPECT_EQ(bytes_of(path("slice.ppm")).substr(0, 13), "P6\n24 24\n255\n");
  EXPECT_EQ(bytes_of(path("slice.ppm")).size(), 13U + 24 * 24 * 3);
  state(join(small, {"--image", path("slice.pgm"), "--slice", "0"}));
  EXPECT_EQ(bytes_of(path("slice.pgm")).size(), 13U + 24 * 24);
  expect_refused(program, join(small, {"--image", path("slice.ppm")}), "slice.ppm exists");
  expect_refused(program, join(small, {"--image", path("slice.png")}), "neither .pgm");
  expect_refused(program, join(small, {"--image", path("x.pgm"), "--slice", "24"}), "slice 24");
}

TEST_F(GrayScottTest, APictureThatCannotBeMadeIsSaidBeforeTheSteps) {
  const std::string made = folder("checkpoints");
  const std::vector<std::string> with_checkpoints = join(small, {"--plotgap", "1", "--checkpoints", made});
  expect_refused(program, join(with_checkpoints, {"--image", path("no/slice.ppm")}),
                 "no/slice.ppm cannot be written (No such file or directory): name another file by --image");
  expect_refused(program, join(with_checkpoints, {"--image", path("grid.ppm"), "--file", path("grid.ppm")}),
                 "grid.ppm cannot be written (File exists)");
  EXPECT_TRUE(std::filesystem::is_empty(made));
}

TEST_F(GrayScottTest, SaysAtWhichStepTheCellsAreNoNumbersAnyMore) {
  for (const char* steps : {"1", "7"}) {
    expect_refused(program,
                   {"--size", "24", "--time-step", "40", "--steps-per-pass", steps, "--plotgap", "50", "--checkpoints",
                    folder("work")},
                   "step 5: there are cells that are no finite numbers");
  }
}

TEST_F(GrayScottTest, ACheckpointOfWhatAreNoNumbersIsNotGoneOnFrom) {
  const std::string checkpoints = folder("checkpoints");
  state({"--size", "24", "--steps", "2", "--plotgap", "2", "--checkpoints", checkpoints});
  const std::string checkpoint = checkpoints + "/step_00000002.h5";
  for (const float cell : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto v = Vector<float>::open("hdf5:" + checkpoint + ":/v");
    v[4000] = cell;
    v.close();
    expect_refused(program, {"--restart", checkpoints, "--steps", "1"},
                   checkpoint + " has cells that are no finite numbers: restart from a checkpoint before it");
  }
}

TEST_F(GrayScottTest, ACheckpointOfRatesThatCannotBeIsGoneOnFromWithOthers) {
  const std::string checkpoints = folder("checkpoints");
  state({"--size", "24", "--steps", "2", "--plotgap", "2", "--checkpoints", checkpoints});
  const std::string checkpoint = checkpoints + "/step_00000002.h5";
  const auto set = [&](std::uint64_t number, double value) {
    auto simulation = Vector<double>::open("hdf5:" + checkpoint + ":/simulation");
    simulation[number] = value;
    simulation.close();
  };
  set(1, std::numeric_limits<double>::quiet_NaN());
  expect_refused(program, {"--restart", checkpoints, "--steps", "1"},
                 checkpoint + " says that feed is nan, which is no number from 0 to 1: choose one by --feed");
  state({"--restart", checkpoints, "--steps", "1", "--feed", "0.03"});
  set(1, 0.03);
  set(5, -1);
  expect_refused(program, {"--restart", checkpoints, "--steps", "1"}, "choose one by --time-step");
  set(0, 2.5);
  expect_refused(program, {"--restart", checkpoints, "--steps", "1"}, "says that it is of step 2.5");
}

TEST_F(GrayScottTest, RefusesWhatCannotBe) {
  expect_refused(program, {"--size", "0"}, "size 0");
  expect_refused(program, {"--size", "100000"}, "size 100000");
  expect_refused(program, {"--size", "8192"}, "has room for");
  expect_refused(program, {"--plotgap", "0"}, "plotgap 0");
  expect_refused(program, {"--steps", "-1"}, "steps -1");
  expect_refused(program, {"--steps-per-pass", "0"}, "steps-per-pass 0");
  expect_refused(program, {"--feed", "nan"}, "feed nan");
  expect_refused(program, {"--precision", "half"}, "precision half");
  expect_refused(program, {"--bytes", "1MiB"}, "choose --size");
  expect_refused(program, {"--checkpoints", path("missing")}, "is no folder");
  expect_refused(program, {"--tiers", path("tiers.yaml")}, "name a folder by --checkpoints");
  expect_refused(program, {"--checkpoints", folder("c"), "--checkpoint", "later"}, "choose background or synchronous");
  expect_refused(program, {"--checkpoints", folder("c"), "--checkpoint", "background", "--system", "mmap"},
                 "choose --checkpoint synchronous");
  expect_refused(program, {"--checkpoints", folder("c"), "--tiers", path("tiers.yaml")}, "tiers.yaml");
  expect_refused(program, {"--restart", path("missing.h5")}, "missing.h5");
}

}  // namespace
}  // namespace tiermap::test
