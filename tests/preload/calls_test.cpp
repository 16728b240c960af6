// Every call that the library takes the place of does what the kernel's does: each case of mapping_program prints the
// same lines through `tiermap run` as without it.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "preload/served_program.hpp"

namespace tiermap {
namespace {

const std::string program = std::string(TIERMAP_BINARY_FOLDER) + "/mapping-program";

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  FILE* list = ::popen(program.c_str(), "r");
  std::array<char, 200> line{};
  while (list != nullptr && std::fgets(line.data(), line.size(), list) != nullptr) {
    names.emplace_back(line.data());
    names.back().pop_back();
  }
  if (list != nullptr) {
    ::pclose(list);
  }
  return names;
}

class CallsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { skip_where_nothing_is_served(); }
  ProgramRuns runs_;
  const std::string command_ = program + " " + GetParam() + " " + runs_.path("file");
};
INSTANTIATE_TEST_SUITE_P(Cases, CallsTest, ::testing::ValuesIn(case_names()),
                         [](const auto& test_case) { return test_case.param; });

TEST(CallsTestCases, AreThere) {
  EXPECT_GT(case_names().size(), 40U) << program << " has not told its cases";
}

TEST_P(CallsTest, DoWhatTheKernelsDo) {
  const ProgramResult plain = runs_.plain(command_);
  ASSERT_EQ(plain.exit_code, 0) << plain.errors;
  ASSERT_EQ(plain.output.find("WRONG"), std::string::npos) << plain.output;
  const ProgramResult served = runs_.served(command_);
  EXPECT_EQ(served.exit_code, plain.exit_code);
  EXPECT_EQ(served.output, plain.output);
  EXPECT_EQ(served.errors, plain.errors);
  // A child may have none.
  EXPECT_TRUE(tells_of_mappings(served.report)) << served.report;
}

// A report is one more thing to do at the end, in a thread of its own.
TEST(WithoutAReport, AReaderEndsInAHandlerThatInterruptedMalloc) {
  skip_where_nothing_is_served();
  if (testing::Test::IsSkipped()) {
    return;
  }
  const ProgramRuns runs;
  const ProgramResult ended =
      runs.plain(std::string(TIERMAP_BINARY_FOLDER) + "/tiermap run --serve-all --buffer 4MiB -- " + program +
                 " ended_while_reading " + runs.path("file"));
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(ended.output.find("WRONG"), std::string::npos) << ended.output;
}

TEST_P(CallsTest, DoSoWithLittleMemory) {
  const ProgramResult plain = runs_.plain(command_);
  for (const char* memory : {"--buffer 2500KiB --page-size 256KiB", "--buffer 600KiB --page-size 4KiB"}) {
    const ProgramResult served =
        runs_.served(command_, std::string("--serve-all --minimum-size 64KiB --match '**' ") + memory);
    EXPECT_EQ(served.exit_code, plain.exit_code) << memory;
    EXPECT_EQ(served.output, plain.output) << memory;
    EXPECT_EQ(served.errors, plain.errors) << memory;
  }
}

// As people run it: private mappings are the kernel's, and what fits and is only read.
TEST_P(CallsTest, DoSoByDefault) {
  const ProgramResult plain = runs_.plain(command_);
  for (const char* options : {"--buffer 16MiB", "--buffer 4MiB --page-size 64KiB", "--buffer 16MiB --match '**'"}) {
    const ProgramResult served = runs_.served(command_, options);
    EXPECT_EQ(served.exit_code, plain.exit_code) << options;
    EXPECT_EQ(served.output, plain.output) << options;
    EXPECT_EQ(served.errors, plain.errors) << options;
  }
}

// Without options whose texts the library keeps: for these it has allocated early.
TEST(OwnAllocators, AreNotAskedForMemoryWhileTheirLocksAreHeldAroundAFork) {
  skip_where_nothing_is_served();
  if (IsSkipped()) {
    return;
  }
  const ProgramRuns runs;
  const std::string tiermap = std::string(TIERMAP_BINARY_FOLDER) + "/tiermap run ";
  const std::string command = std::string(TIERMAP_BINARY_FOLDER) + "/forking-allocator " + runs.path("file");
  for (const char* options : {"-- ", "--verbose -- "}) {
    const ProgramResult served = runs.plain(tiermap + options + command);
    EXPECT_EQ(served.exit_code, 0) << options;
    EXPECT_EQ(served.output, "rw") << options << served.errors;
  }
  EXPECT_NE(contents_of(runs.path("errors")).find("serves " + runs.path("file")), std::string::npos);
}

TEST(FirstCalls, AreNotWaitedForByAChildThatIsForkedMeanwhile) {
  const ProgramRuns runs;
  const std::string folder = TIERMAP_BINARY_FOLDER;
  const ProgramResult ran = runs.plain(folder + "/tiermap run -- " + folder + "/first-call");
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.output, "opened");
}

// Libraries begin before Tiermap's, which sees no call of theirs then.
TEST(EarlierMappings, AndLaterOnesAreOneMemory) {
  const ProgramRuns runs;
  std::ofstream(runs.path("library.c")) << R"(
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
volatile char* earlier;
__attribute__((constructor)) static void begin(void) {
  int file = open("file", O_RDWR | O_CREAT, 0600);
  earlier = ftruncate(file, 4 << 20) == 0 ? mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : 0;
}
)";
  std::ofstream(runs.path("program.c")) << R"(
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
extern volatile char* earlier;
int main(void) {
  volatile char* later = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, open("file", O_RDWR), 0);
  later[5000] = 1;
  earlier[5000] = 2;
  printf("%d %d\n", later[5000], earlier[5000]);
  return 0;
}
)";
  if (runs.plain("cc -shared -fPIC -o libearlier.so library.c").exit_code != 0 ||
      runs.plain("cc -o program program.c ./libearlier.so").exit_code != 0) {
    GTEST_SKIP() << "no C compiler here";
  }
  const ProgramResult served = runs.served("./program");
  EXPECT_EQ(served.exit_code, 0) << served.errors;
  EXPECT_EQ(served.output, "2 2\n");
}

// ext2 has time stamps of whole seconds: of two changes within one the second cannot be told by them.
TEST(CoarseTimeStamps, ChangesOfOthersAreSeen) {
  skip_where_nothing_is_served();
  if (IsSkipped()) {
    return;
  }
  if (!has_program("mke2fs")) {
    GTEST_SKIP() << "there is no mke2fs";
  }
  const ProgramRuns runs;
  const std::string image = runs.path("image");
  const std::string folder = runs.path("mounted");
  std::filesystem::create_directory(folder);
  std::ofstream{image};
  std::filesystem::resize_file(image, 16 << 20);
  if (runs.plain("mke2fs -q -t ext2 -I 128 " + image).exit_code != 0 ||
      runs.plain("mount -o loop " + image + " " + folder).exit_code != 0) {
    GTEST_SKIP() << "an image of a file system cannot be mounted here";
  }
  const ProgramResult served = runs.served(program + " others_changes_under_locks " + folder + "/file");
  EXPECT_EQ(runs.plain("umount " + folder).exit_code, 0);
  EXPECT_EQ(served.output, "each is seen: ok\n") << served.errors;
  EXPECT_TRUE(tells_of_mappings(served.report)) << served.report;
}

}  // namespace
}  // namespace tiermap
