// A test's own environment: no TIERMAP_ variable but those it sets, and a folder that is gone afterwards.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tiermap/error.hpp"

namespace tiermap {

class CleanEnvironment : public testing::Test {
 protected:
  CleanEnvironment() {
    clear_variables();
    std::string path = (std::filesystem::temp_directory_path() / "tiermap-config-XXXXXX").string();
    folder_ = ::mkdtemp(path.data());
  }
  ~CleanEnvironment() override {
    clear_variables();
    std::filesystem::remove_all(folder_);
  }

  static void set(const std::string& variable, const std::string& value) {
    ::setenv(variable.c_str(), value.c_str(), 1);
  }

  /// Writes a file in the folder, its own folders included, and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
    return path.string();
  }

  /// Writes the file of options and has TIERMAP_CONFIG name it.
  std::string use_file(const std::string& yaml) const {
    const std::string path = write("options.yaml", yaml);
    set("TIERMAP_CONFIG", path);
    return path;
  }

  static void clear_variables() {
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (text.starts_with("TIERMAP_")) {
        variables.push_back(text.substr(0, text.find('=')));
      }
    }
    for (const std::string& variable : variables) {
      ::unsetenv(variable.c_str());
    }
  }

  std::filesystem::path folder_;
};

/// The message of the OptionError that `action` throws; empty, and a failed test, if it throws none.
template <typename Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const OptionError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(error.code().value(), EINVAL);
    return message;
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

}  // namespace tiermap
