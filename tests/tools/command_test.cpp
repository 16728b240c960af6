// `tiermap`: exit codes, one-line errors, and what config prints.
#include "tools/command.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "config/option_table.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/version.hpp"

namespace tiermap {
namespace {

using nlohmann::json;

TEST(Command, VersionIsTheLibrarys) {
  const CommandResult result = run_tiermap({"version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, std::string("tiermap ") + TIERMAP_VERSION + "\n");
  EXPECT_EQ(result.errors, "");
}

TEST(Command, HelpNamesEachSubcommand) {
  const CommandResult result = run_tiermap({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* name : {"config", "doctor", "heap", "top", "version"}) {
    EXPECT_NE(result.output.find(std::string("\n  ") + name + " "), std::string::npos) << name;
    EXPECT_EQ(run_tiermap({name, "--help"}).exit_code, 0);
  }
}

TEST(Command, BadCommandLinesGetOneLineAndExitCode2) {
  const std::vector<std::vector<std::string>> lines = {{},
                                                       {"nonsense"},
                                                       {"--nonsense"},
                                                       {"config", "--nonsense"},
                                                       {"config", "word"},
                                                       {"version", "word"},
                                                       {"top", "--interval"},
                                                       {"top", "--interval", "0"},
                                                       {"top", "--interval", "x"},
                                                       {"top", "--interval", "nan"},
                                                       {"top", "--interval", "1e400"},
                                                       {"top", "--interval", "-1"},
                                                       {"doctor", "/does/not/exist"},
                                                       {"doctor", "/etc/passwd"},
                                                       {"doctor", ""},
                                                       {"doctor", "two\nlines"}};
  for (const auto& line : lines) {
    const CommandResult result = run_tiermap(line);
    const std::string shown = line.empty() ? "" : line.back();
    EXPECT_EQ(result.exit_code, 2) << shown;
    EXPECT_TRUE(is_one_line(result.errors)) << shown << ": " << result.errors;
    EXPECT_TRUE(result.errors.starts_with("tiermap: ")) << result.errors;
    EXPECT_EQ(result.output, "") << shown;
  }
  EXPECT_NE(run_tiermap({"nonsense"}).errors.find("'nonsense'"), std::string::npos);
}

TEST(Command, OutputThatCannotBeWrittenIsAFailure) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/full", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    become_command({"config"}, {});
  }
  EXPECT_EQ(exit_code_of(child), 1);
}

TEST(Config, ShowsEachValueAndItsOrigin) {
  const CommandResult result =
      run_tiermap({"config", "--json"}, {{"TIERMAP_FILLERS", "9"}, {"TIERMAP_BUFFER_SIZE", "25%"}});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.errors, "");
  const json options = json::parse(result.output).at("options");
  ASSERT_EQ(options.size(), option_count);
  for (std::size_t option = 0; option < option_count; ++option) {
    const OptionRow& row = option_table()[option];
    EXPECT_EQ(options[option].at("name"), row.name);
    EXPECT_EQ(options[option].at("environment"), row.environment);
    const bool set = row.id == OptionId::fillers || row.id == OptionId::buffer_size;
    EXPECT_EQ(options[option].at("origin"), set ? "environment" : "default") << row.name;
  }
  EXPECT_EQ(options[static_cast<std::size_t>(OptionId::fillers)].at("value"), "9");
  EXPECT_EQ(options[static_cast<std::size_t>(OptionId::fillers)].at("number"), 9);
  EXPECT_EQ(options[static_cast<std::size_t>(OptionId::buffer_size)].at("value"), "25%");
  EXPECT_GT(options[static_cast<std::size_t>(OptionId::buffer_size)].at("number"), 4096);
}

TEST(Config, TableHasALineForEachOption) {
  const CommandResult result = run_tiermap({"config"}, {{"TIERMAP_PAGE_SIZE", "1MiB"}});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(result.output, '\n')), option_count + 1);
  const std::size_t line = result.output.find("\npage_size ");
  ASSERT_NE(line, std::string::npos);
  const std::string text = result.output.substr(line + 1, result.output.find('\n', line + 1) - line - 1);
  EXPECT_NE(text.find("1MiB"), std::string::npos);
  EXPECT_TRUE(text.ends_with("environment")) << text;
}

TEST(Config, SaysWhichLineOfTheFileSetAValue) {
  const TemporaryDirectory folder;
  const std::string path = folder / "options.yaml";
  std::ofstream(path) << "# two lines before\n\nfillers: 7\npage_size: 1MiB\n";
  const CommandResult result =
      run_tiermap({"config", "--json"}, {{"TIERMAP_CONFIG", path}, {"TIERMAP_PAGE_SIZE", "2MiB"}});
  const CommandResult table = run_tiermap({"config"}, {{"TIERMAP_CONFIG", path}});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const json options = json::parse(result.output).at("options");
  EXPECT_EQ(options[static_cast<std::size_t>(OptionId::fillers)].at("origin"), "file " + path + ":3");
  EXPECT_EQ(options[static_cast<std::size_t>(OptionId::fillers)].at("number"), 7);
  // The environment goes before the file.
  EXPECT_EQ(options[static_cast<std::size_t>(OptionId::page_size)].at("origin"), "environment");
  EXPECT_EQ(options[static_cast<std::size_t>(OptionId::shards)].at("origin"), "default");
  EXPECT_NE(table.output.find("file " + path + ":4\n"), std::string::npos) << table.output;
}

TEST(Config, AFileThatCannotBeReadGetsOneLineAndExitCode2) {
  const TemporaryDirectory folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, folder.path()}) {
    const CommandResult result = run_tiermap({"config"}, {{"TIERMAP_CONFIG", path}});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(is_one_line(result.errors)) << result.errors;
    EXPECT_NE(result.errors.find(path), std::string::npos) << result.errors;
  }
  const CommandResult refused = run_tiermap({"doctor", fifo});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(is_one_line(refused.errors)) << refused.errors;
}

TEST(Config, AnEmptyFileSetsNothing) {
  const TemporaryDirectory folder;
  const std::string path = folder / "options.yaml";
  std::ofstream(path).close();
  const CommandResult result = run_tiermap({"config"}, {{"TIERMAP_CONFIG", path}});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output.find(path), std::string::npos) << result.output;
}

TEST(Config, BadValuesGetOneLineAndExitCode2) {
  for (const auto& [variable, value] : Variables{{"TIERMAP_PAGE_SIZE", "5000"},
                                                 {"TIERMAP_PAGE_SIZE", "10XB"},
                                                 {"TIERMAP_FILLERS", "-1"},
                                                 {"TIERMAP_BUFFER_SIZE", ""},
                                                 {"TIERMAP_LOW_WATERMARK", "96"},
                                                 {"TIERMAP_CONFIG", "/does/not/exist"}}) {
    const CommandResult result = run_tiermap({"config"}, {{variable, value}});
    EXPECT_EQ(result.exit_code, 2) << variable;
    EXPECT_TRUE(is_one_line(result.errors)) << result.errors;
    EXPECT_EQ(result.output, "");
  }
  EXPECT_EQ(run_tiermap({"config"}, {{"TIERMAP_PAGE_SIZE", "5000"}}).errors,
            "tiermap: TIERMAP_PAGE_SIZE '5000' is not a power of two: choose 4KiB to 64MiB, a power of two\n");
}

TEST(Config, MisspeltVariablesAreNamed) {
  const CommandResult result = run_tiermap({"config"}, {{"TIERMAP_PAGESIZE", "1MiB"}});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.errors, "tiermap: TIERMAP_PAGESIZE is set, but no option has that name: correct or unset it\n");
  EXPECT_EQ(run_tiermap({"config"}, {{"TIERMAP_SERVERS", "node1:7070"}, {"TIERMAP_SECRET", "x"}}).errors, "");
  // A program that would have read it says so once, however many caches it makes.
  FILE* const said = ::popen(("TIERMAP_PAGESIZE=1MiB " + std::string(TIERMAP_BINARY_FOLDER) +
                              "/tiermap-random-io --bytes 1MiB --budget 4MiB 2>&1 >/dev/null")
                                 .c_str(),
                             "r");
  std::string errors;
  for (char block[1024]; std::fgets(block, sizeof block, said) != nullptr;) {
    errors += block;
  }
  EXPECT_EQ(::pclose(said), 0);
  EXPECT_EQ(errors, "tiermap: TIERMAP_PAGESIZE is set, and nothing reads it: did you mean TIERMAP_PAGE_SIZE?\n");
}

}  // namespace
}  // namespace tiermap
