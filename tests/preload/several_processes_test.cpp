// What processes under `tiermap run` have together: files, and memory.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "platform/memory_limits.hpp"
#include "preload/run_fixture.hpp"

namespace tiermap {
namespace {

using SeveralProcessesTest = ServedRunTest;

// A process that was killed has nothing any more, and what is only read all of them serve.
TEST_F(SeveralProcessesTest, OneServesWhatNoOtherMapsAnyMore) {
  const std::string report = report_of_python(R"(
import mmap, os, signal
with open("file", "w+b") as file:
    file.truncate(40 << 20)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        mapped = mmap.mmap(file.fileno(), 0)
        mapped[5] = 5
        mapped.flush()
        os.write(write, b"x")
        signal.pause()
    os.read(read, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    mapped = mmap.mmap(file.fileno(), 0)
    assert mapped[5] == 5
    reader = os.fork()
    if reader == 0:
        other = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        os._exit(other[5])
    assert os.waitpid(reader, 0)[1] == 5 << 8
)");
  EXPECT_NE(report.find("1 mapping served"), std::string::npos) << report;
  EXPECT_NE(report.find("given back to the kernel"), std::string::npos) << report;
}

// Where nobody says a buffer, what one process would take is for all that there are at a time.
TEST_F(SeveralProcessesTest, TheyShareTheMemory) {
  std::ofstream(runs_.path("program.py")) << R"(
import mmap, os
with open("file", "w+b") as file:
    file.truncate(40 << 20)
    with open("other", "w+b") as other:
        other.truncate(40 << 20)
        read, write = os.pipe()
        ends = [os.pipe() for _ in range(3)]
        children = []
        for number in range(3):
            children.append(os.fork())
            if children[-1] == 0:
                mapped = mmap.mmap((file if number else other).fileno(), 0, prot=mmap.PROT_READ)
                assert mapped[5] == 0
                os.write(write, b"x")
                os.read(ends[number][0], 1)
                os._exit(0)
        for _ in children:
            os.read(read, 1)
        for number, child in enumerate(children):
            os.write(ends[number][1], b"x")
            assert os.waitpid(child, 0)[1] == 0
)";
  const ProgramResult result = runs_.served("/usr/bin/python3 program.py", "--serve-all");
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const std::regex budget("of a budget of ([0-9.]+) ([KMG])iB");
  std::vector<double> budgets;
  for (std::sregex_iterator found(result.report.begin(), result.report.end(), budget), end; found != end; ++found) {
    const char unit = (*found)[2].str().front();
    budgets.push_back(std::stod((*found)[1]) * (unit == 'G' ? 1024 : unit == 'M' ? 1 : 1.0 / 1024));
  }
  ASSERT_EQ(budgets.size(), 3U) << result.report;
  const double half = static_cast<double>(read_machine_memory().usable_bytes()) / 2 / (1 << 20);
  EXPECT_LT(budgets.front(), half * 0.5) << "there were three";
}

}  // namespace
}  // namespace tiermap
