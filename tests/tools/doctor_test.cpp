// What `tiermap doctor` prints, and that it is what a cache finds too: on this machine as it is, and with the system
// calls that sandboxes refuse taken away.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/option_table.hpp"
#include "kernel_mode/refused_calls.hpp"
#include "platform/io_ring.hpp"
#include "store/temporary_directory.hpp"
#include "tools/command.hpp"

namespace tiermap {
namespace {

using nlohmann::json;

constexpr std::array ways_to_userfaultfd = {"/dev/userfaultfd", "userfaultfd system call",
                                            "user-mode-only system call"};

/// The finding of that name; null if there is none.
json find(const json& report, const std::string& name) {
  for (const json& finding : report.at("findings")) {
    if (finding.at("name") == name) {
      return finding;
    }
  }
  return nullptr;
}

TEST(Doctor, SaysWhatToDoAboutAllThatIsNotGood) {
  const CommandResult result = run_tiermap({"doctor", "/tmp", "/dev/shm", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const json report = json::parse(result.output);
  EXPECT_TRUE(report.at("usable").get<bool>());
  EXPECT_FALSE(report.at("fault_modes").empty());
  std::vector<std::string> names;
  for (const json& finding : report.at("findings")) {
    const std::string name = finding.at("name").get<std::string>();
    names.push_back(finding.at("section").get<std::string>() + "/" + name);
    EXPECT_FALSE(finding.at("value").get<std::string>().empty()) << name;
    EXPECT_EQ(finding.at("state") == "ok", finding.at("remedy").get<std::string>().empty()) << name;
    EXPECT_EQ(finding.at("remedy").get<std::string>().find('\n'), std::string::npos) << name;
  }
  for (const char* name :
       {"userfaultfd//dev/userfaultfd", "userfaultfd/userfaultfd system call", "userfaultfd/user-mode-only system call",
        "userfaultfd/PAGEMAP_SCAN", "kernel/version", "kernel/page size", "kernel/io_uring", "kernel/huge pages",
        "limits/memory", "limits/memory pressure", "limits/locked memory", "limits/open files", "limits/address space",
        "limits/max_map_count", "limits/cgroup memory", "directory /tmp/write", "directory /tmp/O_DIRECT",
        "directory /tmp/read_ahead_kb", "directory /dev/shm/mmap"}) {
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
  }
}

/// Whether any way to a userfaultfd works, by the report.
bool has_userfaultfd(const json& report) {
  return std::ranges::any_of(ways_to_userfaultfd,
                             [&](const char* way) { return find(report, way).at("state") == "ok"; });
}

TEST(Doctor, NamesEachFeatureOfUserfaultfdThatTheEngineUses) {
  const json report = json::parse(run_tiermap({"doctor", "/tmp", "--json"}).output);
  if (!has_userfaultfd(report)) {
    GTEST_SKIP() << "userfaultfd is refused here";
  }
  const std::uint64_t offered = probe_userfaultfd().features;
  const struct {
    std::uint64_t bit;
    const char* name;
  } features[] = {{UFFD_FEATURE_SIGBUS, "SIGBUS"},
                  {UFFD_FEATURE_THREAD_ID, "THREAD_ID"},
                  {UFFD_FEATURE_PAGEFAULT_FLAG_WP, "PAGEFAULT_FLAG_WP"},
                  {UFFD_FEATURE_EXACT_ADDRESS, "EXACT_ADDRESS"},
                  {UFFD_FEATURE_WP_UNPOPULATED, "WP_UNPOPULATED"},
                  {UFFD_FEATURE_POISON, "POISON"},
                  {UFFD_FEATURE_WP_ASYNC, "WP_ASYNC"},
                  {UFFD_FEATURE_MOVE, "MOVE"}};
  for (const auto& [bit, name] : features) {
    const json finding = find(report, std::string("feature ") + name);
    ASSERT_FALSE(finding.is_null()) << name;
    EXPECT_EQ(finding.at("section"), "userfaultfd");
    const bool good = (offered & bit) != 0;
    EXPECT_EQ(finding.at("state"), good ? "ok" : "limited") << name;
    EXPECT_EQ(finding.at("value"), good ? "offered" : "not offered") << name;
  }
}

TEST(Doctor, LeavesNothingInTheDirectory) {
  std::string path = (std::filesystem::temp_directory_path() / "tiermap-doctor-test-XXXXXX").string();
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  const CommandResult result = run_tiermap({"doctor", path});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("directory " + path), std::string::npos);
  EXPECT_NE(result.output.find("Fault modes that work here: "), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(path));
  std::filesystem::remove(path);
}

TEST(Doctor, SeesALoweredLimit) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lowered = before;
  lowered.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  const CommandResult result = run_tiermap({"doctor", "--json"});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(result.exit_code, 0);
  const json findings = json::parse(result.output).at("findings");
  const auto open_files =
      std::ranges::find_if(findings, [](const json& finding) { return finding.at("name") == "open files"; });
  ASSERT_NE(open_files, findings.end());
  EXPECT_EQ(open_files->at("state"), "limited");
  EXPECT_TRUE(open_files->at("value").get<std::string>().starts_with("100"));
}

/// A machine that lets less be done.
struct Sandbox {
  const char* name;
  Refusals (*refusals)();

  friend void PrintTo(const Sandbox& sandbox, std::ostream* output) { *output << sandbox.name; }
};

Refusals nothing() {
  return {};
}
Refusals userfaultfd_for_system_calls() {
  constexpr std::uint32_t user_mode_only = 1;
  return no_device().refuse_if(SYS_userfaultfd, 0, user_mode_only, 0);
}
Refusals userfaultfd() {
  return no_device().refuse(SYS_userfaultfd);
}
Refusals new_rings() {
  return Refusals().refuse(SYS_io_uring_setup);
}
Refusals use_of_rings() {
  return Refusals().refuse(SYS_io_uring_enter);
}

/// What doctor says where these are refused; null where there are no seccomp filters.
json report_without(Refusals (*refusals)()) {
  const CommandResult result = run_tiermap({"doctor", "--json", "/tmp"}, {}, [&] { return refusals().install(); });
  if (result.exit_code == not_prepared) {
    return nullptr;
  }
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  return json::parse(result.output);
}

/// The mode of a cache that asks for `mode`; empty if it cannot be made.
std::string mode_of_cache(FaultMode mode) {
  CacheOptions options = kernel_options(std::uint64_t{4} << 20);
  options.fault_mode = mode;
  try {
    return std::string(fault_mode_name(Cache(options).fault_mode()));
  } catch (const PlatformError&) {
    return "";
  }
}

/// Tells about this process, to which refusals cannot be undone: the modes in which a cache can be made, in doctor's
/// order, which one is taken if none is asked for, and whether the engine reads by io_uring.
json what_caches_find() {
  json modes = json::array();
  for (const FaultMode mode : {FaultMode::self_serving, FaultMode::notify, FaultMode::kernel}) {
    if (const std::string made = mode_of_cache(mode); !made.empty()) {
      modes.push_back(made);
    }
  }
  return {{"fault_modes", modes},
          {"automatic", mode_of_cache(FaultMode::automatic)},
          {"io_uring", IoRing(4).asynchronous()}};
}

/// The same, in a process without these calls; null if that could not be had.
json caches_without(Refusals (*refusals)()) {
  int channel[2];
  if (::pipe(channel) != 0) {
    return nullptr;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string found = refusals().install() ? what_caches_find().dump() : "null";
    const ssize_t written = ::write(channel[1], found.data(), found.size());
    ::_exit(written == static_cast<ssize_t>(found.size()) ? 0 : 1);
  }
  ::close(channel[1]);
  char buffer[4096];
  const ssize_t got = ::read(channel[0], buffer, sizeof(buffer));
  ::close(channel[0]);
  EXPECT_EQ(exit_code_of(child), 0);
  return json::parse(std::string(buffer, got > 0 ? static_cast<std::size_t>(got) : 0));
}

class DoctorInASandbox : public ::testing::TestWithParam<Sandbox> {};

TEST_P(DoctorInASandbox, SaysWhatCachesFind) {
  const json report = report_without(GetParam().refusals);
  const json caches = caches_without(GetParam().refusals);
  if (report.is_null() || caches.is_null()) {
    GTEST_SKIP() << "no seccomp filters here";
  }
  EXPECT_EQ(report.at("fault_modes"), caches.at("fault_modes"));
  EXPECT_NE(std::ranges::find(report.at("fault_modes"), caches.at("automatic")), report.at("fault_modes").end());
  EXPECT_EQ(find(report, "io_uring").at("state") == "ok", caches.at("io_uring"));
}

INSTANTIATE_TEST_SUITE_P(Refusing, DoctorInASandbox,
                         ::testing::Values(Sandbox{"nothing", nothing},
                                           Sandbox{"userfaultfd_for_system_calls", userfaultfd_for_system_calls},
                                           Sandbox{"userfaultfd", userfaultfd}, Sandbox{"new_rings", new_rings},
                                           Sandbox{"use_of_rings", use_of_rings}),
                         [](const ::testing::TestParamInfo<Sandbox>& sandbox) {
                           return std::string(sandbox.param.name);
                         });

TEST(Doctor, SaysWhatWouldGiveUserfaultfdWhereItIsRefused) {
  const json report = report_without(userfaultfd);
  if (report.is_null()) {
    GTEST_SKIP() << "no seccomp filters here";
  }
  EXPECT_TRUE(report.at("usable").get<bool>());
  EXPECT_EQ(report.at("fault_modes"), json::array({"kernel"}));
  const char* const remedy_of_call = "vm.unprivileged_userfaultfd=1";
  const char* const remedy_of_device =
      ::access(ways_to_userfaultfd[0], F_OK) == 0 ? "permission on /dev/userfaultfd" : "Linux 6.1 and later";
  for (const char* way : ways_to_userfaultfd) {
    const json finding = find(report, way);
    EXPECT_EQ(finding.at("state"), "missing") << way;
    EXPECT_TRUE(finding.at("value").get<std::string>().starts_with("E")) << finding;
    const char* const remedy = way == ways_to_userfaultfd[0] ? remedy_of_device : remedy_of_call;
    EXPECT_NE(finding.at("remedy").get<std::string>().find(remedy), std::string::npos) << finding;
  }
  EXPECT_TRUE(find(report, "feature MOVE").is_null()) << "no feature is known where there is no userfaultfd";
}

TEST(Doctor, SaysThatSystemCallsGetErrorsWhereOnlyUserModeFaultsArePermitted) {
  const json report = report_without(userfaultfd_for_system_calls);
  if (report.is_null() || !has_userfaultfd(report)) {
    GTEST_SKIP() << "no seccomp filters here, or the user-mode-only system call is refused";
  }
  const json finding = find(report, "faults of system calls");
  ASSERT_FALSE(finding.is_null());
  EXPECT_NE(finding.at("value").get<std::string>().find("EFAULT"), std::string::npos) << finding;
  EXPECT_EQ(find(report, ways_to_userfaultfd[0]).at("state"), "limited");
  const json whole = report_without(nothing);
  if (find(whole, ways_to_userfaultfd[0]).at("state") == "ok" ||
      find(whole, ways_to_userfaultfd[1]).at("state") == "ok") {
    EXPECT_TRUE(find(whole, "faults of system calls").is_null());
  }
}

TEST(Doctor, SaysWhyIoUringIsNotUsedAndWhatToDo) {
  for (Refusals (*refused)() : {new_rings, use_of_rings}) {
    const json report = report_without(refused);
    if (report.is_null()) {
      GTEST_SKIP() << "no seccomp filters here";
    }
    const json finding = find(report, "io_uring");
    EXPECT_EQ(finding.at("state"), "limited");
    EXPECT_FALSE(finding.at("remedy").get<std::string>().empty());
    if (find(report_without(nothing), "io_uring").at("state") == "ok") {
      EXPECT_EQ(finding.at("value"), "EPERM (Operation not permitted)");
      EXPECT_NE(finding.at("remedy").get<std::string>().find("seccomp profile"), std::string::npos) << finding;
    }
  }
}

}  // namespace
}  // namespace tiermap
