// `tiermap serve`'s subcommands on servers that are processes of their own.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cluster/flip_in_file.hpp"
#include "cluster/remote/memory_client.hpp"
#include "cluster/server_process.hpp"
#include "cluster/wire_fixture.hpp"
#include "store/temporary_directory.hpp"
#include "tier/tiering_options.hpp"
#include "tiermap/error.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebi = 1 << 20;

/// What `tiermap serve ARGUMENTS` prints.
std::string said_by(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"tiermap", "serve"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  ChildProcess command(all);
  const std::string output = command.output();
  EXPECT_EQ(command.wait(), 0) << command.errors();
  return output;
}

/// Its one line of error.
std::string refusal_by(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"tiermap", "serve"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  ChildProcess command(all);
  const std::string errors = command.errors();
  EXPECT_EQ(command.wait(), 1) << errors;
  EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << errors;
  return errors;
}

TEST(ServeCommandsTest, OpenToOtherMachinesItSaysWhereUsersAreNamed) {
  ChildProcess command({"tiermap", "serve", "--listen", "0.0.0.0:0", "--memory", "1MiB"});
  const std::string errors = command.errors();
  EXPECT_EQ(command.wait(), 2);
  EXPECT_NE(errors.find("file name `users` (docs/cluster.md)"), std::string::npos) << errors;
}

TEST(ServeCommandsTest, ADataSetIsMadeLongerAndShorterWhereItLies) {
  const ServerProcess one;
  const ServerProcess other;
  const std::string url = "remote://" + one.address + "," + other.address + "/set?layout=striped&stripe=64KiB";
  said_by({"create", url, "--size", "1000000"});
  {
    const auto store = open_store(url, OpenMode::read_write);
    const auto content = test_body(1'000'000, 1);
    ASSERT_EQ(store->write(content.data(), content.size(), 0), 1'000'000);
    EXPECT_NE(refusal_by({"resize", url, "--size", "1MiB"}).find("is being written by"), std::string::npos);
    const auto told = nlohmann::json::parse(said_by({"stat", url, "--json"}));
    EXPECT_EQ(told["servers"][0]["writers"], 1);
  }
  said_by({"resize", url, "--size", "3000000"});
  said_by({"resize", url, "--size", "300000"});
  said_by({"resize", url, "--size", "2000000"});
  const auto told = nlohmann::json::parse(said_by({"stat", url, "--json"}));
  EXPECT_EQ(told["bytes"], 2'000'000);
  EXPECT_EQ(told["layout"], "striped over 2 servers, 1 copy, stripes of 64KiB");
  ASSERT_EQ(told["servers"].size(), 2U);
  EXPECT_EQ(told["servers"][0]["server"], one.address);
  EXPECT_EQ(told["servers"][1]["place"], "memory");
  EXPECT_GE(told["servers"][0]["bytes"].get<int>() + told["servers"][1]["bytes"].get<int>(), 2'000'000);
  const auto store = open_store(url, OpenMode::read_only);
  std::vector<std::byte> got(2'000'000);
  ASSERT_EQ(store->read(got.data(), got.size(), 0), 2'000'000);
  const std::vector<std::byte> content = test_body(1'000'000, 1);
  EXPECT_TRUE(same_bytes(std::span(got).first(300'000), std::span(content).first(300'000)));
  EXPECT_EQ(std::ranges::count(std::span(got).subspan(300'000), std::byte{0}), 1'700'000);
}

TEST(ServeCommandsTest, ASizeThatOneServerHasNoRoomForIsNoServers) {
  const ServerProcess wide({"--memory", "64MiB"});
  const ServerProcess narrow({"--memory", "4MiB"});
  for (const std::string layout : {"striped", "replicated"}) {
    const std::string url = "remote://" + wide.address + "," + narrow.address + "/" + layout + "?layout=" + layout;
    said_by({"create", url, "--size", "1MiB"});
    const std::vector<std::byte> content = test_body(mebi, 1);
    ASSERT_EQ(open_store(url, OpenMode::read_write)->write(content.data(), content.size(), 0), mebi);
    EXPECT_NE(refusal_by({"resize", url, "--size", "32MiB"}).find("No space left"), std::string::npos);
    EXPECT_EQ(nlohmann::json::parse(said_by({"stat", url, "--json"}))["bytes"], mebi);
    const auto store = open_store(url, OpenMode::read_write);
    ASSERT_EQ(store->size_bytes(), mebi);
    std::vector<std::byte> got(mebi);
    ASSERT_EQ(store->read(got.data(), got.size(), 0), mebi);
    EXPECT_TRUE(same_bytes(got, content));
    EXPECT_EQ(store->write(content.data(), content.size(), 0), mebi) << layout;
  }
}

TEST(ServeCommandsTest, WhatCannotBeIsSaidInOneLine) {
  const ServerProcess server({"--memory", "2MiB"});
  EXPECT_NE(refusal_by({"stat", server.url("none")}).find("is not here"), std::string::npos);
  EXPECT_NE(refusal_by({"resize", server.url("none"), "--size", "1MiB"}).find("is not here"), std::string::npos);
  said_by({"create", server.url("set"), "--size", "1MiB"});
  EXPECT_NE(refusal_by({"resize", server.url("set"), "--size", "1GiB"})
                .find("cannot be made 1GiB: No space left on device: drop others, or give its servers more room"),
            std::string::npos);
  EXPECT_NE(said_by({"stat", server.url("set")}).find("set: 1048576 bytes, on one server, owner -"), std::string::npos);
}

TEST(ServeCommandsTest, WhatGrowsTooFarInMemoryIsToldHowFarItMay) {
  const ServerProcess server({"--memory", "2GiB"});
  said_by({"create", server.url("set"), "--size", "4KiB"});
  EXPECT_NE(
      refusal_by({"resize", server.url("set"), "--size", "1025MiB"})
          .find("cannot be made 1025MiB: Cannot allocate memory: in memory it becomes eight times as long as it was "
                "made, or 1GiB: make a longer one"),
      std::string::npos);
}

TEST(ServeCommandsTest, AListSaysWhoIsAttached) {
  const ServerProcess server;
  said_by({"create", server.url("set"), "--size", "1MiB"});
  const auto attached_by = [&](const std::string& who) {
    return said_by({"list", server.address}).ends_with(", on one server, attached by " + who + "\n") &&
           said_by({"stat", server.url("set")}).ends_with(", attached by " + who + "\n");
  };
  ASSERT_TRUE(comes_true([&] { return attached_by("nobody"); }));  // The server hears a moment later who is gone.
  {
    Wire wire{WireOptions()};
    MemoryClient one(wire, parse_host_and_port(server.address, "server"), {});
    DataSetFacts facts;
    one.attach("set", false, facts);
    EXPECT_TRUE(attached_by("one that reads")) << said_by({"list", server.address});
    MemoryClient other(wire, parse_host_and_port(server.address, "server"), {});
    other.attach("set", false, facts);
    EXPECT_TRUE(attached_by("2 that read")) << said_by({"list", server.address});
  }
  ASSERT_TRUE(comes_true([&] { return attached_by("nobody"); }));
  Wire wire{WireOptions()};
  MemoryClient writer(wire, parse_host_and_port(server.address, "server"), {});
  DataSetFacts facts;
  writer.attach("set", true, facts);
  EXPECT_TRUE(attached_by("one that writes")) << said_by({"list", server.address});
}

TEST(ServeCommandsTest, AServerThatIsGoneIsSaidBesideTheOthers) {
  const ServerProcess one;
  ServerProcess other;
  const std::string url = "remote://" + one.address + "," + other.address + "/set?layout=replicated&timeout=1s";
  said_by({"create", url, "--size", "1MiB"});
  other.signal(SIGKILL);
  other.wait();
  const auto told = nlohmann::json::parse(said_by({"stat", url, "--json"}));
  EXPECT_EQ(told["servers"][0]["bytes"], mebi);
  EXPECT_NE(told["servers"][1]["failure"].get<std::string>().find("cannot be reached"), std::string::npos);
}

/// Who opened it when one server was out of reach is attached to the other alone.
TEST(ServeCommandsTest, WhatIsInUseOnOneServerIsDroppedFromNone) {
  const ServerProcess one;
  const ServerProcess other;
  const std::string url = "remote://" + one.address + "," + other.address + "/set?layout=replicated";
  said_by({"create", url, "--size", "1MiB"});
  {
    Wire wire{WireOptions()};
    MemoryClient client(wire, parse_host_and_port(other.address, "server"), {});
    DataSetFacts facts;
    client.attach("set", false, facts);
    EXPECT_NE(refusal_by({"drop", url}).find("is in use by 1: drop it when they have ended"), std::string::npos);
    const auto told = nlohmann::json::parse(said_by({"stat", url, "--json"}));
    EXPECT_EQ(told["servers"][0]["bytes"], mebi);
    EXPECT_EQ(told["servers"][1]["bytes"], mebi);
  }
  // The servers hear a moment later that it is gone.
  ASSERT_TRUE(comes_true(
      [&] { return nlohmann::json::parse(said_by({"stat", url, "--json"}))["servers"][1]["readers"] == 0; }));
  said_by({"drop", url});
}

/// The others would have the rest of it, which nobody could open.
TEST(ServeCommandsTest, WhatLiesOnSeveralServersIsNotDroppedFromSome) {
  const ServerProcess one;
  const ServerProcess other;
  const std::string url = "remote://" + one.address + "," + other.address + "/set?layout=striped";
  said_by({"create", url, "--size", "4MiB"});
  EXPECT_NE(refusal_by({"drop", one.url("set")})
                .find("is striped over 2 servers, 1 copy, stripes of 1MiB, and not on one server: name servers and "
                      "layout as when it was created"),
            std::string::npos);
  EXPECT_NE(refusal_by({"drop", "remote://" + one.address + "," + other.address + "/set?layout=replicated"})
                .find("is striped over 2 servers"),
            std::string::npos);
  EXPECT_EQ(open_store(url, OpenMode::read_only)->size_bytes(), 4 * mebi);
  said_by({"drop", url});
  EXPECT_EQ(said_by({"list", one.address}), "");
  EXPECT_EQ(said_by({"list", other.address}), "");
}

TEST(ServeCommandsTest, TwoNamesOfOneServerAreFoundOut) {
  const ServerProcess server;
  const ServerProcess other;
  const std::string again = "localhost" + server.address.substr(server.address.find(':'));
  const std::string servers = "remote://" + other.address + "," + server.address + "," + again;
  const std::string said = "'" + server.address + "' and '" + again + "' are one server: name each once";
  EXPECT_NE(refusal_by({"create", servers + "/set?layout=striped", "--size", "4MiB"}).find(said), std::string::npos);
  ChildProcess program({"tiermap-sort", "--bytes", "1MiB", "--file", servers + "/set?layout=replicated"});
  const std::string errors = program.errors();
  EXPECT_EQ(program.wait(), 2);
  EXPECT_NE(errors.find(said), std::string::npos) << errors;
  EXPECT_EQ(said_by({"list", server.address}) + said_by({"list", other.address}), "");
  said_by({"create", server.url("set"), "--size", "1MiB"});
  EXPECT_NE(refusal_by({"create", "remote://" + other.address + "," + again + "/set?layout=striped", "--size", "4MiB"})
                .find("'set' is there already"),
            std::string::npos);
  EXPECT_NE(said_by({"list", server.address}), "");
}

TEST(ServeCommandsTest, ALoadThatIsKilledLeavesNothing) {
  const TemporaryDirectory directory(".");
  const ServerProcess one;
  const ServerProcess other;
  const std::string url = "remote://" + one.address + "," + other.address + "/set?layout=striped";
  std::ofstream(directory / "slow.yaml") << "backing: {bandwidth: 1MiB, emulated: true}\n"
                                            "tiers: [{kind: memory, capacity: 1MiB}]\n";
  std::ofstream(directory / "numbers") << "";
  std::filesystem::resize_file(directory / "numbers", 32 * mebi);
  ChildProcess load({"tiermap", "serve", "load",
                     "tiered:" + std::string(directory / "slow.yaml") + "?store=" + std::string(directory / "numbers"),
                     url});
  const auto is_listed = [](const ServerProcess& server) {
    return !nlohmann::json::parse(said_by({"list", server.address, "--json"})).empty();
  };
  ASSERT_TRUE(comes_true([&] { return is_listed(other); }));
  ASSERT_FALSE(load.ended());
  load.signal(SIGKILL);
  load.wait();
  EXPECT_TRUE(comes_true([&] { return !is_listed(one) && !is_listed(other); }));
  // And what is loaded as a whole stays.
  std::filesystem::resize_file(directory / "numbers", mebi);
  said_by({"load", directory / "numbers", url});
  EXPECT_TRUE(is_listed(one) && is_listed(other));
}

/// Nor takes away what somebody else has, whose name is what the file's would be in a URL.
TEST(ServeCommandsTest, ASaveThatFailsLeavesNothing) {
  const TemporaryDirectory directory(".");
  const std::string source = directory / "source";
  std::ofstream(source) << "";
  std::filesystem::resize_file(source, mebi);
  std::ofstream(directory / "a file") << "somebody's";
  std::ofstream(directory / "node.yaml") << "data_sets: [{name: set, store: '" << source << "'}]\n";
  const ServerProcess server({"--config", directory / "node.yaml"});
  const ServerProcess other;
  said_by({"save", server.url("set"), directory / "whole"});
  flip_in_file(source, 5000);
  for (const std::string& to : {std::string(directory / "a%20file"), "sparse:" + std::string(directory / "sparse"),
                                other.url("copy"), other.url("copy", "?temporary=true")}) {
    ChildProcess save({"tiermap", "serve", "save", server.url("set"), to});
    EXPECT_NE(save.errors(), "");
    EXPECT_NE(save.wait(), 0) << to;
  }
  EXPECT_TRUE(std::filesystem::exists(directory / "a file"));
  EXPECT_FALSE(std::filesystem::exists(directory / "a%20file"));
  EXPECT_FALSE(std::filesystem::exists(directory / "sparse"));
  EXPECT_EQ(said_by({"list", other.address}), "");
}

TEST(ServeCommandsTest, AFileOfAnyNameIsListed) {
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "node.yaml") << "data_sets: [{name: set, store: '" << (directory / "caf\xe9")
                                         << "', size: 4KiB}]\n";
  const ServerProcess server({"--config", directory / "node.yaml"});
  EXPECT_EQ(nlohmann::json::parse(said_by({"list", server.address, "--json"}))[0]["bytes"], 4096);
  EXPECT_EQ(nlohmann::json::parse(said_by({"stat", server.url("set"), "--json"}))["bytes"], 4096);
}

TEST(ServeCommandsTest, AServerIsMeasuredAsATier) {
  const ServerProcess server({"--memory", "100MiB"});
  const std::string url = "remote://" + server.address;
  ChildProcess doctor({"tiermap", "doctor", "--tiers", url + "?timeout=9s"});
  const std::string yaml = doctor.output();
  ASSERT_EQ(doctor.wait(), 0) << doctor.errors();
  const TieringOptions options = parse_tiering_options(yaml, "printed");
  ASSERT_EQ(options.tiers.size(), 2U);
  const auto tier = std::ranges::find(options.tiers, TierKind::remote, &TierOptions::kind);
  ASSERT_NE(tier, options.tiers.end());
  EXPECT_EQ(tier->url, url + "?timeout=9s");
  EXPECT_EQ(tier->name, server.address);
  EXPECT_EQ(tier->capacity_bytes, 32 * mebi);
  EXPECT_GT(tier->bytes_per_second, 0);
  EXPECT_GT(tier->latency_microseconds, 0);
  EXPECT_EQ(said_by({"list", server.address}), "");
  ChildProcess create({"tiermap", "serve", "create", url + "/set?temporary=true", "--size", "1MiB"});
  EXPECT_EQ(create.errors(), "tiermap: '" + url +
                                 "/set?temporary=true' is gone when this command ends: leave out "
                                 "temporary=true\n");
  EXPECT_EQ(create.wait(), 2);
}

TEST(ServeCommandsTest, TwoPlacesOfOneServerAreTwoTiers) {
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\nmemory: 100MiB\ndirectory: " << directory.path()
                                         << "\ndirectory_size: 100MiB\n";
  const ServerProcess server({"--config", directory / "node.yaml"});
  const std::string url = "remote://" + server.address + "?place=";
  ChildProcess doctor(
      {"tiermap", "doctor", "--tiers", "--cost", url + "directory=0.5", url + "memory", url + "directory"});
  const std::string yaml = doctor.output();
  ASSERT_EQ(doctor.wait(), 0) << doctor.errors();
  const TieringOptions options = parse_tiering_options(yaml, "printed");
  for (const std::string& place : {url + "memory", url + "directory"}) {
    const auto tier = std::ranges::find(options.tiers, place, &TierOptions::url);
    ASSERT_NE(tier, options.tiers.end()) << yaml;
    EXPECT_EQ(tier->name, place);
    EXPECT_EQ(tier->cost_per_gigabyte, place.ends_with("directory") ? 0.5 : 0);
  }
}

}  // namespace
}  // namespace tiermap
