// tiermap-search from outside: every structure on every system, made, kept, opened again, and refused.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/program_fixture.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-search";
const std::vector<std::string> structures = {"vector", "ordered", "unordered"};
const std::vector<std::string> systems = {"tiermap", "mmap", "memory"};

/// What is not given is small.
std::vector<std::string> arguments(std::vector<std::string> given) {
  for (const auto& [option, value] : {std::pair("--budget", "4MiB"), {"--threads", "3"}, {"--lookups", "2000"}}) {
    if (std::find(given.begin(), given.end(), option) == given.end()) {
      given.insert(given.end(), {option, value});
    }
  }
  given.emplace_back("--json");
  return given;
}

class SearchTest : public ProgramTest {
 protected:
  nlohmann::json verified_run(const std::vector<std::string>& further) const {
    const Outcome outcome = run(program, arguments(further));
    EXPECT_EQ(outcome.exit_code, 0) << testing::PrintToString(further) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    if (outcome.exit_code != 0) {
      return nlohmann::json::object();
    }
    const nlohmann::json report = outcome.json();
    EXPECT_EQ(report.at("verified"), true);
    EXPECT_EQ(report.at("operations"),
              report.at("hits").get<std::uint64_t>() + report.at("misses").get<std::uint64_t>());
    EXPECT_GT(report.at("lookups_per_second").get<double>(), 0);
    return report;
  }

  /// Makes a file that stays.
  std::string make(const std::string& name, const std::vector<std::string>& further) const {
    std::vector<std::string> all = {"--file", path(name), "--keep"};
    all.insert(all.end(), further.begin(), further.end());
    EXPECT_EQ(verified_run(all).value("file", ""), path(name));
    return path(name);
  }

  std::string content(const std::string& file) const {
    std::ifstream stream(file, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }

  /// Writes a word over the one at `offset`.
  void damage(const std::string& file, std::uint64_t offset, std::uint64_t word) const {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(offset));
    stream.write(reinterpret_cast<const char*>(&word), sizeof(word));
  }
};

TEST_F(SearchTest, EverySystemGivesTheSameAnswers) {
  for (const std::string& structure : structures) {
    nlohmann::json first;
    for (const std::string& system : systems) {
      const nlohmann::json report = verified_run({"--bytes", "12MiB", "--structure", structure, "--system", system});
      expect_shared_fields(report, "search", system);
      EXPECT_EQ(report.at("structure"), structure);
      EXPECT_EQ(report.at("operations"), 2000);
      EXPECT_LE(report.at("bytes"), 12U << 20U);
      EXPECT_GT(report.at("bytes"), (12U << 20U) - 8192);
      first = first.empty() ? report : first;
      for (const char* field : {"elements", "bytes", "hits", "misses", "value_sum"}) {
        EXPECT_EQ(report.at(field), first.at(field)) << structure << " " << system << " " << field;
      }
    }
    EXPECT_TRUE(left_behind().empty());
  }
}

TEST_F(SearchTest, EverySystemMakesTheSameFileAndOpensItAgain) {
  for (const std::string& structure : structures) {
    std::string first;
    for (const std::string& maker : systems) {
      const std::string file =
          make(structure + "-" + maker, {"--bytes", "6MiB", "--structure", structure, "--system", maker});
      const std::string made = content(file);
      first = first.empty() ? made : first;
      EXPECT_TRUE(made == first) << structure << " made by " << maker;
      nlohmann::json sum;
      for (const std::string& reader : systems) {
        const nlohmann::json report = verified_run({"--in", file, "--system", reader, "--lookups", "500"});
        EXPECT_EQ(report.at("structure"), structure);
        sum = sum.empty() ? report.at("value_sum") : sum;
        EXPECT_EQ(report.at("value_sum"), sum) << structure << " " << maker << " " << reader;
        EXPECT_FALSE(report.contains("file"));
      }
      EXPECT_TRUE(content(file) == made) << "looking up changed " << file;
    }
  }
}

TEST_F(SearchTest, HitsAndMissesAreAsAsked) {
  const std::string file = make("file", {"--bytes", "1MiB", "--structure", "ordered", "--seed", "7"});
  for (const std::uint64_t share : {0U, 30U, 100U}) {
    const nlohmann::json report = verified_run({"--in", file, "--hit-share", std::to_string(share), "--seed", "8"});
    EXPECT_NEAR(report.at("hits").get<double>(), 20.0 * static_cast<double>(share), share % 100 == 0 ? 0 : 150);
  }
  // Another seed, other look-ups.
  EXPECT_NE(verified_run({"--in", file, "--seed", "9"}).at("value_sum"),
            verified_run({"--in", file, "--seed", "10"}).at("value_sum"));
}

TEST_F(SearchTest, OptionsOfTheSystemsAreTaken) {
  const std::string file = make("file", {"--bytes", "12MiB", "--structure", "unordered", "--threads", "20"});
  for (const std::string policy : {"fifo", "lru", "small-main"}) {
    EXPECT_GT(verified_run({"--in", file, "--policy", policy, "--page-size", "64KiB"}).at("faults"), 0);
  }
  verified_run({"--in", file, "--fault-mode", "self-serving", "--madvise", "random", "--read-ahead", "0"});
  verified_run({"--in", file, "--system", "mmap", "--madvise", "random", "--prefetch", "off"});
}

TEST_F(SearchTest, OtherStoresThanFiles) {
  for (const std::string& structure : structures) {
    verified_run({"--bytes", "5MiB", "--structure", structure, "--file", "memory:"});
  }
  const std::string url = "sparse:" + path("sparse") + "?segment=1MiB";
  verified_run({"--bytes", "5MiB", "--structure", "ordered", "--file", url, "--keep"});
  verified_run({"--in", url});
  expect_refused(program, arguments({"--bytes", "5MiB", "--file", "memory:64KiB"}), "fewer --bytes");
  expect_refused(program, arguments({"--in", url, "--system", "mmap"}), "mmap maps nothing else");
}

TEST_F(SearchTest, RefusesWhatCannotBeMeant) {
  const std::string there = make("there", {"--bytes", "64KiB", "--structure", "ordered"});
  const struct {
    std::vector<std::string> arguments;
    std::string part;
  } cases[] = {
      {{"--structure", "list"}, "structure list is unknown"},
      {{"--structure", ""}, "given as nothing"},
      {{"--lookups", "0"}, "lookups 0"},
      {{"--lookups", "-1"}, "lookups -1"},
      {{"--lookups", "many"}, "lookups many"},
      {{"--hit-share", "101"}, "hit share 101"},
      {{"--hit-share", "half"}, "hit share half"},
      {{"--bytes", "4096"}, "choose 8KiB or more"},
      {{"--bytes", "8KiB", "--structure", "ordered"}, "choose 12KiB or more"},
      {{"--bytes", "0"}, "room for no element"},
      {{"--bytes", "64PiB"}, "more elements than there are keys"},
      {{"--bytes", "8TiB"}, "has room for"},
      {{"--file", there}, "with --in"},
      {{"--file", path("work/file/")}, "is a folder's name, by the slash at its end: name a file"},
      {{"--in", there, "--file", path("other")}, "choose one of them"},
      {{"--in", there, "--bytes", "1MiB"}, "choose one of them"},
      {{"--in", there, "--structure", "vector"}, "has structure ordered, not vector"},
      {{"--in", path("none")}, "none"},
      {{"--in", path("")}, "directory"},
      {{"--policy", "none"}, "policy"},
  };
  for (const auto& [further, part] : cases) {
    expect_refused(program, arguments(further), part);
  }
}

TEST_F(SearchTest, RefusesFilesThatItDidNotMakeOrThatAreDamaged) {
  for (const std::string& system : systems) {
    const auto expect_file_refused = [&](const std::string& file, const std::string& part) {
      expect_refused(program, arguments({"--system", system, "--in", file}), part);
    };
    expect_file_refused(write_file("text", std::string(8192, 'x')), "was not made by tiermap-search");
    expect_file_refused(write_file("short", "TIERFND\n"), "too short");
    expect_file_refused(write_file("empty", ""), "empty");

    const std::string whole = content(make("whole-" + system, {"--bytes", "256KiB", "--structure", "ordered"}));
    expect_file_refused(write_file("cut", whole.substr(0, whole.size() - 1)), "cut off");
    // The header comes last: a making that was cut short leaves zeros in its place.
    expect_file_refused(write_file("begun", std::string(4096, '\0') + whole.substr(4096)), "was not made by");
    std::string later = whole;
    later[8] = 2;
    expect_file_refused(write_file("later", later), "version 2");
    for (const std::size_t byte : {12U, 16U, 24U, 32U, 40U, 48U, 56U, 64U}) {
      std::string damaged = whole;
      damaged[byte] = static_cast<char>(damaged[byte] ^ 4);
      expect_file_refused(write_file("damaged", damaged), "damaged header");
    }
  }
}

TEST_F(SearchTest, DamagedLinksAreRefusedAndOtherValuesAreWrong) {
  for (const std::string& system : systems) {
    const std::string tree = make("tree-" + system, {"--bytes", "256KiB", "--structure", "ordered"});
    damage(tree, 4096, 1U << 30U);
    expect_refused(program, arguments({"--system", system, "--in", tree}), tree + " is damaged: its link to element");
    const std::string chains = make("chains-" + system, {"--bytes", "256KiB", "--structure", "unordered"});
    for (std::uint64_t head = 0; head < 4096; ++head) {
      damage(chains, 4096 + 8 * head, 1U << 30U);
    }
    expect_refused(program, arguments({"--system", system, "--in", chains}),
                   chains + " is damaged: its link to element");

    const std::string vector = make("vector-" + system, {"--bytes", "4112", "--structure", "vector"});
    damage(vector, 4096 + 8, 12345);
    const Outcome outcome = run(program, arguments({"--system", system, "--in", vector}));
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
    EXPECT_NE(outcome.errors.find("look-ups in " + vector + " were answered wrongly"), std::string::npos)
        << outcome.errors;
    EXPECT_EQ(outcome.json().at("verified"), false);
    EXPECT_TRUE(
        run(program, arguments({"--system", system, "--in", vector, "--no-verify"})).json().at("verified").is_null());
  }
}

TEST_F(SearchTest, AnInterruptedMakingTakesNoFileOfItsUsers) {
  write_file("work/begun.partial.interrupted", "somebody's");
  const pid_t child = start(program, {"--bytes", "1GiB", "--budget", "16MiB", "--file", path("work/begun"), "--keep"});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (left_behind().size() < 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(::kill(child, SIGTERM), 0);
  EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGTERM);
  EXPECT_EQ(left_behind(), std::vector<std::string>{"begun.partial.interrupted"});
}

TEST_F(SearchTest, AnInterruptedMakingLeavesNothing) {
  for (const char* system : {"tiermap", "mmap"}) {
    const pid_t child = start(program, {"--bytes", "1GiB", "--budget", "16MiB", "--system", system, "--structure",
                                        "unordered", "--file", path("work/begun"), "--keep"});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (left_behind().empty() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_EQ(::kill(child, SIGTERM), 0);
    EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGTERM);
    EXPECT_TRUE(left_behind().empty());
  }
}

}  // namespace
}  // namespace tiermap::test
