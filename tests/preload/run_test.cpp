// `tiermap run` itself: it becomes the program, chooses what is served, and says what it cannot do.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "preload/glob.hpp"
#include "preload/run_fixture.hpp"

namespace tiermap {
namespace {

TEST_F(RunTest, ExitCodesAndStreamsAreTheProgramsOwn) {
  for (const char* command : {"sh -c 'echo out; echo err >&2; exit 7'", "sh -c 'kill -TERM $$'", "cat", "true", "false",
                              "sh -c 'sh -c \"exit 3\"; echo $?'", "printenv HOME"}) {
    const ProgramResult plain = runs_.plain(command);
    const ProgramResult result = run(std::string("-- ") + command);
    EXPECT_EQ(result.exit_code, plain.exit_code) << command;
    EXPECT_EQ(result.output, plain.output) << command;
    EXPECT_EQ(result.errors, plain.errors) << command;
  }
}

// What is said costs the program nothing.
TEST_F(RunTest, WhatIsSaidToNobodyEndsNoProgram) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::close(ends[0]);
  const std::string nobody = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(ends[1]);
  const ProgramResult result = run("--report --verbose --serve-all -- " + mapping_case() + " 2>" + nobody);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, runs_.plain(mapping_case()).output);
  ::close(ends[1]);
}

// What it lacks would be missed by whatever program calls it first: it does not link then.
TEST_F(RunTest, TheLibraryLacksNothing) {
  const std::string library = std::string(TIERMAP_BINARY_FOLDER) + "/../lib/libtiermap-preload.so";
  const ProgramResult result = runs_.plain("env LD_BIND_NOW=1 LD_PRELOAD=" + library + " /bin/true");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(result.errors, "");
}

TEST_F(ServedRunTest, AVariableThatIsMisspeltIsNamedOnce) {
  const ProgramResult result = runs_.plain("env TIERMAP_PAGESIZE=4KiB " + runs_.tiermap() + " -- sh -c '" +
                                           mapping_case() + "; " + mapping_case() + "'");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.errors, "tiermap: TIERMAP_PAGESIZE is set, and nothing reads it: did you mean TIERMAP_PAGE_SIZE?\n");
}

// Pages as small as what is written show what of it was not seen.
TEST_F(ServedRunTest, RecordsOfThreadsAreSeenInSmallPages) {
  const std::string command = program + " records_at_one_position " + runs_.path("file");
  const ProgramResult result = run("--serve-all --buffer 32MiB --page-size 4KiB --minimum-size 64KiB -- " + command);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, "seen: ok\n");
}

// The thread that adapts the budget reads files of the system's while a program's thread waits for its end.
TEST_F(ServedRunTest, ABudgetThatAdaptsIsNoneThatWaits) {
  for (int round = 0; round < 5; ++round) {
    const ProgramResult result = runs_.plain("env TIERMAP_ADAPT=true TIERMAP_ADAPT_PERIOD=10 " + runs_.tiermap() +
                                             " -- " + program + " engine_ends_again " + runs_.path("file"));
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(result.output, "all rounds: ok\n");
  }
}

TEST_F(RunTest, SaysWhatCannotBeRun) {
  expect_refusal("-- no-such-program-anywhere", 127, "not found");
  expect_refusal("-- /etc/passwd", 126, "cannot be run");
  expect_refusal("-- " + runs_.path(""), 126, " is a directory: name a program");
  expect_refusal("--report r2.txt -- true", 2, "give --report=r2.txt");
  expect_refusal("--report r2.txt --serve-all -- true", 2, "give --report=r2.txt");
  expect_refusal("", 2, "COMMAND");
  expect_refusal("--buffer 5parsecs -- true", 2, "--buffer '5parsecs'");
  expect_refusal("--buffer '' -- true", 2, "--buffer ''");
  expect_refusal("--page-size 5000 -- true", 2, "--page-size '5000'");
  expect_refusal("--policy newest -- true", 2, "--policy 'newest'");
  expect_refusal("--bufer 1GiB -- true", 2, "unknown option '--bufer'");
  expect_refusal("true --verbos", 2, "unknown option '--verbos'");
  expect_refusal("--report --buffer 1GiB echo --verbose", 2, "'--verbose' stands behind the program");
  expect_refusal("--minimum-size some -- true", 2, "some");
  expect_refusal("--match '' -- true", 2, "--match '' names no file");
  expect_refusal("--match= --serve-all -- true", 2, "'--match=' has no value");
  expect_refusal("--buffer= -- true", 2, "'--buffer=' has no value");
  expect_refusal("--match -- true", 2, "--match '--' names no file");
  expect_refusal("--exclude 'one\ntwo' -- true", 2, "--exclude");
}

TEST_F(RunTest, ProgramsThatCannotBeServed) {
  const std::string still = runs_.path("still");
  std::ofstream(runs_.path("still.c")) << "int main(void) { return 5; }\n";
  if (runs_.plain("cc -static -o still still.c").exit_code != 0) {
    GTEST_SKIP() << "no static C library here";
  }
  expect_refusal("-- " + still, 2, "is linked statically");
  const ProgramResult anyway = run("--anyway -- " + still);
  EXPECT_EQ(anyway.exit_code, 5);
  EXPECT_NE(anyway.errors.find("it runs without Tiermap"), std::string::npos);
  std::ofstream(runs_.path("script")) << "#!" << still << "\n";
  std::filesystem::copy_file(runs_.path("script"), runs_.path("named"));
  ::chmod(runs_.path("named").c_str(), 0755);
  expect_refusal("-- " + runs_.path("named"), 2, "is linked statically");
}

// As a program of Go's with C in it: it has the section that Go's linker writes, and ends without the C library.
TEST_F(ServedRunTest, OfAProgramInGoNothingIsServed) {
  std::ofstream(runs_.path("go.c")) << R"(#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
__attribute__((used, section(".go.buildinfo"))) static const char made_by[] = "Go buildinf:";
int main(void) {
  const int file = open("stored", O_RDWR | O_CREAT, 0600);
  if (ftruncate(file, 4 << 20) != 0) return 1;
  memset(mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), 'g', 4 << 20);
  syscall(SYS_exit_group, 0);
}
)";
  ASSERT_EQ(runs_.plain("cc -o go go.c").exit_code, 0);
  for (const char* command : {"./go", "sh -c './go; true'"}) {
    std::remove(runs_.path("stored").c_str());
    const ProgramResult result = run(std::string("--serve-all --verbose -- ") + command);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.errors.find("written in Go, and calls the kernel itself"), std::string::npos) << result.errors;
    EXPECT_EQ(contents_of(runs_.path("stored")), std::string(4 << 20, 'g')) << command;
  }
  EXPECT_EQ(run("--report -- ./go").errors,
            "tiermap: ./go is written in Go, and calls the kernel itself: nothing of it is served\n");
  EXPECT_EQ(run("-- ./go").errors, "");
}

TEST_F(RunTest, AScriptThatNamesNoInterpreterIsTheShells) {
  std::ofstream(runs_.path("script.sh")) << "echo \"$0\" $#; exit 3\n";
  ::chmod(runs_.path("script.sh").c_str(), 0755);
  const ProgramResult result = run("-- " + runs_.path("script.sh") + " one two");
  EXPECT_EQ(result.exit_code, 3) << result.errors;
  EXPECT_EQ(result.output, runs_.path("script.sh") + " 2\n");
}

TEST_F(RunTest, ProgramsWithOtherRights) {
  std::filesystem::copy_file("/bin/true", runs_.path("other"));
  constexpr uid_t nobody = 65534;
  if (::chown(runs_.path("other").c_str(), nobody, nobody) != 0) {
    GTEST_SKIP() << "only root can make a set-user-ID program of another's";
  }
  ::chmod(runs_.path("other").c_str(), 04755);
  expect_refusal("-- " + runs_.path("other"), 2, "other rights");
}

TEST_F(ServedRunTest, ChoosesWhatIsServed) {
  const auto serves = [&](const std::string& options) {
    const ProgramResult result = run("--serve-all --buffer 16MiB --verbose " + options + " -- " + mapping_case());
    EXPECT_EQ(result.exit_code, 0);
    return result.errors.find("tiermap: serves " + runs_.path("file")) != std::string::npos;
  };
  EXPECT_TRUE(serves(""));
  EXPECT_TRUE(serves("--match '**/file'"));
  EXPECT_TRUE(serves("--match other --match 'f*'"));
  EXPECT_FALSE(serves("--match '/nowhere/**'"));
  EXPECT_TRUE(serves("--match ./file")) << "from the working directory on";
  EXPECT_TRUE(serves("--match '../*/f?le'"));
  EXPECT_FALSE(serves("--match nowhere/file"));
  std::filesystem::create_symlink("file", runs_.path("link"));
  std::filesystem::create_directory_symlink(".", runs_.path("folder"));
  EXPECT_TRUE(serves("--match ./link")) << "what it leads to";
  EXPECT_TRUE(serves("--match './folder/f?le'"));
  EXPECT_TRUE(serves("--match '" + runs_.path("folder") + "/**'"));
  EXPECT_FALSE(serves("--match './l?nk'"));
  EXPECT_FALSE(serves("--exclude folder/link"));
  EXPECT_FALSE(serves("--exclude ./file"));
  EXPECT_FALSE(serves("--exclude file"));
  EXPECT_FALSE(serves("--minimum-size 5MiB"));
  EXPECT_TRUE(serves("--read-only"));
}

TEST_F(ServedRunTest, LeavesWhatFitsToTheKernel) {
  const auto leaves = [&](const std::string& options, const std::string& name = "read_shared") {
    const ProgramResult result =
        run("--verbose --page-size 64KiB " + options + " -- " + program + " " + name + " " + runs_.path("file"));
    EXPECT_EQ(result.exit_code, 0);
    return result.errors.find("to the kernel: it fits in memory") != std::string::npos;
  };
  EXPECT_TRUE(leaves("--buffer 8MiB"));
  EXPECT_FALSE(leaves("--buffer 7MiB"));
  EXPECT_FALSE(leaves("--buffer 8MiB --serve-all"));
  EXPECT_FALSE(leaves("--buffer 1GiB", "write_shared")) << "what can be written may grow";
}

TEST_F(ServedRunTest, WhatFitsLeavesAPartOfTheBufferForWhatDoesNot) {
  std::ofstream(runs_.path("program.py")) << R"(
import mmap
with open("file", "rb") as file:
    assert mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)[-1] == 0
)";
  std::ofstream(runs_.path("file")) << "";
  // An eighth, but 16 MiB at least, and of a small one half.
  for (const auto& [buffer, most] : {std::pair{24, 12}, {48, 32}, {128, 112}, {160, 140}}) {
    for (const int size : {most, most + 1}) {
      std::filesystem::resize_file(runs_.path("file"), std::uintmax_t(size) << 20U);
      const ProgramResult result =
          run("--verbose --buffer " + std::to_string(buffer) + "MiB -- /usr/bin/python3 " + runs_.path("program.py"));
      EXPECT_EQ(result.exit_code, 0) << result.errors;
      const bool left = result.errors.find("to the kernel: it fits in memory") != std::string::npos;
      EXPECT_EQ(left, size == most) << buffer << " " << size << "\n" << result.errors;
    }
  }
}

TEST_F(ServedRunTest, WhatFitsAndWhatIsServedShareTheBuffer) {
  // The third is small enough for the half, but not together with the first, which may come again.
  const std::string report = report_of_python(R"(
import mmap
for name, size in (("first", 5), ("second", 20), ("third", 4), ("first", 5)):
    with open(name, "wb") as file:
        file.write(bytes([size]) * (size << 20))
    with open(name, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        assert sum(data[::4096]) == size * size * 256
)");
  for (const char* part : {"2 mappings served, 24.0 MiB", "budget of 11.0 MiB", "  2: it fits in memory",
                           "has a part of the buffer to itself: with --serve-all"}) {
    EXPECT_NE(report.find(part), std::string::npos) << report;
  }
}

TEST_F(ServedRunTest, WhatFittedAndIsUnmappedTakesNothingOfTheBuffer) {
  const std::string report = report_of_python(R"(
import mmap
for name, size in (("first", 7), ("second", 24), ("first", 7)):
    with open(name, "wb") as file:
        file.write(bytes([size]) * (size << 20))
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        assert sum(data[::4096]) == size * size * 256
)");
  for (const char* part : {"2 mappings served, 31.0 MiB", "budget of 16.0 MiB", "  1: it fits in memory"}) {
    EXPECT_NE(report.find(part), std::string::npos) << report;
  }
}

TEST_F(ServedRunTest, WhatFitsIsLessBesideAnEngineThatRuns) {
  // The engine starts for what can be written; then the buffer is its alone.
  const std::string report = report_of_python(R"(
import mmap
for name, size, access in (("first", 4, mmap.ACCESS_WRITE), ("second", 3, mmap.ACCESS_READ)):
    with open(name, "wb") as file:
        file.write(bytes(size << 20))
    with open(name, "r+b" if access == mmap.ACCESS_WRITE else "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=access)
        assert sum(data[::4096]) == 0
)");
  EXPECT_NE(report.find("2 mappings served"), std::string::npos) << report;
}

TEST_F(ServedRunTest, WindowsOfALargeFileDoNotFit) {
  const std::string report = report_of_python(R"(
import mmap
with open("large", "wb") as file:
    file.write(bytes(24 << 20))
with open("large", "rb") as file:
    windows = [mmap.mmap(file.fileno(), 2 << 20, access=mmap.ACCESS_READ, offset=at << 20) for at in range(0, 24, 2)]
    assert sum(sum(window[::4096]) for window in windows) == 0
)");
  EXPECT_NE(report.find("12 mappings served"), std::string::npos) << report;
}

// What was looked at before is served when it has grown, and nobody maps it any more.
TEST_F(ServedRunTest, AFileThatTheKernelMappedOnceCanBeServed) {
  const std::string report = report_of_python(R"(
import mmap
with open("file", "wb") as file:
    file.write(bytes(1 << 20))
with open("file", "r+b") as file:
    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ).close()
    file.truncate(32 << 20)
    with mmap.mmap(file.fileno(), 0) as data:
        data[31 << 20] = 7
with open("file", "rb") as file:
    file.seek(31 << 20)
    assert file.read(1) == bytes([7])
)");
  EXPECT_NE(report.find("1 mapping served"), std::string::npos) << report;
}

// As SQLite's does: it begins with a page or two of a new database. It grows where it is, or elsewhere.
TEST_F(ServedRunTest, AMappingThatGrowsIsReportedAsLongAsItBecame) {
  const std::string report = report_of_python(R"(
import mmap
with open("file", "w+b") as file:
    file.truncate(1 << 20)
    with mmap.mmap(file.fileno(), 0) as data:
        for size in (2, 3, 8, 24, 64):
            data.resize(size << 20)
            data[(size << 20) - 1] = 7
)");
  EXPECT_NE(report.find("1 mapping served, 64.0 MiB of addresses"), std::string::npos) << report;
}

TEST_F(RunTest, TheReportIsWhereItWasAskedFor) {
  const std::string folder = runs_.path("elsewhere");
  const ProgramResult result = run("--report=here -- sh -c 'mkdir " + folder + " && cd " + folder + " && exec true'");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(contents_of(runs_.path("here")).find("it mapped no file"), std::string::npos);
  EXPECT_EQ(contents_of(folder + "/here"), "");
}

// A pattern that is wrong is seen.
TEST_F(RunTest, AReportThatCannotBeWrittenIsRefusedBeforeTheProgramRuns) {
  const std::string file = runs_.path("file");
  std::ofstream(file) << "x";
  for (const std::string& place : {runs_.path("missing") + "/report", runs_.path(""), file + "/report"}) {
    expect_refusal("--report=" + place + " -- touch " + runs_.path("ran"), 2, " cannot be written: ");
  }
  EXPECT_FALSE(std::filesystem::exists(runs_.path("ran")));
}

TEST_F(RunTest, ReportsAlsoWhereNothingIsServed) {
  const auto report = [&](const std::string& options, const std::string& command) {
    const ProgramResult result = run("--report " + options + " " + command);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.errors.find("0 mappings served"), std::string::npos) << result.errors;
    return result.errors;
  };
  EXPECT_NE(report("--match '/nowhere/**' --", mapping_case()).find("  1: no --match names it"), std::string::npos);
  EXPECT_NE(report("--exclude file --", mapping_case()).find("  1: an --exclude names it"), std::string::npos);
  EXPECT_NE(report("--minimum-size 5MiB --", mapping_case()).find("  1: smaller than --min"), std::string::npos);
  const auto advice = [&](const std::string& options, const std::string& command) {
    const std::string said = report(options, command);
    const std::size_t start = said.find("nothing was served: try ");
    return start == std::string::npos ? "" : said.substr(start + 24, said.find('\n', start) - start - 24);
  };
  EXPECT_EQ(advice("--minimum-size 5MiB --", mapping_case()), "--minimum-size 4KiB, --serve-all");
  EXPECT_EQ(advice("--serve-all --minimum-size 5MiB --", mapping_case()), "--minimum-size 4KiB");
  EXPECT_EQ(advice("--buffer 64MiB --", mapping_case()), "--serve-all");
  const std::string of_file = "--match with a pattern of " + runs_.path("file");
  EXPECT_EQ(advice("--match '/nowhere/**' --buffer 1GiB --", mapping_case()), of_file + ", --serve-all");
  EXPECT_EQ(advice("--match '/nowhere/**' --buffer 4MiB --", mapping_case()), of_file);
  EXPECT_EQ(advice("--match '/nowhere/**' --serve-all --", mapping_case()), of_file);
  EXPECT_EQ(advice("--match '/nowhere/**' --minimum-size 5MiB --", mapping_case()),
            of_file + ", --minimum-size 4KiB, --serve-all");
  EXPECT_EQ(advice("--exclude file --minimum-size 5MiB --", mapping_case()),
            "--minimum-size 4KiB, --serve-all, without that --exclude");
  EXPECT_EQ(advice("--match file --minimum-size 5MiB --", mapping_case()), "--minimum-size 4KiB, --serve-all");
  EXPECT_EQ(advice("--exclude file --buffer 1GiB --", mapping_case()), "--serve-all, without that --exclude");
  EXPECT_EQ(advice("--", "cat /dev/null"), "");
  EXPECT_NE(report("--match '/nowhere/**' --minimum-size 5MiB --", mapping_case())
                .find("  1: smaller than --minimum-size, and no --match names it"),
            std::string::npos);
  EXPECT_EQ(run("--verbose --minimum-size 5MiB -- " + mapping_case()).errors,
            "tiermap: leaves mappings to the kernel that are smaller than --minimum-size\n");
  // It closes standard error before its end; and the word behind --report is the program.
  EXPECT_NE(report("", "cat /dev/null").find("it mapped no file"), std::string::npos);
  const std::string one = report("--", "sh -c 'cat /dev/null; exec cat /dev/null'");
  EXPECT_EQ(one.find("served"), one.rfind("served")) << one;
}

// A file of some bytes, as one tries first, is smaller than the size that serves all others.
TEST_F(ServedRunTest, TheSizeThatIsAdvisedServesAFileOfSomeBytes) {
  std::ofstream(runs_.path("note")) << "a few bytes";
  std::ofstream(runs_.path("program.py")) << "import mmap\n"
                                             "note = open('note')\n"
                                             "mmap.mmap(note.fileno(), 0, prot=mmap.PROT_READ)\n";
  const std::string command = "/usr/bin/python3 program.py";
  for (const char* options : {"", "--minimum-size 4KiB "}) {
    const std::string report = run(std::string("--report --serve-all ") + options + "-- " + command).errors;
    EXPECT_NE(report.find("nothing was served: try --minimum-size 1\n"), std::string::npos) << report;
  }
  const std::string report = run("--report --serve-all --minimum-size 1 -- " + command).errors;
  EXPECT_NE(report.find("1 mapping served"), std::string::npos) << report;
}

TEST_F(RunTest, WhatIsTheKernelsInAnySizeIsNotSaidToBeSmall) {
  std::ofstream(runs_.path("log.db")) << "x";
  const std::string index = runs_.path("log.db-shm");
  const std::string report = run("--report --minimum-size 5MiB -- " + program + " read_shared " + index).errors;
  EXPECT_NE(report.find("  1: it belongs to a database of SQLite's"), std::string::npos) << report;
  EXPECT_EQ(report.find("--minimum-size"), std::string::npos) << report;
}

TEST_F(ServedRunTest, ABufferThatServesNothingIsSaidToBeTooSmall) {
  const std::string report = run("--report --serve-all --buffer 64KiB --page-size 64KiB -- " + mapping_case()).errors;
  EXPECT_NE(report.find("nothing was served: try --buffer 4MiB\n"), std::string::npos) << report;
}

TEST_F(RunTest, PatternsAreAsInAShell) {
  using preload::matches;
  EXPECT_TRUE(matches("/data/**", "/data/a/b/c.bin"));
  EXPECT_TRUE(matches("/data/*.bin", "/data/a.bin"));
  EXPECT_FALSE(matches("/data/*.bin", "/data/a/b.bin"));
  EXPECT_TRUE(matches("/data/**/*.bin", "/data/b.bin"));
  EXPECT_TRUE(matches("/data/**/*.bin", "/data/a/c/b.bin"));
  EXPECT_TRUE(matches("*.db", "/anywhere/at/all.db"));
  EXPECT_TRUE(matches("part-[0-9]?", "/x/part-42"));
  EXPECT_FALSE(matches("part-[!0-9]?", "/x/part-42"));
  EXPECT_FALSE(matches("", "/x"));
  EXPECT_TRUE(matches("[", "/x/["));
  EXPECT_FALSE(matches("/data", "/data/"));
  EXPECT_TRUE(matches("/x/a**/b", "/x/ab"));
  EXPECT_FALSE(matches("*a", "/x/a/b"));
  // Not all the ways in which the stars may share it are tried.
  const std::string name(200, 'a');
  EXPECT_FALSE(matches("*a*a*a*a*a*a*a*a*a*a*a*a*b", "/x/" + name));
  EXPECT_TRUE(matches("/**/*a*a*a*a*a*a*a*a*a*a*a*a*b", "/x/" + name + "b"));
}

TEST_F(ServedRunTest, ReportsAndGoesOnInChildren) {
  const ProgramResult result = runs_.served("sh -c '" + mapping_case() + " >first; " + mapping_case() + "'");
  EXPECT_EQ(result.exit_code, 0);
  for (const char* part : {"1 mapping served", "faults; ", "4.00 MiB read", "budget of 16.0 MiB"}) {
    EXPECT_NE(result.report.find(part), std::string::npos) << result.report;
  }
  EXPECT_NE(result.report.find("served"), result.report.rfind("served")) << "a report for each process";
  const ProgramResult on_standard_error = run("--serve-all --buffer 16MiB --report -- " + mapping_case());
  EXPECT_NE(on_standard_error.errors.find("1 mapping served"), std::string::npos);
}

// Which setting would have suited, by the name that the command line gives it.
TEST_F(ServedRunTest, AdvisesByOptions) {
  std::ofstream(runs_.path("program.py")) << R"(
import mmap, random
with open("data", "wb") as file:
    file.write(bytes(64 << 20))
with open("data", "rb") as file:
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    random.seed(5)
    for _ in range(3000):
        data[random.randrange(len(data))]
)";
  const ProgramResult result =
      runs_.served("/usr/bin/python3 program.py", "--serve-all --buffer 16MiB --page-size 1MiB");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.report.find("tiermap: try --page-size "), std::string::npos) << result.report;
  EXPECT_EQ(result.report.find("TIERMAP_"), std::string::npos) << result.report;
}

// An exec() that fails ends nothing: the report comes at the end, and has what was done since.
TEST_F(ServedRunTest, ReportsAfterAnExecThatFailed) {
  const std::string report = report_of_python(R"(
import mmap, os
with open("file", "wb") as file:
    file.write(bytes(24 << 20))
with open("file", "r+b") as file:
    first = mmap.mmap(file.fileno(), 8 << 20)
    try:
        os.execv("/nowhere/at/all", ["at-all"])
    except OSError:
        pass
    second = mmap.mmap(file.fileno(), 8 << 20, offset=8 << 20)
)");
  EXPECT_NE(report.find("left to the kernel:\ntiermap:   1: the file is mapped twice"), std::string::npos) << report;
}

TEST_F(ServedRunTest, HandsOnWhatTheFileOfOptionsSays) {
  std::ofstream(runs_.path("options.yaml")) << "buffer_size: 24MiB\n";
  const ProgramResult result =
      runs_.plain("env TIERMAP_CONFIG=" + runs_.path("options.yaml") + " " + TIERMAP_BINARY_FOLDER +
                  "/tiermap run --serve-all --report -- " + mapping_case());
  EXPECT_NE(result.errors.find("budget of 24.0 MiB"), std::string::npos) << result.errors;
}

TEST_F(RunTest, WithoutUserfaultfdProgramsRunByTheKernel) {
  // A budget that no page fits into stands for whatever keeps the engine from starting.
  const ProgramResult result = run("--buffer 20KiB --verbose -- " + mapping_case());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.errors.find("to the kernel: budget of"), std::string::npos) << result.errors;
  EXPECT_EQ(result.output, runs_.plain(mapping_case()).output);
}

}  // namespace
}  // namespace tiermap
