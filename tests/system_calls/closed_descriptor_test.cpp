// A program that closes descriptors which it has not opened closes Tiermap's: nobody could fetch pages any more, and
// the kernel would give zeros. It is ended, rather than going on with them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "store/temporary_directory.hpp"
#include "system_calls/region_fixture.hpp"

namespace tiermap {
namespace {

constexpr int reached_the_end = 3;

/// In a child, before anything is mapped there.
void close_all_and_touch(const CacheOptions& options, const RegionOptions& region_options, const std::string& errors) {
  constexpr rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(::open(errors.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
  Cache cache(options);
  const Region region = cache.map(open_store("memory:4194304", OpenMode::open_or_create), region_options);
  auto* const words = reinterpret_cast<volatile std::uint64_t*>(region.data());
  words[0] = 1;
  for (int number = 3; number < 1000; ++number) {
    ::syscall(SYS_close, number);  // ThreadSanitizer would call close() what it is: a race.
  }
  ::usleep(20'000);
  for (std::uint64_t at = 0; at < region.size() / sizeof *words; at += 512) {
    words[at] = at;
  }
  ::sleep(5);
  ::_exit(reached_the_end);
}

TEST(ClosedDescriptors, EndAProgramThatWouldReadZeros) {
  const TemporaryDirectory directory;
  const std::string errors = directory / "errors";
  CacheOptions options;
  options.fault_mode = FaultMode::notify;
  options.budget_bytes = 1 << 20;
  RegionOptions region_options;
  region_options.access = Access::read_write;
  region_options.page_size_bytes = 16 << 10;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close_all_and_touch(options, region_options, errors);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << "status " << status;
  std::ifstream file(errors);
  const std::string said{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(said.find("has closed a descriptor of Tiermap's"), std::string::npos) << said;
}

}  // namespace
}  // namespace tiermap
