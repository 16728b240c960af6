// docs/reference.md is what `tiermap reference` prints. TIERMAP_UPDATE_DOCS=1 writes the file instead of comparing it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "config/misspelt_variables.hpp"
#include "config/option_table.hpp"
#include "tools/command.hpp"

namespace tiermap {
namespace {

TEST(Reference, FileIsWhatTheCommandPrints) {
#ifndef TIERMAP_HAS_UCX
  GTEST_SKIP() << "this build has no `tiermap serve` (TIERMAP_UCX), which the page describes";
#endif
  const std::string path = std::string(TIERMAP_SOURCE_FOLDER) + "/docs/reference.md";
  const char* update = std::getenv("TIERMAP_UPDATE_DOCS");
  const CommandResult result = run_tiermap({"reference"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  if (update != nullptr && std::string(update) == "1") {
    std::ofstream(path) << result.output;
  }
  std::ifstream file(path);
  const std::string written{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(written, result.output) << "run this test with TIERMAP_UPDATE_DOCS=1 to write " << path;
}

TEST(Reference, DoesNotDependOnTheEnvironment) {
  const CommandResult changed =
      run_tiermap({"reference"}, {{"TIERMAP_FILLERS", "nonsense"}, {"TIERMAP_CONFIG", "/none"}});
  EXPECT_EQ(changed.exit_code, 0);
  EXPECT_EQ(changed.output, run_tiermap({"reference"}).output);
}

TEST(Reference, NamesTheOptionsOfACommandThatHasSubcommandsToo) {
#ifndef TIERMAP_HAS_UCX
  GTEST_SKIP() << "this build has no `tiermap serve` (TIERMAP_UCX)";
#endif
  const std::string text = run_tiermap({"reference"}).output;
  const std::size_t section = text.find("### `tiermap serve`\n");
  ASSERT_NE(section, std::string::npos);
  EXPECT_LT(text.find("`--memory SIZE`", section), text.find("### `tiermap serve list SERVER`"));
}

TEST(Reference, NamesEveryOptionInAllItsForms) {
  const std::string text = run_tiermap({"reference"}).output;
  for (const OptionRow& row : option_table()) {
    for (const std::string_view name : {row.name, row.environment, row.code}) {
      EXPECT_NE(text.find("`" + std::string(name) + "`"), std::string::npos) << name;
    }
  }
  for (const std::string_view variable : known_variables()) {
    EXPECT_NE(text.find("`" + std::string(variable) + "`"), std::string::npos) << variable;
  }
}

}  // namespace
}  // namespace tiermap
