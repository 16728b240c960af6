// tiermap-kmer from outside: the same answers on every system, with both indexes and any number of threads; hand-made
// genomes with known answers; what is damaged, cut off or does not belong together is refused with one line.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "apps/program_fixture.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-kmer";
using Words = std::vector<std::string>;

Words operator+(Words words, const Words& further) {
  words.insert(words.end(), further.begin(), further.end());
  return words;
}

class KmerProgramTest : public ProgramTest {
 protected:
  KmerProgramTest() { longest_run_seconds = 120; }

  nlohmann::json report_of(const Words& arguments) const {
    const bool has_budget = std::find(arguments.begin(), arguments.end(), "--budget") != arguments.end();
    const Outcome outcome =
        run(program, arguments + (has_budget ? Words{"--json"} : Words{"--budget", "16MiB", "--json"}));
    EXPECT_EQ(outcome.exit_code, 0) << testing::PrintToString(arguments) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    return outcome.exit_code == 0 ? outcome.json() : nlohmann::json::object();
  }
  std::string contents(const std::string& name) const {
    std::ifstream stream(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }
  /// Overwrites one byte of a file.
  static void set_byte(const std::string& file, std::uint64_t at, char value) {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(value);
  }
  /// Three organisms in two groups, with 5-mers that are easy to follow.
  Words small_input() const {
    write_file("taxonomy", "1\t1\troot\n2\t1\tgroup\n3\t2\tfirst\n4\t2\tsecond\n5\t1\tthird\n");
    write_file("taxa", "one\t3\ntwo\t4\nthree\t5\n");
    write_file("genomes", ">one of the first\nAAAAAAACCC\n>two\r\naaaaacN\r\nGGGCA\r\n>three\nTTGCATT\n");
    return {"--genomes", path("genomes"), "--taxonomy", path("taxonomy"), "--sequence-taxa", path("taxa"), "--k", "5"};
  }
};

TEST_F(KmerProgramTest, EverySystemIndexAndNumberOfThreadsGivesTheSame) {
  const Words input = {"--genome-bases", "3000", "--organisms", "11", "--read-count", "60"};
  for (const std::string work : {"classify", "lookup"}) {
    nlohmann::json digest;
    for (const std::string system : {"tiermap", "mmap", "memory"}) {
      for (const std::string index : {"two-level", "hash"}) {
        // Each number of threads with each index, and with each system.
        const std::string threads = (work == "classify") == (index == "hash") ? "5" : "1";
        const nlohmann::json report =
            report_of(input + Words{"--system", system, "--index", index, "--threads", threads, "--work", work});
        ASSERT_FALSE(report.empty());
        expect_shared_fields(report, "kmer-" + work, system);
        EXPECT_EQ(report.at("verified"), true);
        EXPECT_EQ(report.at("index"), index);
        EXPECT_GT(report.at("kmers_found").get<std::uint64_t>(), 0U);
        EXPECT_TRUE(digest.is_null() || digest == report.at("digest")) << system << index << threads;
        digest = report.at("digest");
        EXPECT_TRUE(left_behind().empty());
      }
    }
  }
}

TEST_F(KmerProgramTest, ReadsGoWhereTheyBelong) {
  const nlohmann::json report = report_of({"--bytes", "2MiB", "--read-count", "2000", "--system", "mmap"});
  EXPECT_EQ(report.at("reads_with_truth"), 2000);
  EXPECT_EQ(report.at("reads"), 2000);
  // Siblings differ in a tenth of their bases: of a hundred bases there are nearly always 18 that tell them apart.
  EXPECT_GT(report.at("right").get<int>(), 1600);
  EXPECT_LT(report.at("wrong").get<int>(), 20);
  const nlohmann::json without_errors =
      report_of({"--bytes", "2MiB", "--read-count", "2000", "--system", "mmap", "--error-rate", "0"});
  EXPECT_EQ(without_errors.at("wrong"), 0);
}

// That is no fault of the program's: what is asked for is wrong bases.
TEST_F(KmerProgramTest, ReadsThatCannotBeToldApartAreNotFoundWrong) {
  const nlohmann::json report = report_of({"--organisms", "16", "--genome-bases", "1000", "--read-count", "400",
                                           "--error-rate", "0.1", "--system", "memory"});
  EXPECT_GT(report.at("wrong").get<int>(), 11);
}

TEST_F(KmerProgramTest, TheSizeIsAboutTheOneAsked) {
  for (const std::string index : {"two-level", "hash"}) {
    for (const std::string organisms : {"1", "64"}) {
      const nlohmann::json report = report_of({"--bytes", "3MiB", "--organisms", organisms, "--index", index,
                                               "--read-count", "10", "--system", "mmap", "--no-verify"});
      EXPECT_NEAR(report.at("bytes").get<double>(), 3 << 20, 300'000) << index << organisms;
    }
  }
}

TEST_F(KmerProgramTest, BuildsADatabaseSeveralTimesItsBudget) {
  for (const std::string index : {"two-level", "hash"}) {
    const Outcome outcome = run(program, {"--bytes", "10MiB", "--budget", "2MiB", "--index", index, "--read-count",
                                          "50", "--threads", "2", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.json().at("verified"), true);
    EXPECT_TRUE(left_behind().empty());
  }
}

TEST_F(KmerProgramTest, AnswersAreThoseDoneByHand) {
  // AAAAA: three times in one, once in two. TTTTG is AAAAC's... CAAAA's other strand; TGCAT is its neighbour ATGCA.
  const std::string kmers = write_file("kmers", "# some\nAAAAA\ntttTT\nGTTTT\nGGGCA\r\nTGCCC\nTGCAA\nCCCCC\n");
  const std::string reads = write_file(
      "reads",
      "@a\nAAAAA\n+\nIIIII\n@b\nAAACCC\n+\nIIIIII\n@c x\nNGGGCAN\n+\nIIIIIII\n@d\nTTGCATTT\n+\nIIIIIIII\n@e\n"
      "CCCCCCC\n+\nIIIIIII\n");
  for (const std::string system : {"tiermap", "mmap", "memory"}) {
    for (const std::string index : {"two-level", "hash"}) {
      const Words common = small_input() + Words{"--system", system, "--index", index, "--output", path("output.txt")};
      EXPECT_EQ(report_of(common + Words{"--work", "lookup", "--kmers", kmers}).at("kmers_found"), 6);
      EXPECT_EQ(contents("output.txt"),
                "AAAAA\t3:3\t4:1\nAAAAA\t3:3\t4:1\nAAAAC\t3:1\t4:1\nGGGCA\t4:1\nGGGCA\t4:1\nTGCAA\t5:1\nCCCCC\n");
      const nlohmann::json report = report_of(common + Words{"--reads", reads});
      EXPECT_EQ(report.at("classified"), 4);
      EXPECT_EQ(report.at("verified"), true);
      EXPECT_EQ(
          contents("output.txt"),
          "a\t2\tgroup\t1\t1\nb\t3\tfirst\t2\t2\nc\t4\tsecond\t1\t1\nd\t5\tthird\t3\t4\ne\t0\tunclassified\t0\t3\n");
    }
  }
}

TEST_F(KmerProgramTest, KeepsADatabaseAndUsesItAgain) {
  const std::string database = path("work/database");
  const Words input = small_input();
  const Words build = input + Words{"--database", database, "--build-only"};
  const nlohmann::json built = report_of(build);
  EXPECT_EQ(built.at("workload"), "kmer-build");
  EXPECT_EQ(built.at("file"), database);
  EXPECT_EQ(built.at("sequences"), 3);
  EXPECT_EQ(left_behind(), Words{"database"});
  const std::string reads = write_file("reads", ">a taxonomy=3\nAAAAACCC\n");
  for (const char* option : {"--database", "--file"}) {
    const nlohmann::json report = report_of({option, database, "--reads", reads, "--system", "mmap"});
    EXPECT_EQ(report.at("right"), 1);
    EXPECT_EQ(report.at("kmers"), built.at("kmers"));
    EXPECT_EQ(left_behind(), Words{"database"});
  }
  const auto refuse = [&](const Words& arguments, const std::string& part) {
    expect_refused(program, arguments, part, 1);
  };
  refuse(build, "exists");
  refuse({"--database", database}, "--reads");
  refuse({"--database", database, "--reads", reads, "--k", "6"}, "of k 5, and --k asks for 6");
  refuse({"--database", database, "--reads", reads, "--index", "hash"}, "index two-level");
  refuse({"--database", database, "--reads", reads, "--bytes", "1GiB"},
         "nothing is generated, as there is " + database);
}

TEST_F(KmerProgramTest, TheSeedDecidesTheDatabaseAndThreadsDoNot) {
  for (const std::string index : {"two-level", "hash"}) {
    Words files;
    for (const std::string threads : {"1", "7"}) {
      const std::string name = "work/" + index + threads;
      report_of({"--bytes", "2MiB", "--index", index, "--threads", threads, "--database", path(name), "--build-only",
                 "--budget", "2MiB"});
      files.push_back(contents(name));
    }
    EXPECT_FALSE(files[0].empty());
    EXPECT_EQ(files[0], files[1]);
  }
  const Words small = {"--bytes", "1MiB", "--system", "mmap", "--read-count", "50"};
  EXPECT_NE(report_of(small).at("digest"), report_of(small + Words{"--seed", "2"}).at("digest"));
}

TEST_F(KmerProgramTest, WhatIsGeneratedIsReadLikeAnyInput) {
  const std::string folder = path("work/input");
  const Words small = {"--bytes", "1MiB", "--read-count", "100"};
  EXPECT_EQ(report_of(small + Words{"--generate", folder}).at("workload"), "kmer-generate");
  const nlohmann::json report =
      report_of({"--genomes", folder + "/genomes.fasta", "--taxonomy", folder + "/taxonomy.tsv", "--sequence-taxa",
                 folder + "/sequence-taxa.tsv", "--reads", folder + "/reads.fastq", "--system", "mmap"});
  EXPECT_EQ(report.at("digest"), report_of(small).at("digest"));
  expect_refused(program, {"--generate", folder}, "exists", 1);
  EXPECT_EQ(report_of(small + Words{"--generate", path("work/slash/")}).at("workload"), "kmer-generate");
  EXPECT_EQ(left_behind(), (Words{"input", "slash"}));
}

TEST_F(KmerProgramTest, AFolderHasItsNameOnceItIsWhole) {
  const std::string folder = path("work/input");
  for (const int signal : {SIGTERM, SIGKILL}) {
    const pid_t child = start(program, {"--bytes", "1GiB", "--generate", folder});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!std::filesystem::exists(folder + ".partial/genomes.fasta") && !std::filesystem::exists(folder) &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(::kill(child, signal), 0);
    EXPECT_EQ(outcome_of(child).exit_code, 128 + signal);
    EXPECT_EQ(left_behind(), signal == SIGTERM ? Words{} : Words{"input.partial"});
  }
  expect_refused(program, {"--generate", folder}, "input.partial is there: a run that was killed has left it", 1);
}

TEST_F(KmerProgramTest, WorksInStoresThatAreNoPlainPath) {
  for (const std::string& url : {std::string("memory:16MiB"), "file:" + path("work/database") + "?direct=off",
                                 "sparse://" + path("work/database")}) {
    // How many slots a hash index has at its end only its making tells.
    for (const Words& index : {Words{"two-level", "--seed", "1"}, Words{"hash", "--seed", "1"},
                               Words{"hash", "--seed", "2"}, Words{"hash", "--seed", "3"}}) {
      const nlohmann::json report =
          report_of(Words{"--bytes", "1MiB", "--read-count", "50", "--file", url, "--index"} + index);
      EXPECT_EQ(report.value("verified", false), true) << url;
      EXPECT_TRUE(left_behind().empty()) << url;
    }
  }
}

TEST_F(KmerProgramTest, RefusesBadOptions) {
  const auto refuse = [&](const Words& arguments, const std::string& part) {
    expect_refused(program, arguments, part);
  };
  const std::string some = write_file("some", ">a\nACGTACGT\n");
  refuse({"--k", "3"}, "k 3");
  refuse({"--k", "32"}, "4 to 31");
  refuse({"--index", "tree"}, "two-level or hash");
  refuse({"--work", "play"}, "classify or lookup");
  refuse({"--lookups", "0"}, "lookups 0");
  refuse({"--organisms", "0"}, "organisms 0");
  refuse({"--genome-bases", "10"}, "genome bases 10");
  refuse({"--read-count", "x"}, "read count x");
  refuse({"--read-bases", "0"}, "read bases 0");
  refuse({"--error-rate", "1"}, "error rate 1");
  refuse({"--bytes", "1KiB"}, "--organisms");
  refuse({"--build-only"}, "--database");
  refuse({"--database", "a", "--file", "b"}, "choose one");
  refuse({"--genomes", some}, "give all three");
  refuse({"--reads", some}, "--database");
  refuse({"--reads", some, "--database", path("none")}, "not there");
  refuse({"--kmers", some}, "--work lookup");
  refuse({"--work", "lookup", "--kmers", some, "--reads", some}, "choose one");
  refuse(small_input(), "nothing says what to look up");
  refuse({"--genome-bases", "1000", "--bytes", "1GiB"}, "both say how much is generated");
  for (const std::string option : {"--organisms", "--genome-bases", "--read-count", "--read-bases", "--error-rate"}) {
    refuse(small_input() + Words{"--reads", some, option, "500"}, "nothing is generated, as there is");
  }
  refuse({"--generate", path("work/x"), "--reads", some}, "leave out");
  refuse({"--generate", path("work/x"), "--output", path("work/y")}, "leave out");
  refuse({"--generate", path("none/x")}, "none/x");
  refuse({"--output", path("none/x")}, "none/x cannot be written");
  refuse({"--system", "mmap", "--file", "sparse://" + path("none")}, "--system tiermap");
}

TEST_F(KmerProgramTest, RefusesInputThatDoesNotBelongTogetherByFileAndLine) {
  const Words input = small_input();
  const std::string reads = write_file("reads", "@r\nAAAAAA\n+\nIIIIII\n");
  const auto refuse = [&](const std::string& name, const std::string& text, const std::string& part) {
    const std::string before = contents(name);
    write_file(name, text);
    expect_refused(program, input + Words{"--reads", reads, "--database", path("work/database")}, part);
    write_file(name, before);
  };
  refuse("genomes", ">one\nAAAAAA\n>two\nCCCCC\n>one\nAAA\n", "genomes:5: sequence 'one' was at");
  refuse("genomes", ">one\nAAAAAA\n>four\nCCCCC\n", "genomes:3: nobody says of which taxon");
  refuse("genomes", ">one\nAAAA\n>two\nCCNCC\n", "no sequence has 5 known bases");
  refuse("genomes", ">one\nAAAAAA\n>two\n", "genomes:3: sequence 'two' has no bases");
  refuse("genomes", "\x1f\x8b\x08", "gunzip");
  refuse("genomes", "", "genomes:1:");
  refuse("taxa", "one\t3\ntwo\t9\n", "taxa:2:");
  refuse("taxonomy", "1\t1\troot\n2\t7\tlost\n", "taxonomy:2:");
  // As a file that is reserved, or no text, would be taken into memory whole.
  refuse("taxonomy", "1\t1\troot\n2\t1\t" + std::string(std::size_t{2} << 20U, 'a'), "taxonomy:2: the line has no end");
  refuse("reads", "@r\nAAAAAA\n+\nIII\n", "reads:4:");
  // A database that was asked for and is whole stays, whatever the reads hold then.
  write_file("reads", "@r\nAAA\n+\nIII\n@s\nA\n+\nI\n");
  expect_refused(program, input + Words{"--reads", reads, "--database", path("work/database")},
                 "reads:1: 2 reads are shorter than k, which is 5", 1);
  EXPECT_EQ(left_behind(), Words{"database"});
}

TEST_F(KmerProgramTest, SaysOnceThatSomeReadsAreTooShort) {
  const std::string reads = write_file("reads", "@r\nAAAAAA\n+\nIIIIII\n@s\nA\n+\nI\n@t\nAAC\n+\nIII\n");
  const Outcome outcome = run(program, small_input() + Words{"--reads", reads, "--json"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
  EXPECT_NE(outcome.errors.find("reads:5: 2 reads are shorter"), std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.json().at("short_reads"), 2);
  expect_refused(program, small_input() + Words{"--work", "lookup", "--reads", write_file("reads", ">r\nACGT\n")},
                 "no read has 5 known bases");
  for (const std::string text : {"AAAA\n", "AAAAAA\n", "AAAAA CCCCC\n", "AANAA\n", "AAAAA\nhello\n"}) {
    expect_refused(program, small_input() + Words{"--work", "lookup", "--kmers", write_file("kmers", text)}, "kmers:");
  }
}

TEST_F(KmerProgramTest, RefusesDamagedDatabases) {
  const std::string database = path("work/database");
  report_of(small_input() + Words{"--database", database, "--build-only"});
  const std::string sound = path("sound");
  std::filesystem::copy_file(database, sound);
  const std::string reads = write_file("reads", ">r\nAAAAAAACCC\n");
  const auto refuse = [&](const std::string& part) {
    for (const char* system : {"tiermap", "mmap", "memory"}) {
      expect_refused(program, {"--system", system, "--budget", "16MiB", "--database", database, "--reads", reads}, part,
                     1);
    }
    std::filesystem::copy_file(sound, database, std::filesystem::copy_options::overwrite_existing);
  };
  std::filesystem::resize_file(database, std::filesystem::file_size(database) - 1);
  refuse("cut off");
  std::filesystem::resize_file(database, 100);
  refuse("too short");
  set_byte(database, 0, 'X');
  refuse("not a database");
  set_byte(database, 8, 2);
  refuse("version 2");
  set_byte(database, 12, 6);  // k
  refuse("damaged header");
  set_byte(database, 4096 + 8, 100);  // The length of a name.
  refuse("work/database is damaged behind its header");
  set_byte(database, 3 * 4096 + 7, 1);  // Where the first k-mers begin.
  refuse("work/database is damaged behind its header");
  set_byte(database, 4 * 4096 + 15, 1);  // Where the first k-mer's list is.
  refuse("work/database is damaged behind its header");
}

TEST_F(KmerProgramTest, TheOutputTakesNoPlaceButAnOutputs) {
  const std::string database = path("work/database");
  const std::string reads = write_file("reads", "@r\nAAAAAA\n+\nIIIIII\n");
  ASSERT_EQ(run(program, small_input() + Words{"--database", database, "--build-only"}).exit_code, 0);
  const std::string bytes = contents("work/database");
  const Words common{"--database", database, "--reads", reads, "--output"};
  expect_refused(program, common + Words{database}, "is what --database names", 1);
  expect_refused(program, common + Words{path("work/../work/database")}, "is what --database names", 1);
  expect_refused(program, {"--database", "file:" + database, "--reads", reads, "--output", database},
                 "is what --database names", 1);
  expect_refused(program, common + Words{reads}, "is what --reads names", 1);
  expect_refused(program, small_input() + Words{"--reads", reads, "--output", path("genomes")}, "--genomes", 1);
  expect_refused(program, {"--database", database, "--work", "lookup", "--kmers", reads, "--output", reads}, "--kmers",
                 1);
  EXPECT_EQ(contents("work/database"), bytes);
  EXPECT_EQ(contents("reads").front(), '@');

  // A link leads to the file that is replaced; what is no plain file, such as /dev/stdout, is written where it is.
  write_file("results", "earlier");
  std::filesystem::create_symlink(path("results"), path("link"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  for (const char* output : {"link", "pipe"}) {
    EXPECT_EQ(run(program, common + Words{path(output)}).exit_code, 0) << output;
  }
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
  std::string piped(4096, '\0');
  piped.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(reader, piped.data(), piped.size()), 0)));
  ::close(reader);
  EXPECT_EQ(piped, contents("results"));
  EXPECT_EQ(piped.substr(0, 2), "r\t");
}

TEST_F(KmerProgramTest, WhoeverEndsItFindsNoPartialDatabase) {
  const std::string database = path("work/database");
  for (const int signal : {SIGTERM, SIGKILL}) {
    const pid_t child = start(program, {"--bytes", "64MiB", "--database", database, "--build-only"});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!std::filesystem::exists(database + ".runs") && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(::kill(child, signal), 0);
    EXPECT_EQ(outcome_of(child).exit_code, 128 + signal);
    EXPECT_FALSE(std::filesystem::exists(database));
    EXPECT_EQ(left_behind().empty(), signal == SIGTERM);
  }
  std::filesystem::remove(database + ".partial");  // There if the runs were done by then.
  expect_refused(program, {"--bytes", "1MiB", "--database", database, "--build-only"},
                 "database.runs is there: a run that was killed has left it", left_behind().size());
}

TEST_F(KmerProgramTest, WhatIsSaidWhereNobodyListensIsNotInTheOutput) {
  const std::string database = path("work/database");
  ASSERT_EQ(run(program, small_input() + Words{"--database", database, "--build-only"}).exit_code, 0);
  const std::string reads = write_file("reads", ">long\nAAAAAAAC\n>short\nAC\n");
  const Outcome outcome = run("/bin/sh", {"-c", "\"$0\" \"$@\" 2>&-", TIERMAP_BINARY_FOLDER "/tiermap-kmer",
                                          "--database", database, "--reads", reads, "--output", path("results")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(contents("results"), "long\t2\tgroup\t4\t4\nshort\t0\tunclassified\t0\t0\n");
}

TEST_F(KmerProgramTest, WhoStopsReadingTheOutputFindsNothingLeftBehind) {
  // Whoever reads has ended long before there is anything to read.
  const std::string words = "{ \"$0\" --bytes 1MiB --organisms 4 --output /dev/stdout 2>\"$1\"; echo $? >\"$2\"; } | :";
  const Outcome outcome =
      run("/bin/sh", {"-c", words, TIERMAP_BINARY_FOLDER "/tiermap-kmer", path("said"), path("code")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(contents("code"), "1\n");
  EXPECT_NE(contents("said").find("/dev/stdout cannot be written to the end"), std::string::npos) << contents("said");
  EXPECT_TRUE(left_behind().empty()) << testing::PrintToString(left_behind());
}

}  // namespace
}  // namespace tiermap::test
