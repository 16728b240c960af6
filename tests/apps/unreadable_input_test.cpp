// A FIFO, a file that may not be read, an empty one: each is refused with one line and exit code 2, and nothing waits
// for somebody to write into the FIFO.
#include <sys/stat.h>
#include <unistd.h>

#include "apps/program_fixture.hpp"

namespace tiermap::test {
namespace {

struct Reader {
  std::string program;
  std::vector<std::string> before;  ///< The path follows.
};

/// Every way to give one of the programs a file to read.
const std::vector<Reader> readers = {
    {"tiermap-sort", {"--in-place", "--budget", "16MiB", "--file"}},
    {"tiermap-sort", {"--in-place", "--system", "mmap", "--file"}},
    {"tiermap-sort", {"--in-place", "--system", "memory", "--file"}},
    {"tiermap-bfs", {"--budget", "16MiB", "--input"}},
    {"tiermap-bfs", {"--system", "mmap", "--input"}},
    {"tiermap-bfs", {"--budget", "16MiB", "--graph"}},
    {"tiermap-bfs", {"--system", "mmap", "--file"}},
    {"tiermap-bfs", {"--system", "memory", "--graph"}},
    {"tiermap-random-io", {"--bytes", "1MiB", "--pattern", "trace", "--trace"}},
    {"tiermap-ingest", {"--budget", "16MiB", "--input"}},
    {"tiermap-ingest", {"--budget", "16MiB", "--check", "--file"}},
    {"tiermap-ingest", {"--system", "mmap", "--check", "--file"}},
    {"tiermap-search", {"--budget", "16MiB", "--in"}},
    {"tiermap-search", {"--system", "mmap", "--in"}},
    {"tiermap-search", {"--system", "memory", "--in"}},
    {"tiermap-ycsb", {"--budget", "16MiB", "--file"}},
    {"tiermap-ycsb", {"--system", "mmap", "--file"}},
    {"tiermap-ycsb", {"--system", "memory", "--file"}},
    {"tiermap-kmeans", {"--budget", "16MiB"}},
    {"tiermap-kmeans", {"--system", "mmap"}},
    {"tiermap-kmeans", {"--system", "memory"}},
    {"tiermap-random-forest", {"--budget", "16MiB"}},
    {"tiermap-random-forest", {"--system", "mmap"}},
    {"tiermap-random-forest", {"predict", "t", "--forest"}},
    {"tiermap-kmer", {"--genomes", "g", "--taxonomy", "t", "--sequence-taxa", "s", "--reads"}},
    {"tiermap-kmer", {"--genomes", "g", "--sequence-taxa", "s", "--build-only", "--database", "d", "--taxonomy"}},
};

class UnreadableInputTest : public ProgramTest {
 protected:
  UnreadableInputTest() { longest_run_seconds = 60; }

  void expect_all_refuse(const std::string& file, const std::string& part) const {
    for (const Reader& reader : readers) {
      std::vector<std::string> arguments = reader.before;
      arguments.push_back(file);
      expect_refused(reader.program, arguments, part);
    }
    // This one reads all of a folder.
    std::filesystem::create_directory(path("lists"));
    std::filesystem::rename(file, path("lists/mirror_Packages"));
    expect_refused("tiermap-debian-graph", {"--lists", path("lists"), "--output", path("work/edges")}, "lists");
  }
};

TEST_F(UnreadableInputTest, AFifo) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  expect_all_refuse(path("fifo"), "fifo");
}

TEST_F(UnreadableInputTest, AFileThatMayNotBeRead) {
  if (const std::string reason = start_without_privileges(); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const std::string file = write_file("secret", std::string(8192, 'x'));
  ASSERT_EQ(::chmod(file.c_str(), 0), 0);
  expect_all_refuse(file, "secret");
}

TEST_F(UnreadableInputTest, AnEmptyFile) {
  expect_all_refuse(write_file("empty", ""), "empty");
}

TEST_F(UnreadableInputTest, AConfigurationThatIsAFifo) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  set_environment("TIERMAP_CONFIG", path("fifo"));
  expect_refused("tiermap-sort", {"--bytes", "1MiB"}, "fifo");
  expect_refused("tiermap-bfs", {"--scale", "4"}, "fifo");
}

}  // namespace
}  // namespace tiermap::test
