// One k-mer database on several servers, and several programs that classify by it: the answers are the local ones.
#include <signal.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cluster/remote/memory_client.hpp"
#include "cluster/server_process.hpp"
#include "cluster/wire_fixture.hpp"
#include "store/temporary_directory.hpp"

namespace tiermap {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

void run(const std::vector<std::string>& arguments) {
  ChildProcess program(arguments);
  program.output();
  ASSERT_EQ(program.wait(), 0) << program.errors();
}

TEST(RemoteDatabaseTest, SeveralClientsClassifyByOneDatabaseOnSeveralServers) {
  const TemporaryDirectory directory(".");
  const std::string input = directory / "input";
  const std::string database = directory / "database";
  run({"tiermap-kmer", "--generate", input, "--genome-bases", "20000", "--organisms", "12", "--read-count", "600"});
  run({"tiermap-kmer", "--genomes", input + "/genomes.fasta", "--taxonomy", input + "/taxonomy.tsv", "--sequence-taxa",
       input + "/sequence-taxa.tsv", "--database", database, "--build-only", "--budget", "16MiB", "--no-verify"});
  const ServerProcess one;
  const ServerProcess other;
  const std::string url = "remote://" + one.address + "," + other.address + "/database?layout=striped&stripe=64KiB";
  run({"tiermap", "serve", "load", database, url});
  const auto classify = [&](const std::string& from, const std::string& output) {
    return std::make_unique<ChildProcess>(std::vector<std::string>{"tiermap-kmer", "--database", from, "--reads",
                                                                   input + "/reads.fastq", "--budget", "4MiB",
                                                                   "--output", output, "--json"});
  };
  const auto report_of = [](ChildProcess& program) {
    const std::string output = program.output();
    EXPECT_EQ(program.wait(), 0) << program.errors();
    return nlohmann::json::parse(output);
  };
  const nlohmann::json local = report_of(*classify(database, directory / "local"));
  EXPECT_EQ(local["reads"], 600);
  std::vector<std::unique_ptr<ChildProcess>> clients;
  for (int client = 0; client < 3; ++client) {
    clients.push_back(classify(url, directory / ("client-" + std::to_string(client))));
  }
  for (int client = 0; client < 3; ++client) {
    const nlohmann::json report = report_of(*clients[static_cast<std::size_t>(client)]);
    EXPECT_EQ(report["digest"], local["digest"]);
    EXPECT_EQ(report["verified"], true);
    EXPECT_EQ(report["file"], url);
    EXPECT_EQ(text_of(directory / ("client-" + std::to_string(client))), text_of(directory / "local"));
  }
}

TEST(RemoteDatabaseTest, ADatabaseThatIsNotServedIsRefused) {
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "reads.fasta") << ">read\nACGTACGTACGTACGTACGTACGT\n";
  const ServerProcess server;
  ChildProcess program({"tiermap-kmer", "--database", server.url("none"), "--reads", directory / "reads.fasta"});
  const std::string errors = program.errors();
  EXPECT_EQ(program.wait(), 2);
  EXPECT_NE(errors.find("is not there"), std::string::npos) << errors;
}

// It is always new, and gone with its maker.
TEST(RemoteDatabaseTest, AnApplicationTakesADataSetThatIsTemporary) {
  const ServerProcess server;
  Wire wire{WireOptions()};
  MemoryClient client(wire, parse_host_and_port(server.address, "server"), {});
  run({"tiermap-sort", "--bytes", "1MiB", "--budget", "4MiB", "--file", server.url("words", "?temporary=true")});
  EXPECT_TRUE(comes_true([&] { return client.list("").empty(); }));
}

TEST(RemoteDatabaseTest, ABuildThatIsEndedLeavesNoDatabaseOnItsServer) {
  const TemporaryDirectory directory(".");
  const ServerProcess server({"--memory", "256MiB"});
  Wire wire{WireOptions()};
  MemoryClient client(wire, parse_host_and_port(server.address, "server"), {});
  const auto build = [&](const std::string& bytes) {
    return std::vector<std::string>{"/usr/bin/env",
                                    "TMPDIR=" + std::string(directory / ""),
                                    std::string(TIERMAP_BINARY_FOLDER) + "/tiermap-kmer",
                                    "--bytes",
                                    bytes,
                                    "--budget",
                                    "16MiB",
                                    "--build-only",
                                    "--database",
                                    server.url("database")};
  };
  for (const int signal : {SIGTERM, SIGKILL}) {
    ChildProcess program(build("32MiB"));
    ASSERT_TRUE(comes_true([&] { return program.ended() || !client.list("").empty(); }));
    program.signal(signal);
    EXPECT_EQ(program.wait(), 128 + signal) << program.errors();
    EXPECT_TRUE(comes_true([&] { return client.list("").empty(); }));
  }
  run(build("1MiB"));
  EXPECT_EQ(client.list("").size(), 1U);
}

}  // namespace
}  // namespace tiermap
