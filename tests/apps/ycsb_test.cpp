// tiermap-ycsb from outside: every workload on every system is verified; pools are kept and used again; what cannot be
// meant is refused and nothing is lost.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/program_fixture.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-ycsb";

class YcsbTest : public ProgramTest {
 protected:
  nlohmann::json verified_run(std::vector<std::string> arguments) const {
    for (const char* word : {"--page-size", "4KiB", "--json"}) {
      arguments.emplace_back(word);
    }
    if (std::find(arguments.begin(), arguments.end(), "--budget") == arguments.end()) {
      arguments.insert(arguments.end(), {"--budget", "1MiB"});
    }
    return verified_report(program, arguments);
  }
  /// A pool of 2,000 records in work/pool.
  std::string kept_pool() const {
    const std::string pool = path("work/pool");
    EXPECT_EQ(verified_run({"--records", "2000", "--value-size", "64", "--operations", "0", "--durability", "none",
                            "--capacity", "2600", "--keep", "--file", pool})
                  .value("file", ""),
              pool);
    EXPECT_EQ(left_behind(), (std::vector<std::string>{"pool", "pool.log"}));
    return pool;
  }
};

class YcsbSystemTest : public YcsbTest, public testing::WithParamInterface<std::string> {};

TEST_P(YcsbSystemTest, EveryWorkloadIsVerifiedThroughEitherIndex) {
  for (const char* workload : {"a", "b", "c", "d", "e", "f"}) {
    const bool scans = *workload == 'e';
    const bool writes = *workload != 'c';
    const nlohmann::json report = verified_run({"--system", GetParam(), "--workload", workload, "--index",
                                                scans || *workload == 'f' ? "ordered" : "hash", "--durability",
                                                *workload == 'a' ? "sync" : "none", "--records", "3000", "--value-size",
                                                "400", "--operations", "600", "--threads", "4"});
    expect_shared_fields(report, std::string("ycsb-") + workload, GetParam());
    EXPECT_EQ(report.at("operations"), 600);
    EXPECT_GT(report.at("operations_per_second").get<double>(), 0);
    EXPECT_GT(report.at("loads_per_second").get<double>(), 0);
    EXPECT_EQ(report.at("loaded_records"), 3000);
    const nlohmann::json& latencies = report.at("latency_microseconds");
    EXPECT_EQ(latencies.contains("scan"), scans);
    EXPECT_EQ(latencies.contains("update"), *workload == 'a' || *workload == 'b');
    EXPECT_EQ(latencies.contains("insert"), scans || *workload == 'd');
    EXPECT_EQ(latencies.contains("read_modify_write"), *workload == 'f');
    EXPECT_EQ(report.at("logged_bytes").get<std::uint64_t>() > 0, writes);
    const std::uint64_t inserts =
        latencies.contains("insert") ? latencies.at("insert").at("count").get<std::uint64_t>() : 0;
    EXPECT_EQ(report.at("records"), 3000 + inserts);
    EXPECT_TRUE(left_behind().empty());
  }
}

TEST_P(YcsbSystemTest, AKeptPoolIsUsedAgainAndGrows) {
  const std::string pool = kept_pool();
  std::uint64_t records = 2000;
  for (const char* index : {"hash", "ordered"}) {
    const nlohmann::json report =
        verified_run({"--system", GetParam(), "--file", pool, "--workload", "d", "--index", index, "--operations",
                      "2000", "--durability", "none", "--log-limit", "16KiB"});
    EXPECT_EQ(report.at("loaded_records"), 0);
    EXPECT_GT(report.at("checkpoints"), 0);
    EXPECT_GT(report.at("records"), records);
    records = report.at("records");
    EXPECT_EQ(left_behind().size(), 2U);
  }
  EXPECT_EQ(verified_run({"--system", GetParam(), "--file", pool, "--operations", "0"}).at("records"), records);
}

INSTANTIATE_TEST_SUITE_P(All, YcsbSystemTest, testing::Values("tiermap", "mmap", "memory"),
                         [](const testing::TestParamInfo<std::string>& parameter) { return parameter.param; });

TEST_F(YcsbTest, PeersDoTheSameWork) {
  for (const char* peer : {"rocksdb", "lmdb"}) {
    if (run(program, {"--system", peer, "--records", "1", "--operations", "0"}).errors.find("not in this program") !=
        std::string::npos) {
      continue;  // Its package was not there.
    }
    for (const char* workload : {"a", "d", "e"}) {
      const nlohmann::json report = verified_run({"--system", peer, "--workload", workload, "--records", "1000",
                                                  "--operations", "200", "--threads", "4", "--budget", "16MiB"});
      expect_shared_fields(report, std::string("ycsb-") + workload, peer);
      EXPECT_TRUE(left_behind().empty());
    }
  }
  expect_refused(program, {"--system", "rocksdb", "--keep"}, "leave --keep out");
}

TEST_F(YcsbTest, PeersAreRefusedADiskThatIsTooSmall) {
  const std::string disk = path("disk");
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=2m") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs is not permitted: " << std::strerror(errno);
  }
  for (const char* peer : {"rocksdb", "lmdb"}) {
    expect_refused(program, {"--system", peer, "--records", "4000", "--file", disk + "/peer"}, "has room for");
    EXPECT_TRUE(std::filesystem::is_empty(disk));
  }
  ::umount(disk.c_str());
}

TEST_F(YcsbTest, ChoosesRecordsInEveryWay) {
  for (const char* distribution : {"uniform", "zipfian", "latest"}) {
    const nlohmann::json report = verified_run({"--distribution", distribution, "--records", "500", "--operations",
                                                "500", "--durability", "none", "--partitions", "4", "--threads", "16"});
    EXPECT_EQ(report.at("distribution"), distribution);
  }
}

TEST_F(YcsbTest, ScansGoOnFromPartitionToPartition) {
  const nlohmann::json report =
      verified_run({"--workload", "e", "--index", "ordered", "--records", "640", "--partitions", "64", "--value-size",
                    "8", "--operations", "300", "--durability", "none", "--longest-scan", "200", "--threads", "3"});
  EXPECT_GT(report.at("scanned_records").get<std::uint64_t>(), 300U * 50);
}

TEST_F(YcsbTest, ReportsToPeople) {
  const Outcome outcome = run(program, {"--records", "100", "--operations", "100", "--durability", "none"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("operations a second"), std::string::npos) << outcome.output;
}

TEST_F(YcsbTest, RefusesWhatCannotBeMeant) {
  expect_refused(program, {"--workload", "g"}, "workload g");
  expect_refused(program, {"--workload", "e"}, "--index ordered");
  expect_refused(program, {"--index", "tree"}, "index tree");
  expect_refused(program, {"--durability", "some"}, "durability some");
  expect_refused(program, {"--distribution", "even"}, "distribution even");
  expect_refused(program, {"--value-size", "12"}, "multiple of 8");
  expect_refused(program, {"--records", "0"}, "records 0");
  expect_refused(program, {"--records", "100", "--bytes", "1GiB"}, "choose one");
  expect_refused(program, {"--records", "100", "--partitions", "3"}, "power of two");
  expect_refused(program, {"--records", "100", "--partitions", "128"}, "power of two");
  expect_refused(program, {"--records", "100", "--capacity", "99"}, "at least 100");
  expect_refused(program, {"--records", "100", "--workload", "d", "--operations", "1000", "--capacity", "100"},
                 "inserts");
  expect_refused(program, {"--longest-scan", "0"}, "longest scan 0");
  expect_refused(program, {"--log-limit", "some"}, "some");
  expect_refused(program, {"--system", "oracle"}, "oracle");
  expect_refused(program, {"--records", "100", "--file", "sparse:" + path("work/pool")}, "plain file");
  expect_refused(program, {"--records", "100", "--file", "memory:1GiB"}, "plain file");
  expect_refused(program, {"--records", "100", "--acknowledge", path("missing/file"), "--durability", "none"},
                 "missing/file");
}

TEST_F(YcsbTest, APoolOfOtherNumbersIsRefused) {
  const std::string pool = kept_pool();
  expect_refused(program, {"--file", pool, "--value-size", "72"}, "--value-size 64, not 72", 2);
  expect_refused(program, {"--file", pool, "--records", "2001"}, "--records 2000, not 2001", 2);
  expect_refused(program, {"--file", pool, "--partitions", "2"}, "--partitions", 2);
  expect_refused(program, {"--file", pool, "--bytes", "1GiB"}, "--bytes is for a pool to be made", 2);
  expect_refused(program, {"--file", pool, "--workload", "d", "--operations", "100000"}, "more --capacity", 2);
  expect_refused(program, {"--file", pool, "--acknowledge", pool}, "is the pool or its log", 2);
  expect_refused(program, {"--file", pool, "--acknowledge", pool + ".log"}, "is the pool or its log", 2);
  expect_refused(program, {"--file", "file:" + pool, "--acknowledge", pool + ".log"}, "is the pool or its log", 2);
  expect_refused(program, {"--file", pool, "--capacity", "2700"}, "--capacity", 2);
  verified_run({"--file", pool, "--value-size", "64", "--records", "2000", "--operations", "10"});
  // Not compared with the million records that a new pool would have by default.
  verified_run({"--file", pool, "--capacity", "2600", "--operations", "10"});
}

TEST_F(YcsbTest, APoolThatIsDamagedIsRefusedAndStays) {
  const std::string pool = kept_pool();
  const auto refused = [&](const std::string& part) {
    expect_refused(program, {"--file", pool, "--operations", "0"}, part, 2);
  };
  const std::uint64_t bytes = std::filesystem::file_size(pool);
  std::filesystem::resize_file(pool, bytes - 4096);
  refused("is cut off");
  std::filesystem::resize_file(pool, bytes);
  change_byte(pool, 8);
  refused("version 2");
  change_byte(pool, 8);
  change_byte(pool, 24);
  refused("damaged header");
  change_byte(pool, 24);
  change_byte(pool, 0);
  refused("is no pool");
  change_byte(pool, 0);
  std::filesystem::rename(pool + ".log", path("log"));
  expect_refused(program, {"--file", pool, "--operations", "0"}, "pool.log", 1);
  std::filesystem::rename(path("log"), pool + ".log");
  {
    const int descriptor = ::open((pool + ".log").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(::flock(descriptor, LOCK_EX), 0);
    refused("another process");
    ::close(descriptor);
  }
  verified_run({"--file", pool, "--operations", "10"});
}

TEST_F(YcsbTest, ARecordThatIsDamagedIsFoundBeforeAnythingIsDone) {
  const std::string pool = kept_pool();
  std::fstream stream(pool, std::ios::binary | std::ios::in | std::ios::out);
  std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  stream.close();
  // The last byte that is not zero before the last partition's nodes is in some record's value, or in an index.
  change_byte(pool, bytes.find_last_not_of('\0'));
  const Outcome outcome = run(program, {"--file", pool, "--operations", "100"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
  EXPECT_NE(outcome.errors.find("bring back a copy"), std::string::npos) << outcome.errors;
  EXPECT_EQ(left_behind().size(), 2U);
}

}  // namespace
}  // namespace tiermap::test
