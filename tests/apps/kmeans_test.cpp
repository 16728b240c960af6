// tiermap-kmeans from outside: the same clusters, bit for bit, on every system, with any number of threads, from every
// format and in a tenth of the memory; those that were planted are found; what are no points is refused.
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>

#include "apps/program_fixture.hpp"
#include "tiermap/error.hpp"
#include "tiermap/vector.hpp"
#ifdef TIERMAP_HAS_S3
#include "s3/strict_server.hpp"
#endif

namespace tiermap::test {
namespace {

const char* const program = "tiermap-kmeans";

class KMeansTest : public ProgramTest {
 protected:
  /// The report of a run that was verified, without what is of that run alone, and with the assignments in it.
  nlohmann::json clustering(std::vector<std::string> arguments) const {
    const std::string assignments = path("assignments");
    arguments.insert(arguments.end(), {"--assignments", assignments, "--json"});
    const nlohmann::json report = verified_report(program, arguments);
    nlohmann::json kept;
    for (const char* name : {"points", "dimensions", "clusters", "rounds", "candidates", "iterations", "converged",
                             "inertia", "sizes", "centroids"}) {
      kept[name] = report.value(name, nlohmann::json());
    }
    kept["assignments"] = bytes_of(assignments);
    std::filesystem::remove(assignments);
    return kept;
  }
  static std::string bytes_of(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  /// 2.4 MB of particles and the clusters that they were planted in.
  std::string generated() const {
    const Outcome outcome = run(program, {"generate", "--bytes", "2400000", "--file", path("points"), "--truth",
                                          path("truth"), "--seed", "7", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return path("points");
  }
  std::string write_points(const std::string& name, std::span<const float> coordinates) const {
    return write_file(name, {reinterpret_cast<const char*>(coordinates.data()), coordinates.size_bytes()});
  }
};

const std::vector<std::string> in_a_tenth = {"--budget", "240000", "--page-size", "4KiB"};
#ifdef TIERMAP_HAS_S3
/// Pages that are worth one each.
const std::vector<std::string> in_a_tenth_by_requests = {"--budget", "240000", "--page-size", "32KiB"};
#endif

std::vector<std::string> join(std::vector<std::string> some, const std::vector<std::string>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

TEST_F(KMeansTest, TheSameOnEverySystemWithAnyNumberOfThreadsInATenthOfTheMemory) {
  const std::string points = generated();
  const nlohmann::json expected = clustering(join({points, "--threads", "1"}, in_a_tenth));
  EXPECT_EQ(expected.at("points"), 2'400'000 / 12);
  EXPECT_EQ(expected.at("assignments").get_ref<const std::string&>().size(), 2'400'000 / 12 * 4);
  for (const char* threads : {"2", "3", "7"}) {
    EXPECT_EQ(clustering(join({points, "--threads", threads}, in_a_tenth)), expected) << threads << " threads";
  }
  EXPECT_EQ(clustering({points, "--threads", "3", "--system", "mmap"}), expected);
  EXPECT_EQ(clustering({points, "--threads", "2", "--system", "memory"}), expected);
  EXPECT_EQ(clustering(join({points, "--prefetch", "off"}, in_a_tenth)), expected);
  EXPECT_TRUE(left_behind().empty());
}

#ifdef TIERMAP_HAS_S3
TEST_F(KMeansTest, TheSameFromAnObjectInS3) {
  const std::string points = generated();
  const nlohmann::json expected = clustering({points, "--system", "memory"});
  StrictServer server;
  ASSERT_TRUE(server.runs());
  server.load("points", bytes_of(points));
  EXPECT_EQ(clustering(join({server.url("points")}, in_a_tenth_by_requests)), expected);
  // What it read is told, though nothing of it was on a disk: each pass is of all points.
  const std::vector<std::string> of_object = join({server.url("points")}, in_a_tenth_by_requests);
  const nlohmann::json report = verified_report(program, join(of_object, {"--json"}));
  EXPECT_GT(report.at("paged_in_bytes").get<std::uint64_t>(), 5U * 2'400'000) << report;
  EXPECT_LT(report.at("read_bytes"), report.at("paged_in_bytes"));
  EXPECT_NE(run(program, of_object).output.find(" came from the stores of its regions"), std::string::npos);
  const Outcome outcome = run(program, {server.url("none")});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
  EXPECT_NE(outcome.errors.find("NoSuchKey"), std::string::npos) << outcome.errors;
}
#endif

TEST_F(KMeansTest, TheSameFromAnArrayOfNumpy) {
  const std::string points = generated();
  const nlohmann::json expected = clustering({points, "--system", "memory"});
  const std::string array = "npy:" + write_npy("<f4", "200000, 3", bytes_of(points));
  EXPECT_EQ(clustering(join({array}, in_a_tenth)), expected);
  EXPECT_EQ(clustering({array, "--system", "memory"}), expected);
  const std::string flat = "npy:" + write_npy("<f4", "600000,", bytes_of(points));
  EXPECT_EQ(clustering(join({flat, "--dimensions", "3"}, in_a_tenth)), expected);
  expect_refused(program, {array, "--system", "mmap"}, "choose --system tiermap");
}

TEST_F(KMeansTest, TheSameFromHdf5AndParquetInATenthOfTheMemory) {
  using Point = std::array<float, 3>;
  const std::string points = generated();
  const nlohmann::json expected = clustering({points, "--system", "memory"});
  const auto raw = Vector<Point>::open_read_only(points);
  // Row groups of a hundredth, of which there are no more than eight in memory at once.
  for (const std::string& url :
       {"hdf5:" + path("points.h5") + ":/points?type=float32&shape=200000,3",
        "parquet:" + path("points.parquet") + "?columns=x:float32,y:float32,z:float32&group=24000&compression=zstd"}) {
    try {
      auto copy = Vector<Point>::create(url, raw.size());
      std::copy(raw.span().begin(), raw.span().end(), copy.begin());
      copy.close();
    } catch (const StoreError& error) {
      ASSERT_EQ(error.code().value(), ENOTSUP) << error.what();
      GTEST_SKIP() << error.what();
    }
    for (const char* threads : {"1", "3"}) {
      EXPECT_EQ(clustering(join({url, "--threads", threads}, in_a_tenth)), expected) << url;
    }
    EXPECT_EQ(clustering({url, "--system", "memory"}), expected) << url;
  }
#ifdef TIERMAP_HAS_S3
  StrictServer server;
  ASSERT_TRUE(server.runs());
  server.load("points.h5", bytes_of(path("points.h5")));
  const std::string object = "hdf5:" + server.url("points.h5:/points");
  EXPECT_EQ(clustering(join({object}, in_a_tenth_by_requests)), expected);
  EXPECT_EQ(clustering({object, "--system", "memory"}), expected);
  expect_refused(program, {"hdf5:" + server.url("points.h5:/none")}, "choose among /points");
#endif
}

TEST_F(KMeansTest, FindsWhatWasPlantedAndWhatPlainIterationsFind) {
  for (const char* system : {"tiermap", "mmap", "memory"}) {
    const nlohmann::json report = verified_report(
        program, {"--bytes", "1MiB", "--system", system, "--clusters", "12", "--check-in-memory", "--json"});
    expect_shared_fields(report, "kmeans", system);
    EXPECT_GT(report.at("adjusted_rand_index"), 0.99);
  }
  // More dimensions than a group of centroids has lanes, and one.
  EXPECT_GT(verified_report(program, {"--bytes", "1MiB", "--dimensions", "11", "--check-in-memory", "--json"})
                .at("adjusted_rand_index"),
            0.99);
  EXPECT_GT(verified_report(program, {"--bytes", "1MiB", "--dimensions", "1", "--check-in-memory", "--json"})
                .at("adjusted_rand_index"),
            0.99);
  EXPECT_TRUE(left_behind().empty());
}

TEST_F(KMeansTest, PointsMayBeMadeInAnyStoreOnDisk) {
  const std::string url = "sparse://" + path("work/points") + "?segment=1MiB&capacity=2MiB";
  verified_report(program, {"--file", url, "--bytes", "2097144", "--budget", "1MiB", "--json"});
  EXPECT_TRUE(left_behind().empty());
}

TEST_F(KMeansTest, IsComparedWithTheTruthThatIsGiven) {
  const std::string points = generated();
  EXPECT_GT(verified_report(program, {points, "--truth", path("truth"), "--json"}).at("adjusted_rand_index"), 0.99);
  // Of other points.
  ASSERT_EQ(run(program, {"generate", "--bytes", "2400000", "--file", path("p2"), "--truth", path("t2"), "--seed", "8"})
                .exit_code,
            0);
  const Outcome outcome = run(program, {points, "--truth", path("t2"), "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
  EXPECT_NE(outcome.errors.find("adjusted Rand index"), std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.json().at("verified"), false);
  expect_refused(program, {points, "--truth", points}, "not 4 for each");
}

TEST_F(KMeansTest, RefusesPointsWithoutAPlace) {
  std::vector<float> points(30000, 1.5F);
  for (const auto& [place, value, text] :
       {std::tuple(std::size_t{29999}, std::numeric_limits<float>::quiet_NaN(), "point 9999 has no place"),
        {20000, -std::numeric_limits<float>::infinity(), "point 6666 has no place: its coordinate 2 is -inf"},
        {15001, std::numeric_limits<float>::infinity(), "point 5000 has no place: its coordinate 1 is inf"}}) {
    points[place] = value;
    const std::string file = write_points("points", points);
    for (const char* system : {"tiermap", "mmap", "memory"}) {
      expect_refused(program, {file, "--system", system, "--threads", "3", "--assignments", path("work/assignments")},
                     text);
    }
  }
}

TEST_F(KMeansTest, RefusesMoreClustersThanThereCanBe) {
  const std::vector<float> points = {0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2};
  const std::string file = write_points("points", points);
  expect_refused(program, {file, "--clusters", "5"}, "5 clusters are more than the 4 points");
  expect_refused(program, {file, "--clusters", "4"}, "4 clusters are more than the 3 different points");
  expect_refused(program, {file, "--clusters", "0"}, "clusters 0");
  expect_refused(program, {file, "--clusters", "-1"}, "clusters -1");
  // Each point a cluster of its own.
  const nlohmann::json report = verified_report(program, {file, "--clusters", "3", "--check-in-memory", "--json"});
  EXPECT_EQ(report.at("inertia"), 0);
  EXPECT_EQ(report.at("converged"), true);
}

TEST_F(KMeansTest, RefusesWhatAreNoPoints) {
  expect_refused(program, {write_file("points", "")}, "has no points");
  expect_refused(program, {write_file("points", std::string(26, 'x'))}, "has 26 bytes, no whole number of points");
  expect_refused(program, {path("missing")}, "missing");
  expect_refused(program, {"nonsense://points"}, "nonsense");
  const std::string bytes(96, '\0');
  const auto expect_array_refused = [&](const char* type, const char* shape, const std::string& part) {
    expect_refused(program, {"npy:" + write_npy(type, shape, bytes)}, part);
    expect_refused(program, {"npy:" + write_npy(type, shape, bytes), "--system", "memory"}, part);
  };
  expect_array_refused("<f8", "4, 3", "elements of type <f8");
  expect_array_refused("<i4", "8, 3", "elements of type <i4");
  expect_array_refused(">f4", "8, 3", "elements of type >f4");
  expect_refused(program, {"npy:" + write_npy("<f4", "8, 3", bytes), "--dimensions", "2"}, "rows of 3 elements");
  // As numpy saves what pandas gives: these numbers are points only when they are put together anew.
  const std::string columns = "npy:" + write_npy("<f4", "8, 3", bytes, "True");
  for (const char* dimensions : {"1", "3"}) {
    expect_refused(program, {columns, "--dimensions", dimensions}, "in Fortran order, column after column, and points");
  }
  expect_refused(program, {columns, "--system", "memory"}, "ascontiguousarray()");
}

TEST_F(KMeansTest, RefusesFilesOfOtherFormatsThatAreNamedWithoutThem) {
  const std::string bytes(96, '\0');
  expect_refused(program, {write_npy("<f4", "8, 3", bytes)}, "name it as npy:PATH");
  expect_refused(program, {write_file("points", "\x89HDF\r\n\x1a\n" + bytes)}, "name it as hdf5:PATH:/DATASET");
  std::string header = "SIMPLE  =                    T";
  header.resize(2880, ' ');
  expect_refused(program, {write_file("points", header)}, "name it as fits:PATH");
  expect_refused(program, {write_file("points", "PAR1" + bytes + "1234PAR1")}, "name it as parquet:PATH?columns=A,B");
  expect_refused(program, {write_file("points", "x,y,z\r\n1,2,3\r\n4.5,5,6\r\n")}, "name it as csv:PATH?type=float32");
  expect_refused(program, {"csv:" + path("points")}, "say type=float32 behind the question mark of its URL");
}

TEST_F(KMeansTest, TheHelpOfGeneratingListsWhatItTakes) {
  const Outcome help = run(program, {"generate", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* option : {"--file", "--bytes", "--truth", "--clusters"}) {
    EXPECT_NE(help.output.find(std::string("\n  ") + option + " "), std::string::npos) << help.output;
  }
}

TEST_F(KMeansTest, RefusesWhatCannotBeMeant) {
  const std::string file = write_points("points", std::vector<float>(300));
  const std::string there = write_file("there", "x");
  expect_refused(program, {file, "--assignments", there}, "there exists");
  expect_refused(program, {file, "--assignments", path("missing/assignments")}, "missing");
  expect_refused(program, {file, "--assignments", "memory:1GiB"}, "is not one plain file");
  expect_refused(program, {file, "--bytes", "1MiB"}, "--bytes");
  expect_refused(program, {file, "--file", path("x")}, "--file");
  expect_refused(program, {file, "--rounds", "0"}, "rounds 0");
  expect_refused(program, {file, "--iterations", "many"}, "iterations many");
  expect_refused(program, {file, "--tolerance", "nan"}, "tolerance nan");
  expect_refused(program, {file, "--oversampling", "0"}, "oversampling 0");
  expect_refused(program, {file, "--dimensions", "0"}, "dimensions 0");
  expect_refused(program, {"--truth", there}, "--truth");
  expect_refused(program, {"--bytes", "24"}, "fewer than 8 clusters");
  expect_refused(program, {"--file", there}, "there exists");
  expect_refused(program, {"--file", "memory:1MiB", "--bytes", "1MB"}, "memory:1MiB has 1MiB, not the 999996");
  expect_refused(program, {"generate", "--file", "memory:1MiB"}, "memory:1MiB is gone as soon");
  expect_refused(program, {"generate"}, "--file");
  expect_refused(program, {"generate", "--file", there}, "there exists");
  expect_refused(program, {"generate", "--file", path("x"), "--truth", there}, "there exists");
  expect_refused(program, {"generate", "--file", path("x"), "--assignments", path("y")}, "--assignments");
  EXPECT_FALSE(std::filesystem::exists(path("x")));
}

}  // namespace
}  // namespace tiermap::test
