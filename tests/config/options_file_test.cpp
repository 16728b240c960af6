// The YAML file: what is not a flat mapping of known names to good values is refused with path and line.
#include "config/options_file.hpp"

#include <sys/stat.h>

#include "config/environment.hpp"
#include "config/resolve.hpp"

namespace tiermap {
namespace {

using OptionsFile = CleanEnvironment;

std::string refusal_of(const std::string& yaml) {
  return refusal([&] { parse_options_file(yaml, "/f.yaml"); });
}

TEST_F(OptionsFile, SetsWhatItNames) {
  const auto settings =
      parse_options_file("# mine\npage_size: 1MiB\n\nfillers: 4\npublish: no\nname: \"a b\"\n", "/f.yaml");
  ASSERT_EQ(settings.size(), 4U);
  EXPECT_EQ(settings[0].id, OptionId::page_size);
  EXPECT_EQ(settings[0].value.number, 1048576U);
  EXPECT_EQ(settings[0].where, "/f.yaml:2");
  EXPECT_EQ(settings[1].where, "/f.yaml:4");
  EXPECT_EQ(settings[2].value.text, "false");
  EXPECT_EQ(settings[3].value.text, "a b");
}

TEST_F(OptionsFile, NothingInItIsNoError) {
  EXPECT_TRUE(parse_options_file("", "/f.yaml").empty());
  EXPECT_TRUE(parse_options_file("# only a comment\n", "/f.yaml").empty());
  EXPECT_TRUE(parse_options_file("---\n", "/f.yaml").empty());
  EXPECT_TRUE(parse_options_file("{}", "/f.yaml").empty());
}

TEST_F(OptionsFile, WrongContentIsRefusedWithItsLine) {
  EXPECT_EQ(refusal_of("fillers: 2\npagesize: 4KiB\n"),
            "/f.yaml:2: unknown option 'pagesize': correct or remove it ('tiermap config' lists the options)");
  EXPECT_EQ(refusal_of("fillers: [1, 2]\n"), "/f.yaml:1: fillers is a list: choose 1 to 256");
  EXPECT_EQ(refusal_of("\nadapt: {on: 1}\n"), "/f.yaml:2: adapt is a mapping: choose true or false");
  EXPECT_EQ(refusal_of("fillers:\n"), "/f.yaml:1: fillers '' is empty: choose 1 to 256");
  EXPECT_EQ(refusal_of("fillers: 2\nevictors: 1\nfillers: 3\n"),
            "/f.yaml:3: fillers was set before at /f.yaml:1: remove one of the two");
  EXPECT_EQ(refusal_of("- fillers\n"), "/f.yaml:1: not a mapping of options: write one 'option: value' a line");
  EXPECT_EQ(refusal_of("fillers\n"), "/f.yaml:1: not a mapping of options: write one 'option: value' a line");
  EXPECT_EQ(refusal_of("[a, b]: 3\n"), "/f.yaml:1: an option's name must be a word: write one 'option: value' a line");
  EXPECT_EQ(refusal_of("fillers: 2\n---\nfillers: 3\n"),
            "/f.yaml: something follows the end of the first YAML document: leave one mapping of options");
}

TEST_F(OptionsFile, MalformedYamlIsRefusedWithItsLine) {
  for (const char* yaml : {"a: b: c\n", "{", "\tfillers: 2\n", "fillers: *no\n", "%YAML\n", "\x01"}) {
    const std::string message = refusal_of(yaml);
    EXPECT_TRUE(message.starts_with("/f.yaml:")) << message;
    EXPECT_NE(message.find(": write one 'option: value' a line"), std::string::npos) << message;
  }
}

// A parser that takes a stray bracket for one empty document after the other would not end here.
TEST_F(OptionsFile, StrayBracketsEnd) {
  for (const char* yaml : {"]", "}", "fillers: 2\n]", "{}]", ","}) {
    EXPECT_TRUE(refusal_of(yaml).starts_with("/f.yaml:")) << yaml;
  }
}

TEST_F(OptionsFile, DeepNestingIsRefused) {
  EXPECT_TRUE(refusal_of(std::string(60'000, '[')).starts_with("/f.yaml:"));
  EXPECT_TRUE(refusal_of(std::string(60'000, '{')).starts_with("/f.yaml:"));
}

TEST_F(OptionsFile, UnreadableFilesAreRefusedByName) {
  const auto message_of = [](const std::string& path) {
    set("TIERMAP_CONFIG", path);
    const std::string message = refusal([] { resolve(RegionOptions{}); });
    EXPECT_TRUE(message.starts_with("TIERMAP_CONFIG '" + path)) << message;
    EXPECT_NE(message.find("name a readable YAML file, or unset it"), std::string::npos) << message;
    return message;
  };
  EXPECT_NE(message_of((folder_ / "missing.yaml").string()).find("No such file"), std::string::npos);
  EXPECT_NE(message_of("").find("No such file"), std::string::npos);
  EXPECT_NE(message_of(folder_.string()).find("it is a directory"), std::string::npos);
  const std::string fifo = (folder_ / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), S_IRUSR | S_IWUSR), 0);
  EXPECT_NE(message_of(fifo).find("it is no regular file"), std::string::npos);
  EXPECT_NE(message_of(write("large.yaml", std::string(70'000, '#'))).find("it is larger than 64KiB"),
            std::string::npos);
}

}  // namespace
}  // namespace tiermap
