// `tiermap doctor --tiers`: what it measures is a file of tiers, what cannot be one is refused in a line, and nothing
// stays.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "store/temporary_directory.hpp"
#include "tier/tiering_options.hpp"
#include "tools/command.hpp"

namespace tiermap {
namespace {

TEST(DoctorTiersTest, what_it_measures_is_a_file_of_tiers) {
  const TemporaryDirectory directory;
  const CommandResult result = run_tiermap({"doctor", "--tiers", directory.path(), "/dev/shm"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const TieringOptions options = parse_tiering_options(result.output, "printed");
  ASSERT_EQ(options.tiers.size(), 3U);
  for (const TierOptions& tier : options.tiers) {
    EXPECT_GT(tier.bytes_per_second, 0) << tier.name;
    EXPECT_GT(tier.latency_microseconds, 0) << tier.name;
    EXPECT_GT(tier.capacity_bytes, 0U) << tier.name;
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  const CommandResult refused = run_tiermap({"doctor", "--tiers", "/etc/passwd"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.errors,
            "tiermap: '/etc/passwd' is no directory: name those that tiers are to lie in, or memory servers as "
            "remote://HOST:PORT\n");
}

TEST(DoctorTiersTest, a_directory_may_be_called_as_memory_is) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "dram");
  const CommandResult result = run_tiermap({"doctor", "--tiers", "dram", "--cost", "dram=0.5", "--cost", "memory=2"},
                                           {}, [&] { return ::chdir(directory.path().c_str()) == 0; });
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const TieringOptions options = parse_tiering_options(result.output, "printed");
  ASSERT_EQ(options.tiers.size(), 2U);
  for (const TierOptions& tier : options.tiers) {
    const bool in_memory = tier.kind == TierKind::memory;
    EXPECT_EQ(tier.name, in_memory ? "dram of the machine" : "dram");
    EXPECT_EQ(tier.cost_per_gigabyte, in_memory ? 2 : 0.5);
  }
}

/// One line on standard error that begins so and names a remedy, nothing on standard output.
void expect_refused(const std::vector<std::string>& words, int exit_code, const std::string& beginning,
                    const std::string& remedy, const std::function<bool()>& prepare = {}) {
  std::vector<std::string> arguments = {"doctor", "--tiers"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  const CommandResult result = run_tiermap(arguments, {}, prepare);
  EXPECT_EQ(result.exit_code, exit_code) << result.errors;
  EXPECT_EQ(result.output, "");
  EXPECT_TRUE(is_one_line(result.errors)) << result.errors;
  EXPECT_TRUE(result.errors.starts_with("tiermap: " + beginning)) << result.errors;
  EXPECT_NE(result.errors.find(remedy), std::string::npos) << result.errors;
}

TEST(DoctorTiersTest, a_place_that_is_named_twice_is_refused) {
  const TemporaryDirectory directory;
  const std::string once = ": name it once\n";
  expect_refused({directory.path(), directory.path()}, 2, "'" + directory.path() + "' is named twice", once);
  const std::string link = directory / "link";
  std::filesystem::create_directory_symlink(directory.path(), link);
  expect_refused({directory.path(), "/dev/shm", link}, 2,
                 "'" + link + "' is the same place as '" + directory.path() + "'", once);
  expect_refused({"remote://localhost:1", "remote://localhost:1"}, 2, "'remote://localhost:1' is named twice", once);
  expect_refused({"--cost", "memory=1", "--cost", "memory=2"}, 2, "--cost 'memory=2' says again what 'memory' costs",
                 ": say it once\n");
}

TEST(DoctorTiersTest, a_place_that_takes_no_file_is_refused) {
  expect_refused({""}, 2, "'' is no directory", "name those that tiers are to lie in");
  expect_refused({"/etc/passwd/folder"}, 2, "'/etc/passwd/folder' is no directory", "name those");
  expect_refused({"/proc"}, 1, "'/proc' takes no file to measure: ", "or name another place\n");
}

TEST(DoctorTiersTest, a_place_without_permission_is_refused) {
  const TemporaryDirectory directory;
  const auto with_mode = [&](mode_t mode) {
    return [&directory, mode] {
      ::chmod(directory.path().c_str(), mode);
      const std::string program = std::string(TIERMAP_BINARY_FOLDER) + "/tiermap";
      const bool is_nobody = ::geteuid() != 0 || ::seteuid(65534) == 0;
      return is_nobody && ::faccessat(AT_FDCWD, program.c_str(), X_OK, AT_EACCESS) == 0;
    };
  };
  if (run_tiermap({"--version"}, {}, with_mode(0555)).exit_code == not_prepared) {
    GTEST_SKIP() << "the command is not there for others than root";
  }
  expect_refused({directory.path()}, 1, "'" + directory.path() + "' takes no file to measure: Permission denied",
                 ": see that files can be made there, or name another place\n", with_mode(0555));
  expect_refused({directory / "folder"}, 2, "'" + (directory / "folder") + "' cannot be looked at: Permission denied",
                 ": see that its folders can be entered, or name another place\n", with_mode(0));
  ::chmod(directory.path().c_str(), 0700);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(DoctorTiersTest, a_place_without_room_is_refused_and_nothing_stays) {
  const TemporaryDirectory directory;
  for (const std::string size : {"1m", "63m"}) {
    if (::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, ("size=" + size).c_str()) != 0) {
      GTEST_SKIP() << "mounting a small tmpfs is not permitted: " << std::strerror(errno);
    }
    expect_refused({directory.path()}, 1, "'" + directory.path() + "' cannot be measured: No space left on device",
                   ": free 64MiB there, or name another place\n");
    EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
    ::umount(directory.path().c_str());
  }
  // What is measured is not there any more when what is free is counted.
  ASSERT_EQ(::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=65m"), 0);
  const CommandResult result = run_tiermap({"doctor", "--tiers", directory.path()});
  ::umount(directory.path().c_str());
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const TieringOptions options = parse_tiering_options(result.output, "printed");
  const auto tier = std::ranges::find(options.tiers, TierKind::directory, &TierOptions::kind);
  ASSERT_NE(tier, options.tiers.end());
  EXPECT_EQ(tier->capacity_bytes, std::uint64_t{32} << 20);
}

TEST(DoctorTiersTest, interrupted_it_leaves_nothing) {
  const TemporaryDirectory directory;
  for (const int pause : {1, 20, 100}) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGINT, SIG_DFL);
      ::dup2(::open("/dev/null", O_RDWR | O_CLOEXEC), STDOUT_FILENO);
      become_command({"doctor", "--tiers", directory.path()}, {});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    ::kill(child, SIGINT);
    exit_code_of(child);
    EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  }
}

TEST(DoctorTiersTest, costs_are_in_the_file_and_beside_it) {
  const TemporaryDirectory directory;
  const CommandResult result =
      run_tiermap({"doctor", "--tiers", "--cost", "memory=2.5", "--cost", directory.path() + "=0", directory.path()});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const TieringOptions options = parse_tiering_options(result.output, "printed");
  ASSERT_EQ(options.tiers.size(), 2U);
  const auto memory = std::ranges::find(options.tiers, TierKind::memory, &TierOptions::kind);
  ASSERT_NE(memory, options.tiers.end());
  EXPECT_EQ(memory->cost_per_gigabyte, 2.5);
  EXPECT_TRUE(result.output.starts_with("# dram: ")) << result.output;
  std::istringstream lines(result.output);
  std::string of_memory;
  std::string together;
  std::getline(lines, of_memory);
  std::getline(lines, together);
  EXPECT_EQ(together, "# together: " + of_memory.substr(of_memory.rfind(' ') + 1));
  for (const std::string cost : {"memory", "memory=", "memory=-1", "memory=inf", "memory=2x", "/nowhere=1"}) {
    const CommandResult refused = run_tiermap({"doctor", "--tiers", "--cost", cost});
    EXPECT_EQ(refused.exit_code, 2) << cost;
    EXPECT_TRUE(refused.errors.starts_with("tiermap: --cost '" + cost + "' ")) << refused.errors;
  }
}

}  // namespace
}  // namespace tiermap
