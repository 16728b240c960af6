#include "apps/program_fixture.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace tiermap::test {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

constexpr uid_t nobody = 65534;

bool become_nobody() {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(nobody, nobody, nobody) == 0 &&
         ::setresuid(nobody, nobody, nobody) == 0;
}

}  // namespace

std::size_t Outcome::error_lines() const {
  return static_cast<std::size_t>(std::count(errors.begin(), errors.end(), '\n'));
}

ProgramTest::ProgramTest() {
  // Beside the binaries: a file system that is a disk, where /tmp may be memory.
  std::string name = std::string(TIERMAP_BINARY_FOLDER) + "/../apps-test-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("no folder for the test: " + name);
  }
  folder_ = std::filesystem::canonical(name);
  std::filesystem::create_directory(folder_ / "work");
}

ProgramTest::~ProgramTest() {
  std::filesystem::remove_all(folder_);
}

std::string ProgramTest::write_file(const std::string& name, const std::string& text) const {
  std::ofstream(folder_ / name) << text;
  return path(name);
}

std::string ProgramTest::write_npy(const std::string& type, const std::string& shape, const std::string& bytes,
                                   const std::string& fortran_order) const {
  std::string header = "{'descr': '" + type + "', 'fortran_order': " + fortran_order + ", 'shape': (" + shape + "), }";
  header.resize(117, ' ');
  return write_file("array.npy", std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + bytes);
}

std::vector<std::string> ProgramTest::left_behind() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "work")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

pid_t ProgramTest::start(const std::string& program, const std::vector<std::string>& arguments, int terminal) const {
  const std::string binary = program.starts_with('/') ? program : std::string(TIERMAP_BINARY_FOLDER) + "/" + program;
  const std::string output = path("output");
  const std::string errors = path("errors");
  const std::string work = path("work");
  std::vector<char*> pointers = {const_cast<char*>(binary.c_str())};
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TMPDIR", work.c_str(), 1);
    for (const char* name : {"TIERMAP_PAGE_SIZE", "TIERMAP_CONFIG", "TIERMAP_BUFFER_SIZE", "TIERMAP_READ_AHEAD"}) {
      ::unsetenv(name);
    }
    for (const auto& [name, value] : environment_) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    ::dup2(::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
    ::dup2(terminal >= 0 ? terminal : ::open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
    // Outlives exec: a program that hangs is ended by a signal, and fails its test by name.
    ::alarm(longest_run_seconds);
    if (as_nobody_ && !become_nobody()) {
      ::_exit(127);
    }
    ::execv(binary.c_str(), pointers.data());
    ::_exit(127);
  }
  return child;
}

std::string ProgramTest::start_without_privileges() {
  if (::geteuid() != 0) {
    return "";
  }
  for (const std::filesystem::path& folder : {folder_, folder_ / "work"}) {
    if (::chown(folder.c_str(), nobody, nobody) != 0) {
      return folder.string() + " cannot be given to the user nobody";
    }
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const bool reachable = become_nobody() && ::access(TIERMAP_BINARY_FOLDER "/tiermap-sort", X_OK) == 0 &&
                           ::access((folder_ / "work").c_str(), W_OK | X_OK) == 0;
    ::_exit(reachable ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) {
    return "the user nobody cannot run what is in " TIERMAP_BINARY_FOLDER;
  }
  as_nobody_ = true;
  return "";
}

Outcome ProgramTest::run(const std::string& program, const std::vector<std::string>& arguments) const {
  return outcome_of(start(program, arguments));
}

nlohmann::json ProgramTest::verified_report(const std::string& program,
                                            const std::vector<std::string>& arguments) const {
  const std::string words = testing::PrintToString(arguments);
  const Outcome outcome = run(program, arguments);
  EXPECT_EQ(outcome.exit_code, 0) << words << outcome.errors;
  EXPECT_EQ(outcome.errors, "") << words;
  if (outcome.exit_code != 0) {
    return nlohmann::json::object();
  }
  EXPECT_EQ(outcome.json().at("verified"), true) << words;
  return outcome.json();
}

Outcome ProgramTest::outcome_of(pid_t child) const {
  int status = 0;
  EXPECT_EQ(child, ::waitpid(child, &status, 0));
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.output = read_file(folder_ / "output");
  outcome.errors = read_file(folder_ / "errors");
  return outcome;
}

void ProgramTest::expect_refused(const std::string& program, const std::vector<std::string>& arguments,
                                 const std::string& part, std::size_t files) const {
  const Outcome outcome = run(program, arguments);
  const std::string words = testing::PrintToString(arguments);
  EXPECT_EQ(outcome.exit_code, 2) << words << outcome.errors;
  EXPECT_EQ(outcome.error_lines(), 1U) << words << outcome.errors;
  EXPECT_NE(outcome.errors.find(part), std::string::npos) << words << outcome.errors;
  EXPECT_EQ(outcome.output, "") << words;
  EXPECT_EQ(left_behind().size(), files) << words;
}

void change_byte(const std::string& file, std::uint64_t at) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(static_cast<std::streamoff>(at));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(static_cast<char>(byte ^ 3));
}

void expect_shared_fields(const nlohmann::json& report, const std::string& workload, const std::string& system) {
  EXPECT_EQ(report.at("workload"), workload);
  EXPECT_EQ(report.at("system"), system);
  EXPECT_GT(report.at("seconds").get<double>(), 0);
  EXPECT_TRUE(report.at("verified").is_boolean());
  for (const char* name : {"operations", "bytes", "budget_bytes", "page_size", "threads", "peak_rss_bytes"}) {
    EXPECT_GT(report.at(name).get<std::uint64_t>(), 0U) << name;
  }
  for (const char* name : {"read_bytes", "written_bytes", "faults"}) {
    EXPECT_TRUE(report.at(name).is_number_unsigned()) << name;
  }
}

}  // namespace tiermap::test
