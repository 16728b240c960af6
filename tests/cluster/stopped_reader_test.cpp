// A process that is stopped for longer than its server waits, and goes on.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "cluster/server_process.hpp"
#include "cluster/wire_fixture.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

/// Which stops as soon as it has the data set mapped, and touches it when it goes on.
pid_t start_reader(const std::string& url, const std::string& said) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGBUS, SIG_DFL);  // Which sanitizers take for themselves.
    ::dup2(::open(said.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600), STDERR_FILENO);
    CacheOptions options;
    options.budget_bytes = 1 << 20;
    Cache cache(options);
    const Region region = cache.map(url);
    ::raise(SIGSTOP);
    const volatile std::byte first = *region.data();
    ::_exit(first == std::byte{0} ? 0 : 1);
  }
  return child;
}

TEST(StoppedReaderTest, IsToldThatItsServerMayHaveTakenItForDead) {
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\nmemory: 64MiB\ntimeout_seconds: 0.3\n";
  const ServerProcess server({"--config", directory / "node.yaml"});
  ChildProcess made({"tiermap", "serve", "create", server.url("set"), "--size", "1MiB"});
  ASSERT_EQ(made.wait(), 0) << made.errors();
  const auto attached = [&] {
    ChildProcess stat({"tiermap", "serve", "stat", server.url("set")});
    return stat.output().find("attached by nobody") == std::string::npos;
  };
  const pid_t reader = start_reader(server.url("set"), directory / "said");
  int status = 0;
  ASSERT_EQ(::waitpid(reader, &status, WUNTRACED), reader);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_TRUE(comes_true([&] { return !attached(); }));
  ::kill(reader, SIGCONT);
  ASSERT_EQ(::waitpid(reader, &status, 0), reader);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
  std::ifstream file(directory / "said");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("takes a process for dead that was silent for longer than its timeout_seconds"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tiermap
