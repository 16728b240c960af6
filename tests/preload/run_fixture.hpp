// `tiermap run` of a program, with all options left to the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "preload/served_program.hpp"

namespace tiermap {

inline const std::string program = std::string(TIERMAP_BINARY_FOLDER) + "/mapping-program";

class RunTest : public ::testing::Test {
 protected:
  ProgramResult run(const std::string& arguments) const {
    return runs_.plain(std::string(TIERMAP_BINARY_FOLDER) + "/tiermap run " + arguments);
  }
  void expect_refusal(const std::string& arguments, int exit_code, const std::string& why) const {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << arguments;
    EXPECT_EQ(result.output, "");
    EXPECT_NE(result.errors.find(why), std::string::npos) << result.errors;
    EXPECT_EQ(std::ranges::count(result.errors, '\n'), 1) << result.errors;
  }
  /// A case that maps a file of 4 MiB.
  std::string mapping_case() const { return program + " read_shared " + runs_.path("file"); }
  ProgramRuns runs_;
};

class ServedRunTest : public RunTest {
 protected:
  void SetUp() override { skip_where_nothing_is_served(); }
  /// Of a Python program that ends well, with a buffer of 16 MiB and what fits left to the kernel.
  std::string report_of_python(const std::string& source) const {
    std::ofstream(runs_.path("program.py")) << source;
    const ProgramResult result = runs_.served("/usr/bin/python3 program.py", "--buffer 16MiB");
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.report;
  }
};

}  // namespace tiermap
