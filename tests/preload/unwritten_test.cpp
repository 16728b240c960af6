// What was stored and cannot be written to the file: calls fail, and nothing is lost.
#include <gtest/gtest.h>

#include <string>

#include "preload/served_program.hpp"

namespace tiermap {
namespace {

class UnwrittenTest : public ::testing::Test {
 protected:
  void SetUp() override { skip_where_nothing_is_served(); }
  /// Whatever the budget and the page size, it prints this.
  void expect(const std::string& name, const std::string& output) const {
    const std::string command =
        std::string(TIERMAP_BINARY_FOLDER) + "/mapping-program " + name + " " + runs_.path("file");
    for (const char* options : {"--buffer 16MiB", "--buffer 2500KiB --page-size 64KiB"}) {
      const ProgramResult result = runs_.served(command, options);
      EXPECT_EQ(result.exit_code, 0) << result.errors;
      EXPECT_EQ(result.output, output) << result.errors;
      EXPECT_NE(result.report.find(" 1 mapping served"), std::string::npos) << result.report;
    }
  }
  ProgramRuns runs_;
};

constexpr const char* all_there = "still there: ok\nwritten after all: ok\n";

TEST_F(UnwrittenTest, WhatMakesDurableFails) {
  expect("synchronise_unwritten",
         std::string("fsync: EFBIG\nfdatasync: EFBIG\nsyncfs: EFBIG\nmsync: EFBIG\n") + all_there);
}

TEST_F(UnwrittenTest, ReadsDoNotGiveWhatWasThereBefore) {
  expect("read_unwritten", std::string("there: EIO\nread: EIO\nelsewhere: ok\n") + all_there);
}

TEST_F(UnwrittenTest, WritesBesideItFail) {
  expect("write_unwritten", std::string("beside it: EFBIG\nelsewhere: ok\nunchanged: ok\n") + all_there);
}

TEST_F(UnwrittenTest, TheFileCanBeCut) {
  expect("cut_unwritten", "cut: ok\nthe rest: ok\nfsync: ok\n");
  expect("cut_by_opening_unwritten", "cut: ok\nempty: ok\nfsync: ok\n");
}

TEST_F(UnwrittenTest, NothingTakesItsPlace) {
  expect("replace_unwritten", std::string("all of it: EFBIG\na part: EFBIG\nmoved: ENOMEM\n") + all_there);
}

}  // namespace
}  // namespace tiermap
