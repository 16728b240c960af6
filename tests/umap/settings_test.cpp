// The UMAP_ variables and the umapcfg_ functions: defaults, ranges, who wins; and that the page tells of all of them.
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "store/unread_standard_error.hpp"
#include "umap_fixture.hpp"
#include "umap_interface/settings.hpp"

namespace tiermap {
namespace {

class SettingsOfUmapTest : public UmapTest {
 protected:
  SettingsOfUmapTest() {
    ::unsetenv("UMAP_PAGESIZE");
    ::unsetenv("UMAP_BUFSIZE");
    ::setenv("UMAP_LOG_LEVEL", "NONE", 1);
  }
  ~SettingsOfUmapTest() override { ::unsetenv("TIERMAP_PAGE_SIZE"), ::unsetenv("TIERMAP_READ_AHEAD"); }
};

TEST_F(SettingsOfUmapTest, Defaults) {
  EXPECT_EQ(::umapcfg_get_umap_page_size(), static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(::umapcfg_get_num_fillers(), std::thread::hardware_concurrency());
  EXPECT_EQ(::umapcfg_get_num_evictors(), std::thread::hardware_concurrency());
  EXPECT_EQ(::umapcfg_get_max_fault_events(), std::thread::hardware_concurrency());
  EXPECT_EQ(::umapcfg_get_evict_high_water_threshold(), 90);
  EXPECT_EQ(::umapcfg_get_evict_low_water_threshold(), 70);
  EXPECT_EQ(::umapcfg_get_read_ahead(), 0U);
  EXPECT_GT(::umapcfg_get_max_pages_in_buffer(), 1000U);
}

TEST_F(SettingsOfUmapTest, AVariableThatCannotBeUsedMakesMappingFail) {
  const OpenFile file(folder_ / "file", page);
  for (const auto& [name, value] : {std::pair{"UMAP_PAGESIZE", "5000"},
                                    {"UMAP_PAGESIZE", "64KiB"},
                                    {"UMAP_PAGESIZE", "0"},
                                    {"UMAP_PAGE_FILLERS", "0"},
                                    {"UMAP_PAGE_EVICTORS", "-1"},
                                    {"UMAP_BUFSIZE", ""},
                                    {"UMAP_EVICT_HIGH_WATER_THRESHOLD", "101"},
                                    {"UMAP_EVICT_LOW_WATER_THRESHOLD", "95"},
                                    {"UMAP_READ_AHEAD", "99999999999999999999"},
                                    {"UMAP_MAX_FAULT_EVENTS", "many"}}) {
    ::setenv(name, value, 1);
    errno = 0;
    EXPECT_EQ(::umap(nullptr, page, for_reading, UMAP_PRIVATE, file.descriptor(), 0), UMAP_FAILED)
        << name << "=" << value;
    EXPECT_EQ(errno, EINVAL) << name << "=" << value;
    ::unsetenv(name);
  }
}

TEST_F(SettingsOfUmapTest, AVariableThatCannotBeUsedIsToldInAForkedChild) {
  ::setenv("UMAP_PAGESIZE", "5000", 1);
  expect_children_beside_threads_to_end([] { ::umapcfg_get_read_ahead(); });
  ::unsetenv("UMAP_PAGESIZE");
}

TEST_F(SettingsOfUmapTest, CodeWinsOverVariables) {
  // What is set in code stays set: in a process of its own.
  const int status = status_of_child([&] {
    set("UMAP_READ_AHEAD", 3);
    EXPECT_EQ(::umapcfg_get_read_ahead(), 3U);
    ::umapcfg_set_read_ahead(5);
    EXPECT_EQ(::umapcfg_get_read_ahead(), 5U);
    errno = 0;
    ::umapcfg_set_umap_page_size(4097);
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
    ::umapcfg_set_evict_low_water_threshold(-3);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(::umapcfg_get_umap_page_size(), 4096U);
    ::umapcfg_set_read_ahead(0);
  });
  EXPECT_EQ(status, 0);
}

TEST_F(SettingsOfUmapTest, TiermapsOwnVariablesDecideWhatIsLeftOpen) {
  ::setenv("TIERMAP_PAGE_SIZE", "32KiB", 1);
  ::setenv("TIERMAP_READ_AHEAD", "1MiB", 1);
  EXPECT_EQ(::umapcfg_get_umap_page_size(), 32768U);
  set("UMAP_PAGESIZE", 8192);
  EXPECT_EQ(::umapcfg_get_umap_page_size(), 8192U);
}

TEST_F(SettingsOfUmapTest, EachRegionHasThePageSizeItWasMappedWith) {
  // What is set in code stays set: in a process of its own.
  const int status = status_of_child([&] {
    set("UMAP_BUFSIZE", 16);
    const OpenFile file(folder_ / "file", 64 * page);
    std::uint64_t* const small = map_words(file, 64 * page);
    ::umapcfg_set_umap_page_size(1 << 20);  // Eight of these are more than the buffer: it grows to that.
    std::uint64_t* const large = map_words(file, 64 * page);
    for (std::size_t word = 0; word < 64 * words_a_page; word += 100) {
      ASSERT_EQ(touch(small + word), word);
      ASSERT_EQ(touch(large + word), word);
    }
    ::umapcfg_set_max_pages_in_buffer(20);
    EXPECT_EQ(::umapcfg_get_max_pages_in_buffer(), 20U);
    EXPECT_EQ(::uunmap(small, 64 * page), 0);
    EXPECT_EQ(::uunmap(large, 64 * page), 0);
  });
  EXPECT_EQ(status, 0);
}

/// What a program that maps and unmaps says on standard error.
std::string said_with(const std::string& level, const std::string& folder) {
  const std::string command =
      "UMAP_LOG_LEVEL=" + level + " " + TIERMAP_BINARY_FOLDER + "/test-umap-use_stores " + folder + " 2>&1 >/dev/null";
  std::string said;
  FILE* const output = ::popen(command.c_str(), "r");
  for (char block[4096]; std::fgets(block, sizeof block, output) != nullptr;) {
    said += block;
  }
  EXPECT_EQ(::pclose(output), 0);
  return said;
}

TEST_F(SettingsOfUmapTest, TheLogSaysAsMuchAsItIsAskedFor) {
  const std::string all = said_with("debug", folder_.path());
  EXPECT_NE(all.find("umap: a buffer of "), std::string::npos) << all;
  EXPECT_NE(all.find("umap: mapped 800KiB at 0x"), std::string::npos) << all;
  EXPECT_EQ(said_with("ERROR", folder_.path()), "");
  EXPECT_NE(said_with("loud", folder_.path()).find("umap: UMAP_LOG_LEVEL 'loud' is unknown"), std::string::npos);
  EXPECT_NE(said_with("'lo\nud'", folder_.path()).find("umap: UMAP_LOG_LEVEL 'lo?ud' is unknown"), std::string::npos);
}

TEST_F(SettingsOfUmapTest, NobodyHasToReadTheLog) {
  const UnreadStandardError unread;
  const std::string command =
      "UMAP_LOG_LEVEL=debug " TIERMAP_BINARY_FOLDER "/test-umap-use_stores " + folder_.path() + " >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(SettingsOfUmapTest, AVariableThatIsMisspeltIsNamed) {
  for (const auto& [written, meant] : {std::pair{"UMAP_PAGSIZE", "UMAP_PAGESIZE"},
                                       {"UMAP_PAGE_SIZE", "UMAP_PAGESIZE"},
                                       {"UMAP_BUFFER_SIZE", "UMAP_BUFSIZE"},
                                       {"UMAP_FILLERS", "UMAP_PAGE_FILLERS"},
                                       {"UMAP_LOGLEVEL", "UMAP_LOG_LEVEL"}}) {
    ::setenv(written, "65536", 1);
    EXPECT_EQ(said_with("ERROR", folder_.path()),
              "umap: " + std::string(written) + " is set, and nothing reads it: did you mean " + meant + "?\n");
    EXPECT_EQ(said_with("NONE", folder_.path()), "");
    ::unsetenv(written);
  }
  for (const char* other : {"UMAP_ROOT", "UMAP_DIR", "UMAP_INSTALL_PATH"}) {
    ::setenv(other, "/opt/umap", 1);
    EXPECT_EQ(said_with("ERROR", folder_.path()), "");
    ::unsetenv(other);
  }
}

std::string text_of(const char* name) {
  std::ifstream file(std::string(TIERMAP_SOURCE_FOLDER) + "/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The words of letters, digits and underscores that begin like `prefix` and end before `next`.
std::set<std::string> words_before(const std::string& text, char next, const std::vector<std::string>& prefixes) {
  std::set<std::string> words;
  std::string word;
  for (const char character : text) {
    if (std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '_') {
      word += character;
      continue;
    }
    const bool wanted = std::ranges::any_of(prefixes, [&](const auto& prefix) { return word.starts_with(prefix); });
    if (character == next && wanted) {
      words.insert(word);
    }
    word.clear();
  }
  return words;
}

TEST(PageForUmapsPrograms, NamesTheVariablesThatAreParsedAndNoOthers) {
  std::set<std::string> parsed = {"UMAP_LOG_LEVEL"};
  for (const auto& row : umap_interface::setting_rows()) {
    parsed.emplace(row.variable);
  }
  std::set<std::string> named;
  std::istringstream lines(text_of("docs/how-to/programs-for-umap.md"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `UMAP_")) {
      named.insert(line.substr(3, line.find('`', 3) - 3));
    }
  }
  EXPECT_EQ(named, parsed);
}

TEST(PageForUmapsPrograms, NamesEveryFunctionAndMember) {
  const std::string page_text = text_of("docs/how-to/programs-for-umap.md");
  const std::string headers = text_of("include/umap/umap.h") + text_of("include/umap/store/Store.hpp") +
                              text_of("include/umap/store/SparseStore.h");
  const auto names =
      words_before(headers, '(', {"umap", "uunmap", "make_store", "read_from", "write_to", "get_", "close_"});
  EXPECT_GT(names.size(), 25U);
  for (const std::string& name : names) {
    EXPECT_NE(page_text.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace tiermap
