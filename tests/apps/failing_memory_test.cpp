// A file that is cut off while a program works on it: one line and exit code 1, not death by SIGBUS, and what the
// program has made goes.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "apps/program_fixture.hpp"

namespace tiermap::test {
namespace {

constexpr std::uint64_t file_bytes = 128 << 20;
constexpr std::uint64_t some_bytes = 2 << 20;

/// Bytes that a process has had read from disks so far.
std::uint64_t read_bytes_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/io");
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "read_bytes:") {
      return value;
    }
  }
  return 0;
}

class FailingMemoryTest : public ProgramTest {
 protected:
  /// On the disk, and not in the page cache.
  std::string make_words() const {
    const std::string file = write_file("words", std::string(file_bytes, 'w'));
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    ::fdatasync(descriptor);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
    return file;
  }
  /// Sorts what is at `file`, which is cut off once the program has read `bytes`; `made` is its name until then.
  void expect_told_of(const std::string& file, std::vector<std::string> arguments, std::uint64_t bytes,
                      const std::string& made = {}) const {
    arguments.insert(arguments.end(), {"--no-verify", "--budget", "16MiB", "--file", file});
    const pid_t child = start("tiermap-sort", arguments);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (read_bytes_of(child) < bytes && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::filesystem::resize_file(made.empty() ? file : made, 0);
    const Outcome outcome = outcome_of(child);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.errors;
    EXPECT_EQ(outcome.output, "");
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
    EXPECT_EQ(outcome.errors.rfind("tiermap-sort: mapped data cannot be read or written: its file was cut off", 0), 0U)
        << outcome.errors;
    EXPECT_TRUE(left_behind().empty());
  }
};

TEST_F(FailingMemoryTest, AFileThatIsCutOffIsToldOfInALine) {
  for (const std::vector<std::string>& system : std::vector<std::vector<std::string>>{
           {"--system", "mmap"}, {"--fault-mode", "self-serving"}, {"--fault-mode", "notify"}}) {
    SCOPED_TRACE(system.back());
    std::vector<std::string> arguments = system;
    arguments.emplace_back("--in-place");
    // It is read once to the end before it is mapped; and the program itself may be read from the disk, which counts.
    expect_told_of(make_words(), arguments, file_bytes + file_bytes / 4);
  }
}

// A shell's `ulimit -f`: the kernel's signal would end the program, and what it had made would stay.
TEST_F(FailingMemoryTest, AFileThatMayNotGrowIsToldOfInALine) {
  struct rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const struct rlimit small{std::uint64_t{1} << 20U, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  for (const std::string program :
       {"tiermap-sort", "tiermap-search", "tiermap-random-io", "tiermap-kmer", "tiermap-ingest", "tiermap-bfs"}) {
    SCOPED_TRACE(program);
    const Outcome outcome = run(program, {"--bytes", "8MiB", "--budget", "16MiB"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
    EXPECT_NE(outcome.errors.find("File too large"), std::string::npos) << outcome.errors;
    EXPECT_TRUE(left_behind().empty());
  }
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

TEST_F(FailingMemoryTest, WhatWasMadeGoes) {
  expect_told_of(path("work/made"), {"--system", "mmap", "--bytes", std::to_string(file_bytes)}, some_bytes,
                 path("work/made.partial"));
}

}  // namespace
}  // namespace tiermap::test
