// tiermap-gray-scott as several ranks: the same cells, bit for bit, and the same checkpoints, whatever their number;
// what they send each other; and the plain MPI program, which computes the same.
#include <filesystem>

#include "ranks/ranked_program_fixture.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-gray-scott";
const char* const plain_program = "tiermap-gray-scott-mpi";

std::vector<std::string> join(std::vector<std::string> some, const std::vector<std::string>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

const std::vector<std::string> small = {"--size", "24", "--steps", "10", "--seed", "3", "--json"};

class GrayScottRanksTest : public TwoServersTest {
 protected:
  static void expect_same_state(const nlohmann::json& report, const nlohmann::json& expected) {
    for (const char* name : {"last_step", "sum_u", "sum_v", "checksum"}) {
      EXPECT_EQ(report.value(name, nlohmann::json()), expected.at(name)) << name;
    }
  }
};

TEST_F(GrayScottRanksTest, TheSameCellsAndCheckpointsWhateverTheNumberOfRanks) {
  std::filesystem::create_directory(path("alone"));
  const std::vector<std::string> checkpoints = {"--plotgap", "5", "--keep", "--checkpoints"};
  const nlohmann::json expected =
      verified_report(program, join(join(small, checkpoints), {path("alone"), "--file", path("alone.bin")}));
  two_servers();
  for (const int ranks : {1, 2, 4, 8}) {
    const std::string name = path(std::to_string(ranks));
    std::filesystem::create_directory(name);
    const nlohmann::json report = report_of_ranks(
        ranks, program, join(join(small, checkpoints), {name, "--file", name + ".bin", "--check-in-memory"}));
    EXPECT_EQ(report.value("verified", false), true);
    EXPECT_EQ(report.value("checkpoints", 0), 2);
    expect_same_state(report, expected);
    EXPECT_TRUE(bytes_of(name + ".bin") == bytes_of(path("alone.bin"))) << ranks << " ranks";
    for (const char* step : {"/step_00000005.h5", "/step_00000010.h5"}) {
      EXPECT_TRUE(bytes_of(name + step) == bytes_of(path("alone") + step)) << ranks << " ranks";
    }
  }
}

TEST_F(GrayScottRanksTest, GoOnFromACheckpointWithLessMemoryThanTheirPlanes) {
  const std::vector<std::string> doubles = {"--size",      "32",   "--precision", "double", "--json",
                                            "--page-size", "4KiB", "--seed",      "3"};
  const nlohmann::json expected = verified_report(program, join(doubles, {"--steps", "6"}));
  std::filesystem::create_directory(path("first"));
  report_of_ranks(3, program, join(doubles, {"--steps", "2", "--plotgap", "2", "--checkpoints", path("first")}));
  // Half a MiB of cells, of which each rank has a half.
  const nlohmann::json report = report_of_ranks(
      2, program, {"--restart", path("first"), "--steps", "4", "--json", "--page-size", "4KiB", "--budget", "128KiB"});
  expect_same_state(report, expected);
  EXPECT_GT(report.at("fetched_bytes"), 4U * 2 * 2 * 32 * 32 * 32 * 8 / 2);
}

TEST_F(GrayScottRanksTest, SendTheirOutermostPlanesAndNothingElse) {
  two_servers();
  constexpr std::uint64_t steps = 10;
  constexpr std::uint64_t plane_bytes = 2 * 32 * 32 * sizeof(float);
  const nlohmann::json report =
      report_of_ranks(4, program, {"--size", "32", "--steps", std::to_string(steps), "--json"});
  const std::uint64_t planes = 4 * 2 * steps;
  EXPECT_EQ(report.at("fetched_bytes"), planes * plane_bytes);
  EXPECT_GE(report.at("sent_bytes"), planes * plane_bytes);
  EXPECT_LE(report.at("sent_bytes"), planes * (plane_bytes + 64));
  // A plane is written by one message and fetched by another; nobody asks what has changed.
  EXPECT_EQ(report.at("coherence_messages"), 0);
  EXPECT_EQ(report.at("messages"), 2 * planes);
}

TEST_F(GrayScottRanksTest, RefuseInOneLineWhatRanksCannotDo) {
  const auto expect_refusal = [&](int ranks, const std::vector<std::string>& arguments, const std::string& part) {
    const Outcome outcome = run_ranks(ranks, program, arguments);
    EXPECT_NE(outcome.exit_code, 0) << part;  // mpiexec puts those of all ranks together.
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors;
    EXPECT_EQ(outcome.output, "") << part;
  };
  expect_refusal(9, {"--size", "8"}, "9 ranks cannot share 8 planes: start 8 at most");
  expect_refusal(2, {"--system", "mmap"}, "--system mmap is for one process");
  expect_refusal(2, {"--steps-per-pass", "4"}, "ranks make one step a pass, not 4");
  expect_refusal(2, {"--checkpoint", "background", "--checkpoints", path("")}, "between the steps");
  expect_refusal(2, {"--size", "24", "--steps", "400", "--time-step", "20"}, "finite numbers any more");
  expect_refusal(2, {"--size", "8", "--keep", "--file", write_file("there", "")}, "exists: name a new file by --file");
}

TEST_F(GrayScottRanksTest, SayBeforeTheStepsThatWhatIsMadeAtTheEndCannotBe) {
  const std::string made = path("checkpoints");
  std::filesystem::create_directory(made);
  for (const char* option : {"--image", "--file"}) {
    const Outcome outcome = run_ranks(2, program,
                                      {"--size", "8", "--steps", "2", "--plotgap", "1", "--checkpoints", made, "--keep",
                                       option, path("no/there.ppm")});
    EXPECT_NE(outcome.exit_code, 0);
    // The other rank may say that this one has ended, where mpiexec is late to end it too.
    const std::string first = outcome.errors.substr(0, outcome.errors.find('\n'));
    EXPECT_NE(first.find("rank 0: "), std::string::npos) << outcome.errors;
    EXPECT_NE(first.find("No such file or directory"), std::string::npos) << outcome.errors;
    EXPECT_EQ(outcome.errors.find("rank 0: ", first.size()), std::string::npos) << outcome.errors;
    EXPECT_TRUE(std::filesystem::is_empty(made)) << option;
  }
}

TEST_F(GrayScottRanksTest, ThePlainMpiProgramComputesTheSameCells) {
  if (!is_built(plain_program)) {
    GTEST_SKIP() << "there was no MPI when this was built: install libmpich-dev";
  }
  set_environment("UCX_TLS", "all");  // Over TCP alone MPICH 4.0.2 hangs in MPI_Finalize() now and then.
  const nlohmann::json expected = verified_report(program, join(small, {"--keep", "--file", path("alone.bin")}));
  for (const int ranks : {1, 2, 4}) {
    const std::string result = path(std::to_string(ranks));
    const nlohmann::json report =
        report_of_ranks(ranks, plain_program, {"--size", "24", "--steps", "10", "--seed", "3", "--result", result});
    expect_same_state(report, expected);
    EXPECT_TRUE(bytes_of(result) == bytes_of(path("alone.bin"))) << ranks << " ranks";
    EXPECT_GE(report.at("sent_bytes"), ranks == 1 ? 0 : ranks * 2 * 10 * 2 * 24 * 24 * 4);
  }
  const Outcome outcome = run_ranks(9, plain_program, {"--size", "8", "--steps", "1"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.errors.find("9 ranks cannot share 8 planes"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace tiermap::test
