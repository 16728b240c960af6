// Lines of `tiermap run` where standard error is not what it was.
#include <gtest/gtest.h>

#include "preload/served_program.hpp"

namespace tiermap {
namespace {

class StandardErrorTest : public ::testing::Test {
 protected:
  void SetUp() override { skip_where_nothing_is_served(); }
  ProgramResult run(const std::string& arguments) const {
    return runs_.plain(std::string(TIERMAP_BINARY_FOLDER) + "/tiermap run " + arguments);
  }
  ProgramRuns runs_;
};

// A program that closes standard error, as those do that go to the background, may open its data under that number.
TEST_F(StandardErrorTest, WhatIsSaidIsNotWrittenAmongTheProgramsData) {
  std::ofstream(runs_.path("program.py")) << "import mmap, os, sys\n"
                                             "try: os.close(2)\n"
                                             "except OSError: pass\n"
                                             "data = os.open('data', os.O_RDWR)\n"
                                             "print(data, len(mmap.mmap(data, 0)))\n";
  const std::string bytes(1 << 20, 'x');
  for (const char* standard_error : {"", " 2>&-"}) {
    std::ofstream(runs_.path("data")) << bytes;
    const ProgramResult result =
        run("--verbose --report --serve-all --minimum-size 64KiB -- /usr/bin/python3 program.py" +
            std::string(standard_error));
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.output, "2 1048576\n");
    EXPECT_TRUE(contents_of(runs_.path("data")) == bytes) << contents_of(runs_.path("data")).substr(0, 100);
    EXPECT_EQ(tells_of_mappings(result.errors), *standard_error == '\0') << result.errors;
  }
}

}  // namespace
}  // namespace tiermap
