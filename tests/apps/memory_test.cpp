// On tiermap the programs keep to their budget as the kernel counts it, while they work on several times as much.
#include "apps/program_fixture.hpp"

namespace tiermap::test {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
/// docs/applications.md: what a program needs beside its pages and what it keeps for each vertex.
constexpr std::uint64_t program_bytes = 24 * mebibyte;

class MemoryTest : public ProgramTest {
 protected:
  nlohmann::json report_of(const std::string& program, std::vector<std::string> arguments,
                           const std::string& threads = "2") const {
    arguments.insert(arguments.end(), {"--budget", "8MiB", "--page-size", "64KiB", "--threads", threads, "--json"});
    const Outcome outcome = run(program, arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.exit_code == 0 ? outcome.json() : nlohmann::json::object();
  }
  /// Whether the budget is exact: fault mode kernel keeps near it (docs/how-to/kernel-mode.md).
  static bool is_exact(const nlohmann::json& report) { return !report.value("engine", "").starts_with("kernel"); }
  /// Expects a peak of at most the budget, the program, and `beside`; and more data than that several times.
  static void expect_small(const nlohmann::json& report, std::uint64_t data, std::uint64_t beside = 0) {
    const auto peak = report.value("peak_rss_bytes", std::uint64_t{0});
    const std::uint64_t most = report.value("budget_bytes", std::uint64_t{0}) + program_bytes + beside;
    EXPECT_GT(peak, 0U);
    EXPECT_LE(peak, most) << report.value("engine", "");
    EXPECT_GT(data, most * 3 / 2);
  }
};

TEST_F(MemoryTest, SortingKeepsToItsBudget) {
  const nlohmann::json report = report_of("tiermap-sort", {"--bytes", "96MiB"});
  EXPECT_EQ(report.value("verified", false), true);
  if (!is_exact(report)) {
    GTEST_SKIP() << "userfaultfd is refused here";
  }
  expect_small(report, report.value("bytes", std::uint64_t{0}));
}

TEST_F(MemoryTest, BuildingAndSearchingAGraphKeepToTheirBudget) {
  const std::string graph = path("work/graph");
  const nlohmann::json built =
      report_of("tiermap-bfs", {"--scale", "18", "--edge-factor", "32", "--graph", graph, "--build-only"});
  if (!is_exact(built)) {
    GTEST_SKIP() << "userfaultfd is refused here";
  }
  // It sorts every edge twice, once each way, in words of 8 bytes.
  expect_small(built, built.value("input_edges", std::uint64_t{0}) * 2 * 8);
  const nlohmann::json searched = report_of("tiermap-bfs", {"--graph", graph, "--roots", "2", "--no-verify"});
  expect_small(searched, searched.value("bytes", std::uint64_t{0}), searched.value("state_bytes", std::uint64_t{0}));
}

TEST_F(MemoryTest, CheckingManyTreesByManyThreadsKeepsToTheBudget) {
  const std::string graph = path("work/graph");
  report_of("tiermap-bfs", {"--scale", "20", "--edge-factor", "8", "--graph", graph, "--build-only"});
  const nlohmann::json searched = report_of("tiermap-bfs", {"--graph", graph, "--roots", "8"}, "64");
  if (!is_exact(searched)) {
    GTEST_SKIP() << "userfaultfd is refused here";
  }
  EXPECT_EQ(searched.value("verified", false), true);
  // What the checks of the trees free has to be gone: kept by the C library, it grew with every tree, to 100 MiB.
  const std::uint64_t of_threads = 64 * mebibyte / 4;
  EXPECT_LE(searched.value("peak_rss_bytes", std::uint64_t{0}),
            8 * mebibyte + program_bytes + searched.value("state_bytes", std::uint64_t{0}) + of_threads);
}

TEST_F(MemoryTest, BuildingADatabaseOfKmersAndClassifyingKeepToTheirBudget) {
  const std::string folder = path("work/input");
  report_of("tiermap-kmer", {"--bytes", "64MiB", "--read-count", "200", "--generate", folder});
  const std::string database = path("work/database");
  const nlohmann::json built = report_of(
      "tiermap-kmer", {"--genomes", folder + "/genomes.fasta", "--taxonomy", folder + "/taxonomy.tsv",
                       "--sequence-taxa", folder + "/sequence-taxa.tsv", "--database", database, "--build-only"});
  if (!is_exact(built)) {
    GTEST_SKIP() << "userfaultfd is refused here";
  }
  // It sorts a record of 16 bytes for every k-mer of every genome.
  expect_small(built, built.value("operations", std::uint64_t{0}) * 16);
  const nlohmann::json classified =
      report_of("tiermap-kmer", {"--database", database, "--reads", folder + "/reads.fastq", "--no-verify"});
  expect_small(classified, classified.value("bytes", std::uint64_t{0}));
}

TEST_F(MemoryTest, LongReadsAreNotKept) {
  constexpr std::uint64_t long_bases = 3 * mebibyte;
  std::string known = ">known\n";
  known.append(2 * long_bases, 'A');
  // Sixteen reads are taken at a time: a long one is once in each place.
  constexpr int places = 16;
  std::string unknown;
  for (int place = 0; place < places; ++place) {
    for (int before = 0; before < place; ++before) {
      unknown += ">short\nACGT\n";
    }
    unknown += ">long\n" + std::string(long_bases, 'N') + "\n";
  }
  const std::string database = path("work/database");
  const nlohmann::json built =
      report_of("tiermap-kmer", {"--bytes", "2MiB", "--organisms", "4", "--database", database, "--build-only"}, "1");
  if (!is_exact(built)) {
    GTEST_SKIP() << "userfaultfd is refused here";
  }
  for (const std::string& reads : {write_file("known", known + "\n"), write_file("unknown", unknown)}) {
    const nlohmann::json report = report_of("tiermap-kmer", {"--database", database, "--reads", reads}, "1");
    EXPECT_EQ(report.value("verified", false), true);
    // As a string grows there are two of it.
    EXPECT_LE(report.value("peak_rss_bytes", std::uint64_t{0}), 8 * mebibyte + program_bytes + 3 * long_bases) << reads;
  }
}

TEST_F(MemoryTest, ClusteringPointsKeepsToItsBudget) {
  const nlohmann::json report =
      report_of("tiermap-kmeans", {"--bytes", "64MiB", "--rounds", "1", "--iterations", "1", "--no-verify"});
  if (!is_exact(report)) {
    GTEST_SKIP() << "userfaultfd is refused here";
  }
  expect_small(report, report.value("bytes", std::uint64_t{0}));
}

TEST_F(MemoryTest, GrowingATreeKeepsToItsBudget) {
  const nlohmann::json report = report_of("tiermap-random-forest", {"--bytes", "64MiB", "--trees", "1", "--no-verify"});
  if (!is_exact(report)) {
    GTEST_SKIP() << "userfaultfd is refused here";
  }
  expect_small(report, report.value("bytes", std::uint64_t{0}));
}

TEST_F(MemoryTest, TheBoundWouldSeeAllOfTheDataInMemory) {
  const nlohmann::json report = report_of("tiermap-sort", {"--bytes", "96MiB", "--system", "memory"});
  EXPECT_GT(report.value("peak_rss_bytes", std::uint64_t{0}), 8 * mebibyte + program_bytes);
}

}  // namespace
}  // namespace tiermap::test
