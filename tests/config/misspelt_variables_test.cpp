// Variables that nothing reads: those that are nearly one that something does are named, and all others are not.
#include "config/misspelt_variables.hpp"

#include "config/environment.hpp"

namespace tiermap {
namespace {

class MisspeltVariablesTest : public CleanEnvironment {
 protected:
  /// What is said of `variable`, which alone is set.
  static std::string said_of(const std::string& variable) {
    clear_variables();
    set(variable, "1");
    const std::vector<std::string> lines = find_misspelt_variables("TIERMAP_", known_variables());
    EXPECT_LE(lines.size(), 1U);
    return lines.empty() ? "" : lines.front();
  }
};

TEST_F(MisspeltVariablesTest, NamesTheOneThatMayHaveBeenMeant) {
  for (const auto& [written, meant] : {std::pair{"PAGESIZE", "PAGE_SIZE"},
                                       {"PAGE_SIZ", "PAGE_SIZE"},
                                       {"PAGES", "PAGE_SIZE"},
                                       {"BUFSIZE", "BUFFER_SIZE"},
                                       {"READAHEAD", "READ_AHEAD"},
                                       {"FAULTMODE", "FAULT_MODE"},
                                       {"FILLER", "FILLERS"},
                                       {"SERVER", "SERVERS"},
                                       {"RANK_", "RANK"},
                                       {"POLCY", "POLICY"}}) {
    EXPECT_EQ(said_of(std::string("TIERMAP_") + written),
              std::string("TIERMAP_") + written + " is set, and nothing reads it: did you mean TIERMAP_" + meant + "?");
  }
}

TEST_F(MisspeltVariablesTest, LeavesAloneWhatIsKnownAndWhatIsSomebodyElses) {
  for (const std::string_view known : known_variables()) {
    EXPECT_EQ(said_of(std::string(known)), "") << known;
  }
  for (const char* other : {"TIERMAP_ROOT", "TIERMAP_DIR", "TIERMAP_HOME", "TIERMAP_SOAK_SECONDS",
                            "TIERMAP_UPDATE_DOCS", "TIERMAP_TEST_SEED", "TIERMAP_RUN_REPORT", "TIERMAP_RANK_HOST",
                            "TIERMAP_NODE_CACHE", "TIERMAP_", "TIERMAP", "OTHER_PAGE_SIZ"}) {
    EXPECT_EQ(said_of(other), "") << other;
  }
}

}  // namespace
}  // namespace tiermap
