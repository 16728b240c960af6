// A directory of its own for a test, gone with all in it when the object is.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tiermap {

class TemporaryDirectory {
 public:
  /// In `parent`, or beside the test program: on the disk that the build is on, and out of the sources' way.
  explicit TemporaryDirectory(const std::string& parent = beside_the_program()) {
    std::string pattern = std::filesystem::absolute(parent).string() + "/store-test-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::runtime_error("no temporary directory in " + parent);
    }
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  /// The path as URLs take it, wherever the tests run.
  std::string encoded() const {
    std::string text;
    for (const char character : path_) {
      const bool special = std::string_view(",@?%*[ ").find(character) != std::string_view::npos;
      const char digits[] = "0123456789ABCDEF";
      text += special ? std::string{'%', digits[character >> 4], digits[character & 15]} : std::string(1, character);
    }
    return text;
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  static std::string beside_the_program() {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  }

  std::string path_;
};

inline void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace tiermap
