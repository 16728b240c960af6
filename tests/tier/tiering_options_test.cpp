// The YAML file of tiers: what it may say, and that a mistake is told in one line with its place.
#include "tier/tiering_options.hpp"

#include <gtest/gtest.h>
#include <locale.h>

#include <array>
#include <cstdint>
#include <fstream>

#include "config/environment.hpp"
#include "platform/memory_limits.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

TieringOptions parse(const std::string& yaml) {
  return parse_tiering_options(yaml, "/t.yaml");
}

std::string refusal_of(const std::string& yaml) {
  return refusal([&] { parse(yaml); });
}

const std::string one_tier = "tiers: [{capacity: 1MiB}]\n";

TEST(TieringOptionsTest, says_what_it_says) {
  const TieringOptions options = parse(
      "block: 64KiB\nscore_window_seconds: 2\nwrite_down_seconds: 0.5\nretry_seconds: 7\n"
      "backing: {bandwidth: 150MiB, latency_microseconds: 8000, cost_per_gigabyte: 0.02, emulated: true}\n"
      "tiers:\n  - {name: dram, capacity: 1MiB, cost_per_gigabyte: 4.5}\n"
      "  - name: ssd\n    path: /tmp\n    capacity: 10GiB\n    bandwidth: 1GiB\n    latency_microseconds: 90\n"
      "  - {kind: emulated, capacity: 1MiB, bandwidth: 1MiB}\n"
      "  - {url: 'remote://node7:7070?timeout=1s', capacity: 1TiB}\n");
  EXPECT_EQ(options.block_bytes, 65536U);
  EXPECT_EQ(options.score_window_seconds, 2);
  EXPECT_EQ(options.write_down_seconds, 0.5);
  EXPECT_EQ(options.retry_seconds, 7);
  EXPECT_EQ(options.score_half_life_seconds, 30);
  EXPECT_TRUE(options.backing_emulated);
  EXPECT_EQ(options.backing_bytes_per_second, 150 << 20);
  EXPECT_EQ(options.backing_latency_microseconds, 8000);
  EXPECT_EQ(options.backing_cost_per_gigabyte, 0.02);
  ASSERT_EQ(options.tiers.size(), 4U);
  EXPECT_EQ(options.tiers[0].name, "dram");
  EXPECT_EQ(options.tiers[0].kind, TierKind::memory);
  EXPECT_EQ(options.tiers[0].cost_per_gigabyte, 4.5);
  EXPECT_EQ(options.tiers[1].kind, TierKind::directory);
  EXPECT_EQ(options.tiers[1].capacity_bytes, std::uint64_t{10} << 30);
  EXPECT_EQ(options.tiers[1].latency_microseconds, 90);
  EXPECT_EQ(options.tiers[2].kind, TierKind::emulated);
  EXPECT_EQ(options.tiers[2].name, "tier 3");
  EXPECT_EQ(options.tiers[3].kind, TierKind::remote);
  EXPECT_EQ(options.tiers[3].url, "remote://node7:7070?timeout=1s");
}

/// What glibc has of numbers in a locale where a comma is the decimal point, as in most of Europe: this machine need
/// not have one.
void write_numbers_with_comma(const std::filesystem::path& file) {
  std::filesystem::create_directories(file.parent_path());
  // Which category, how many values, and where each begins.
  constexpr std::array<std::uint32_t, 8> head = {0x20031114, 6, 32, 34, 36, 40, 44, 48};
  constexpr std::array<char, 8> narrow = {',', 0, '.', 0, 3, 3, 0, 0};
  constexpr std::array<std::uint32_t, 2> wide = {',', '.'};
  constexpr std::array<char, 6> codeset = {'U', 'T', 'F', '-', '8', 0};
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(head.data()), sizeof(head));
  out.write(narrow.data(), sizeof(narrow));
  out.write(reinterpret_cast<const char*>(wide.data()), sizeof(wide));
  out.write(codeset.data(), sizeof(codeset));
}

TEST(TieringOptionsTest, numbers_are_the_same_in_every_locale) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the C library forgets the path of a locale that is no longer used, a leak to AddressSanitizer";
#endif
  const TemporaryDirectory folder;
  write_numbers_with_comma(folder / "comma/LC_NUMERIC");
  ::setenv("LOCPATH", folder.path().c_str(), 1);
  const locale_t comma = ::newlocale(LC_NUMERIC_MASK, "comma", nullptr);
  ::unsetenv("LOCPATH");
  if (comma == nullptr) {
    GTEST_SKIP() << "the C library takes no locale of a test's own";
  }
  const locale_t before = ::uselocale(comma);
  EXPECT_STREQ(::localeconv()->decimal_point, ",");
  std::string refused;
  TieringOptions options;
  try {
    options = parse(one_tier + "score_window_seconds: 0.5\nretry_seconds: 1.25e1\n");
  } catch (const OptionError& error) {
    refused = error.what();
  }
  ::uselocale(before);
  ::freelocale(comma);
  EXPECT_EQ(refused, "");
  EXPECT_EQ(options.score_window_seconds, 0.5);
  EXPECT_EQ(options.retry_seconds, 12.5);
}

std::string order(const std::string& tiers, const std::string& block = "64KiB") {
  std::string names;
  for (const TierOptions& tier : tiers_by_speed(parse("block: " + block + "\ntiers: [" + tiers + "]\n"))) {
    names += tier.name;
  }
  return names;
}

TEST(TieringOptionsTest, the_order_is_that_of_what_a_block_takes) {
  const std::string a = "{name: a, capacity: 1MiB, bandwidth: 1GiB, latency_microseconds: 100}";
  const std::string b = "{name: b, capacity: 1MiB, bandwidth: 500MiB, latency_microseconds: 10}";
  const std::string unknown = "{name: u, capacity: 1MiB}";
  const std::string other = "{name: v, capacity: 1MiB}";
  // 64 KiB take 161 and 135 microseconds, 1 MiB 1077 and 2010.
  EXPECT_EQ(order(a + "," + b), "ba");
  EXPECT_EQ(order(b + "," + a), "ba");
  EXPECT_EQ(order(b + "," + a, "1MiB"), "ab");
  EXPECT_EQ(order(unknown + "," + a + "," + other + "," + b), "ubva");
  const std::string same = "{name: c, capacity: 1MiB, bandwidth: 1GiB, latency_microseconds: 100}";
  EXPECT_EQ(order(same + "," + a), "ca");
  EXPECT_EQ(order_of_tiers(parse("tiers: [" + same + "," + a + "," + unknown + "]\n")), "");
}

TEST(TieringOptionsTest, of_equally_fast_ones_the_cheapest_is_used_first) {
  const auto tier = [](const std::string& name, const std::string& more) {
    return "{name: " + name + ", capacity: 1MiB, bandwidth: 1GiB, latency_microseconds: 100" + more + "}";
  };
  const std::string dear = tier("d", ", cost_per_gigabyte: 4");
  const std::string cheap = tier("c", ", cost_per_gigabyte: 0.5");
  const std::string unknown = tier("u", "");
  EXPECT_EQ(order(dear + "," + cheap), "cd");
  EXPECT_EQ(order(unknown + "," + dear + "," + cheap), "cdu");
  EXPECT_EQ(order("{name: f, capacity: 1MiB, bandwidth: 1GiB, cost_per_gigabyte: 9}," + cheap), "fc");
  EXPECT_EQ(order_of_tiers(parse("block: 64KiB\ntiers: [" + dear + "," + cheap + "]\n")),
            "tiers are used in the order 'c', 'd', as their bandwidth and latency (where these are equal, their cost) "
            "say of a block of 64KiB, and not as they are listed: list them so");
}

TEST(TieringOptionsTest, costs_are_counted_by_the_gigabyte) {
  TierReport dram;
  dram.name = "dram";
  dram.capacity_bytes = 4'000'000'000;
  dram.used_bytes = 1'000'000'000;
  dram.dirty_bytes = 1 << 20;
  TierReport backing;
  backing.name = "backing";
  backing.capacity_bytes = backing.used_bytes = 3 << 20;
  backing.failed = true;
  EXPECT_EQ(format_tier_reports({dram, backing}),
            "dram: 954 MiB of 3.73 GiB, 1.00 MiB of it only here\n"
            "backing: 3.00 MiB of 3.00 MiB, takes nothing now\n");
  dram.cost_per_gigabyte = 2.5;
  EXPECT_EQ(dram.used_cost(), 2.5);
  EXPECT_EQ(dram.capacity_cost(), 10);
  EXPECT_EQ(format_tier_reports({dram, backing}),
            "dram: 954 MiB of 3.73 GiB, 1.00 MiB of it only here, costs 2.5 of 10\n"
            "backing: 3.00 MiB of 3.00 MiB, takes nothing now\n"
            "together: costs 2.5 of 10\n");
}

TEST(TieringOptionsTest, amounts_that_are_none_are_refused) {
  const auto refusal_with = [](double TierOptions::* member, double value) {
    TieringOptions options;
    options.tiers.emplace_back().capacity_bytes = 1 << 20;
    options.tiers[0].name = "a";
    options.tiers[0].*member = value;
    return refusal([&] { check_tiering_options(options); });
  };
  for (const double value : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_EQ(refusal_with(&TierOptions::cost_per_gigabyte, value),
              "tier 'a' has a cost that is no number from 0 on: give what a gigabyte costs, or leave it out");
    EXPECT_TRUE(refusal_with(&TierOptions::bytes_per_second, value).starts_with("tier 'a' has a bandwidth below"));
    EXPECT_TRUE(refusal_with(&TierOptions::latency_microseconds, value).starts_with("tier 'a' has a bandwidth below"));
    TieringOptions backing;
    backing.backing_latency_microseconds = value;
    EXPECT_TRUE(refusal([&] { check_tiering_options(backing); }).starts_with("the store behind tiers has a bandwidth"));
  }
  // An emulated tier would wait for as many nanoseconds as no number has.
  EXPECT_TRUE(refusal_with(&TierOptions::latency_microseconds, 1e300).starts_with("tier 'a' has a bandwidth below"));
  EXPECT_TRUE(refusal_with(&TierOptions::bytes_per_second, 1e-300).starts_with("tier 'a' has a bandwidth below"));
}

TEST(TieringOptionsTest, mistakes_are_told_with_their_place) {
  EXPECT_EQ(refusal_of(""), "/t.yaml:1: no tiers: write 'tiers:' and a list of them (docs/tiers.md)");
  EXPECT_EQ(refusal_of("block: 64KiB\n"),
            "/t.yaml: no list of tiers: write 'tiers:' and a list of them (docs/tiers.md)");
  EXPECT_EQ(refusal_of("tiers: []\n"), "/t.yaml: no list of tiers: write 'tiers:' and a list of them (docs/tiers.md)");
  EXPECT_EQ(refusal_of("tires: [{capacity: 1MiB}]\n"),
            "/t.yaml:1: the file has the unknown key 'tires': choose among backing, block, organize_seconds, "
            "retry_seconds, score_half_life_seconds, score_window_seconds, tiers, write_down_seconds");
  EXPECT_EQ(refusal_of("tiers: [{capacity: 1MiB, speed: 3}]"),
            "/t.yaml:1: tier 1 has the unknown key 'speed': choose among bandwidth, capacity, cost_per_gigabyte, kind, "
            "latency_microseconds, name, path, url");
  EXPECT_EQ(refusal_of(one_tier + "blok: 64KiB\n").substr(0, 44), "/t.yaml:2: the file has the unknown key 'blo");
  EXPECT_EQ(refusal_of(one_tier + "block: 64KiB\nblock: 1MiB\n"),
            "/t.yaml:3: 'block' was set before: remove one of the two");
  EXPECT_EQ(refusal_of("tiers: [{capacity: 1MiB, kind: tape}]"),
            "/t.yaml:1: kind of tier 1 'tape' is none: choose memory, directory, emulated or remote");
  EXPECT_EQ(refusal_of("tiers: [{capacity: 1MiB, latency_microseconds: -1}]"),
            "/t.yaml:1: latency_microseconds of tier 1 '-1' is no number from 0 on: write one, such as 1.5");
  EXPECT_EQ(refusal_of("tiers: [{capacity: 1MiB, cost_per_gigabyte: nan}]"),
            "/t.yaml:1: cost_per_gigabyte of tier 1 'nan' is no number from 0 on: write one, such as 1.5");
  EXPECT_EQ(refusal_of("tiers: [memory]"), "/t.yaml:1: tier 1 is no mapping: write 'key: value' lines");
  EXPECT_EQ(refusal_of("tiers: ["),
            "/t.yaml:1: malformed YAML (end of sequence flow not found): write 'tiers:' and a list of them "
            "(docs/tiers.md)");
}

TEST(TieringOptionsTest, tiers_that_cannot_be) {
  EXPECT_EQ(refusal_of("tiers: [{name: dram, capacity: 4KiB}]"),
            "/t.yaml: tier 'dram' has a capacity of 4KiB, less than a block of 256KiB: give it more, or choose smaller "
            "blocks");
  EXPECT_EQ(refusal_of("tiers: [{name: a, path: /tmp, capacity: 1MiB}, {name: b, path: /tmp/., capacity: 1MiB}]"),
            "/t.yaml: tier 'b' is in '/tmp/.', where another one is: give each a directory of its own");
  EXPECT_EQ(refusal_of(one_tier + "block: 5000\n"),
            "/t.yaml: tiers cannot have blocks of 5000: choose a power of two from 4KiB to 64MiB");
  EXPECT_EQ(refusal_of(one_tier + "organize_seconds: 0\n"),
            "/t.yaml: tiers take no times below 0, none of 0 for the half life, and to organize more than 0 seconds "
            "and at most an hour: choose seconds");
  EXPECT_EQ(refusal_of("tiers: [{kind: memory, path: /tmp, capacity: 1MiB}]"),
            "/t.yaml: tier 'tier 1' is of kind memory and has a path: leave it out, or make it a directory");
  EXPECT_EQ(refusal_of("tiers: [{kind: directory, capacity: 1MiB}]"),
            "/t.yaml: tier 'tier 1' names no directory: give it a path");
  EXPECT_EQ(refusal_of("tiers: [{kind: remote, capacity: 1MiB}]"),
            "/t.yaml: tier 'tier 1' names no server: give it a url such as remote://node7:7070");
  EXPECT_EQ(refusal_of("tiers: [{url: /data/x, capacity: 1MiB}]"),
            "/t.yaml: tier 'tier 1' names no server by '/data/x': give it a url such as remote://node7:7070");
  EXPECT_EQ(refusal_of("tiers: [{url: 'remote://a:1?x', capacity: 1MiB}]"),
            "/t.yaml: tier 'tier 1' names no server: store 'remote://a:1?x': option 'x' is not of the form name=value: "
            "write ?name=value&name=value");
  EXPECT_EQ(refusal_of("tiers: [{kind: memory, url: 'remote://a:1', capacity: 1MiB}]"),
            "/t.yaml: tier 'tier 1' has a url and is not of kind remote: leave one out");
  EXPECT_EQ(refusal_of("tiers: [{kind: remote, path: /tmp, url: 'remote://a:1', capacity: 1MiB}]"),
            "/t.yaml: tier 'tier 1' is of kind remote and has a path: leave it out, or make it a directory");
  EXPECT_EQ(refusal_of("tiers: [{url: 'remote://a:1', capacity: 1MiB}, {url: 'remote://a:1', capacity: 1MiB}]"),
            "/t.yaml: tier 'tier 2' is at 'remote://a:1', where another one is: give one the capacity of both");
}

TEST(TieringOptionsTest, what_is_emulated_says_how_slow_it_is) {
  const std::string reason =
      " is emulated, and neither a bandwidth nor a latency says how slow: give it one, or leave out that it is";
  for (const std::string figures : {"", ", bandwidth: 0", ", latency_microseconds: 0", ", cost_per_gigabyte: 2"}) {
    EXPECT_EQ(refusal_of("tiers: [{kind: emulated, name: a, capacity: 1MiB" + figures + "}]"),
              "/t.yaml: tier 'a'" + reason);
    EXPECT_EQ(refusal_of(one_tier + "backing: {emulated: true" + figures + "}\n"),
              "/t.yaml: the store behind tiers" + reason);
  }
  for (const std::string figures :
       {"bandwidth: 1MiB", "latency_microseconds: 5", "bandwidth: 0, latency_microseconds: 5"}) {
    EXPECT_NO_THROW(parse("tiers: [{kind: emulated, capacity: 1MiB, " + figures + "}]"));
    EXPECT_NO_THROW(parse(one_tier + "backing: {emulated: true, " + figures + "}\n"));
  }
  EXPECT_NO_THROW(parse(one_tier + "backing: {emulated: false}\n"));
}

TEST(TieringOptionsTest, two_tiers_of_one_name) {
  EXPECT_EQ(refusal_of("tiers:\n- {name: a, capacity: 1MiB}\n- {name: a, path: /tmp, capacity: 1MiB}\n"),
            "/t.yaml:3: a tier before has the name 'a', which reports and messages call them by: give each one of its "
            "own");
  EXPECT_TRUE(refusal_of("tiers: [{name: tier 2, capacity: 1MiB}, {capacity: 1MiB}]")
                  .starts_with("/t.yaml:1: a tier before has the name 'tier 2'"));
}

TEST(TieringOptionsTest, two_tiers_of_one_name_without_a_file) {
  TieringOptions options = parse("tiers: [{name: a, capacity: 1MiB}, {name: b, capacity: 1MiB}]");
  options.tiers[1].name = "a";
  EXPECT_EQ(refusal([&] { check_tiering_options(options); }),
            "two tiers have the name 'a', which reports and messages call them by: give each one of its own");
  options.tiers[0].name = options.tiers[1].name = "";
  EXPECT_NO_THROW(check_tiering_options(options));
}

TEST(TieringOptionsTest, more_memory_than_there_is) {
  for (const std::string kind : {"memory", "emulated"}) {
    const std::string said = refusal_of("tiers: [{kind: " + kind + ", name: a, capacity: 1024TiB}]");
    EXPECT_TRUE(
        said.starts_with("/t.yaml: tier 'a' with its capacity of 1PiB takes more memory, with the tiers before "
                         "it, than the "))
        << said;
    EXPECT_TRUE(said.ends_with(" has: give it less, or a directory")) << said;
  }
  EXPECT_EQ(parse("tiers: [{path: /tmp, capacity: 1024TiB}]").tiers.size(), 1U);
  // Together, where each alone would fit.
  const MachineMemory machine = read_machine_memory();
  const std::string most = std::to_string(std::min(machine.total, machine.cgroup_limit));
  EXPECT_EQ(parse("tiers: [{name: a, capacity: " + most + "}]").tiers.size(), 1U);
  EXPECT_TRUE(refusal_of("tiers: [{name: a, capacity: " + most + "}, {name: b, capacity: 1MiB}]")
                  .starts_with("/t.yaml: tier 'b' with its capacity of 1MiB takes more memory"));
}

TEST(TieringOptionsTest, a_file_that_is_none) {
  const TemporaryDirectory directory;
  EXPECT_EQ(refusal([&] { read_tiering_options(directory / "tiers.yaml"); }),
            "tiers '" + (directory / "tiers.yaml") +
                "' cannot be used (No such file or directory): name a YAML file as `tiermap doctor --tiers` writes it");
}

}  // namespace
}  // namespace tiermap
