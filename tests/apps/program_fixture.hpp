// Runs the built applications and looks at what they print, return and leave behind.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tiermap::test {

/// What a program did.
struct Outcome {
  int exit_code = -1;  ///< 128 plus the signal if one ended it.
  std::string output;
  std::string errors;

  std::size_t error_lines() const;
  nlohmann::json json() const { return nlohmann::json::parse(output); }
};

/// A folder of its own for each test, which the programs get as TMPDIR, and which is gone afterwards.
class ProgramTest : public testing::Test {
 protected:
  ProgramTest();
  ~ProgramTest() override;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write_file(const std::string& name, const std::string& text) const;
  /// array.npy: what numpy.save() writes of such an array.
  std::string write_npy(const std::string& type, const std::string& shape, const std::string& bytes,
                        const std::string& fortran_order = "False") const;
  /// Names of what is in the folder, sorted.
  std::vector<std::string> left_behind() const;
  /// `program` is one of this build, or a path.
  Outcome run(const std::string& program, const std::vector<std::string>& arguments) const;
  /// The report of a run that ends well, says nothing else and has verified its result; empty if it did not end well.
  /// `arguments` hold --json.
  nlohmann::json verified_report(const std::string& program, const std::vector<std::string>& arguments) const;
  /// Starts it without waiting; its standard error is `terminal` if that is a descriptor, else a file.
  pid_t start(const std::string& program, const std::vector<std::string>& arguments, int terminal = -1) const;
  /// Waits for what was started last.
  Outcome outcome_of(pid_t child) const;

  /// For the programs that are started from now on.
  void set_environment(const std::string& name, const std::string& value) { environment_[name] = value; }

  /// The programs that are started from now on are refused what a file's permissions refuse: they run as nobody where
  /// this is root, to whom everything is permitted. Returns why that cannot be; empty if it can.
  std::string start_without_privileges();

  /// Expects exit code 2, one line that holds `part`, nothing on standard output, and `files` files left.
  void expect_refused(const std::string& program, const std::vector<std::string>& arguments, const std::string& part,
                      std::size_t files = 0) const;

  /// Ends a program that hangs: less than a test may take, and more than any program of the tests does.
  unsigned longest_run_seconds = 240;

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string> environment_;
  bool as_nobody_ = false;
};

/// Makes another byte of one in a file.
void change_byte(const std::string& file, std::uint64_t at);

/// Expects every field that all applications share.
void expect_shared_fields(const nlohmann::json& report, const std::string& workload, const std::string& system);

}  // namespace tiermap::test
