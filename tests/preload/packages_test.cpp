// Programs as they are packaged, which map files of their own accord: what they print and leave behind is the same
// through `tiermap run` as without it, byte for byte.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "preload/served_program.hpp"

namespace tiermap {
namespace {

const std::string programs = std::string(TIERMAP_SOURCE_FOLDER) + "/tests/preload/programs/";

class PackagesTest : public ::testing::Test {
 protected:
  void SetUp() override { skip_where_nothing_is_served(); }
  /// Runs the command plainly on `plain` and served on `served`, which it names @; their outputs are to be the same.
  void expect_same(const std::string& command, const std::string& plain, const std::string& served) {
    const ProgramResult one = runs_.plain(with(command, plain));
    ASSERT_EQ(one.exit_code, 0) << one.errors;
    const ProgramResult other = runs_.served(with(command, served));
    EXPECT_EQ(other.exit_code, 0);
    EXPECT_EQ(other.output, one.output);
    EXPECT_EQ(other.errors, one.errors);
    EXPECT_TRUE(tells_of_mappings(other.report)) << other.report;
    EXPECT_EQ(other.report.find(" 0 mappings served"), std::string::npos) << other.report;
  }
  void expect_same(const std::string& command) { expect_same(command, "", ""); }
  void expect_same_files(const std::string& one, const std::string& other) const {
    EXPECT_TRUE(contents_of(runs_.path(one)) == contents_of(runs_.path(other))) << one << " and " << other;
    EXPECT_FALSE(contents_of(runs_.path(one)).empty());
  }
  /// Words that come again at long distances, in lines.
  void make_text(const std::string& name, std::size_t bytes) const {
    std::mt19937_64 random(7);
    std::string text;
    text.reserve(bytes + 100);
    while (text.size() < bytes) {
      if (text.size() > 1'000'000 && random() % 400 == 0) {
        text += text.substr(random() % (text.size() - 20'000), 20'000);
      }
      text += std::to_string(random() % 100'000);
      text += random() % 9 == 0 ? "\n" : " ";
    }
    std::ofstream(runs_.path(name), std::ios::binary) << text;
  }

  ProgramRuns runs_;

 private:
  static std::string with(std::string command, const std::string& name) {
    for (std::size_t at = command.find('@'); at != std::string::npos; at = command.find('@', at)) {
      command.replace(at, 1, name);
    }
    return command;
  }
};

#define SKIP_WITHOUT(program, package) \
  if (!has_program(program)) GTEST_SKIP() << "no " program " here: install " package

TEST_F(PackagesTest, Lrzip) {
  SKIP_WITHOUT("lrzip", "lrzip");
  make_text("text", 12 << 20);
  const ProgramResult plain = runs_.plain("lrzip -q -n -p 1 -o one.lrz text");
  ASSERT_EQ(plain.exit_code, 0) << plain.errors;
  const ProgramResult served = runs_.served("lrzip -q -n -p 1 -o other.lrz text", "--serve-all --buffer 4MiB");
  EXPECT_EQ(served.exit_code, 0) << served.errors;
  EXPECT_EQ(served.report.find(" 0 mappings served"), std::string::npos) << served.report;
  EXPECT_TRUE(tells_of_mappings(served.report));
  expect_same_files("one.lrz", "other.lrz");
  ASSERT_EQ(runs_.plain("lrzip -q -d -o back other.lrz").exit_code, 0);
  expect_same_files("text", "back");
}

TEST_F(PackagesTest, Sqlite) {
  SKIP_WITHOUT("sqlite3", "sqlite3");
  std::ofstream(runs_.path("fill.sql"))
      << "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c INTEGER);"
         "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) "
         "INSERT INTO t SELECT i, hex(i * 7919) || 'text of some length ' || i, i % 1000 FROM n;"
         "CREATE INDEX tc ON t(c);";
  ASSERT_EQ(runs_.plain("sqlite3 -init fill.sql one.db .exit").exit_code, 0);
  std::filesystem::copy_file(runs_.path("one.db"), runs_.path("other.db"));
  expect_same("sqlite3 @ '.read " + programs + "sessions.sql'", "one.db", "other.db");
  expect_same_files("one.db", "other.db");
}

// Two processes in turns on one database, each with its own mapping of it: whoever gets the lock sees what the other
// has done.
TEST_F(PackagesTest, SqliteOfTwoProcesses) {
  SKIP_WITHOUT("sqlite3", "sqlite3");
  std::ofstream(runs_.path("turns.sh"))
      << "run=$1\n"
         "rm -f turns.db\n"
         "sqlite3 turns.db 'CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
         "SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO t SELECT i, hex(zeroblob(100)) FROM n;'\n"
         "count() { for i in 1 2 3 4 5 6 7 8 9 10; do echo \"UPDATE t SET b = b || '$1' WHERE a % 10 = $i % 10; SELECT "
         "count(*) FROM t;\"; done; }\n"
         "{ echo 'PRAGMA mmap_size=100000000;'; echo '.timeout 20000'; count x; } >x.sql\n"
         "{ echo 'PRAGMA mmap_size=100000000;'; echo '.timeout 20000'; count y; } >y.sql\n"
         "$run sqlite3 turns.db '.read x.sql' >x.out & $run sqlite3 turns.db '.read y.sql' >y.out; wait\n"
         "sqlite3 turns.db 'PRAGMA integrity_check; SELECT sum(length(b)), count(*) FROM t;'\n";
  const ProgramResult plain = runs_.plain("sh turns.sh");
  ASSERT_EQ(plain.exit_code, 0) << plain.errors;
  const ProgramResult served =
      runs_.plain("sh turns.sh '" + runs_.tiermap("--serve-all --minimum-size 64KiB") + " --'");
  EXPECT_EQ(served.output, plain.output);
  EXPECT_EQ(served.errors, plain.errors);
  EXPECT_TRUE(tells_of_mappings(contents_of(runs_.path("report"))));
}

// A log of commits that another process moves to the database, and nothing else, between two queries: SQLite takes no
// lock on the database then.
TEST_F(PackagesTest, SqliteWithALogThatAnotherProcessMoves) {
  SKIP_WITHOUT("sqlite3", "sqlite3");
  std::ofstream(runs_.path("logged.sh"))
      << "rm -rf log.db* updated before moved after writer reader\n"
         "sqlite3 log.db 'PRAGMA journal_mode=wal; CREATE TABLE t(a INTEGER PRIMARY KEY, n INTEGER, b TEXT); WITH "
         "RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) INSERT INTO t SELECT i, 1, "
         "hex(zeroblob(450)) FROM n;' >made\n"
         "mkfifo writer reader\n"
         "sqlite3 log.db <writer >written & $1 sqlite3 log.db <reader >read & exec 3>writer 4>reader\n"
         "ask() { printf '%s\\n' \".output $2\" \"$3\" '.output stdout' >&$1; until [ -s $2 ]; do sleep 0.05; done; }\n"
         "echo 'PRAGMA wal_autocheckpoint=0; UPDATE t SET n = 7 WHERE a % 50 = 0;' >&3\n"
         "echo 'PRAGMA mmap_size=100000000; PRAGMA cache_size=5;' >&4\n"
         "ask 3 updated 'SELECT 1;'\n"
         "ask 4 before 'SELECT sum(n) FROM t;'\n"
         "ask 3 moved 'PRAGMA wal_checkpoint;'\n"
         "ask 4 after 'SELECT sum(n) FROM t;'\n"
         "exec 3>&- 4>&-; wait; cat before moved after\n";
  const ProgramResult plain = runs_.plain("sh logged.sh");
  ASSERT_EQ(plain.output, "4480\n0|80|80\n4480\n") << plain.errors;
  for (const char* options : {"--serve-all --minimum-size 64KiB --page-size 64KiB", "--buffer 2MiB",
                              "--serve-all --minimum-size 4KiB --page-size 4KiB"}) {
    const ProgramResult served = runs_.plain("sh logged.sh '" + runs_.tiermap(options) + " --'");
    EXPECT_EQ(served.output, plain.output) << options;
    EXPECT_EQ(served.errors, plain.errors) << options;
    EXPECT_NE(contents_of(runs_.path("report")).find("write-ahead log"), std::string::npos) << options;
  }
}

TEST_F(PackagesTest, Lmdb) {
  SKIP_WITHOUT("mdb_load", "lmdb-utils");
  std::mt19937_64 random(5);
  std::ofstream text(runs_.path("pairs"));
  text << "VERSION=3\nformat=bytevalue\ntype=btree\nmapsize=1073741824\nmaxreaders=126\nHEADER=END\n";
  for (int key = 0; key < 20000; ++key) {
    text << " " << std::hex << 0x1000000000000000 + random() % 0x1000000000 << "\n " << 0x1000000000000000 + key
         << "ab\n";
  }
  text << "DATA=END\n";
  text.close();
  for (const char* folder : {"one", "other", "one.copy", "other.copy"}) {
    std::filesystem::create_directory(runs_.path(folder));
  }
  expect_same("mdb_load -f pairs @", "one", "other");
  expect_same("mdb_stat -e @", "one", "other");
  expect_same("mdb_dump @", "one", "other");
  expect_same("mdb_copy -c @ @.copy", "one", "other");
  expect_same_files("one/data.mdb", "other/data.mdb");
  expect_same_files("one.copy/data.mdb", "other.copy/data.mdb");
}

TEST_F(PackagesTest, Ripgrep) {
  SKIP_WITHOUT("rg", "ripgrep");
  make_text("text", 20 << 20);
  expect_same("rg --mmap -n ' 4711[0-9]*$' text");
}

TEST_F(PackagesTest, Look) {
  SKIP_WITHOUT("look", "bsdextrautils");
  make_text("text", 4 << 20);
  ASSERT_EQ(runs_.plain("env LC_ALL=C sort -o sorted text").exit_code, 0);
  expect_same("look -t x 471 sorted");
}

TEST_F(PackagesTest, Git) {
  SKIP_WITHOUT("git", "git");
  make_text("text", 6 << 20);
  std::ofstream(runs_.path("commit.sh"))
      << "git init -q one && cd one && cp ../text . && git add text && git -c user.name=n -c user.email=e commit -q -m "
         "m "
         "--date=2001-01-01T00:00:00 && git -c pack.compression=0 -c pack.depth=0 repack -q -a -d\n";
  ASSERT_EQ(runs_.plain("sh commit.sh").exit_code, 0);
  expect_same("git -C one fsck --full --no-progress");
  expect_same("git -C one cat-file blob HEAD:text");
}

TEST_F(PackagesTest, Numpy) {
  std::string python = "/usr/bin/python3";
  if (!has_program(python + " -c 'import numpy'; " + python) ||
      runs_.plain(python + " -c 'import numpy'").exit_code != 0) {
    GTEST_SKIP() << "no numpy for /usr/bin/python3 here: install python3-numpy";
  }
  expect_same(python + " " + programs + "maps_with_numpy.py @", "one.bin", "other.bin");
  expect_same_files("one.bin", "other.bin");
}

TEST_F(PackagesTest, Java) {
  SKIP_WITHOUT("java", "openjdk-17-jdk-headless");
  if (runs_.plain("java " + programs + "MapsWithJava.java one.bin").exit_code != 0) {
    GTEST_SKIP() << "java cannot run a source file here: install openjdk-17-jdk-headless";
  }
  expect_same("java " + programs + "MapsWithJava.java @", "one.bin", "other.bin");
  expect_same_files("one.bin", "other.bin");
}

}  // namespace
}  // namespace tiermap
