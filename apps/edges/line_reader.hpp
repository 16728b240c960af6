// A text file line by line, with what messages about a line need.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "command_line/text_input.hpp"
#include "config/size.hpp"

namespace tiermap {

/// Reads lines and counts them. Throws as TextInput does.
class LineReader {
 public:
  explicit LineReader(const std::string& path) : input_(path, "an edge list") {}

  /// The next line, without its end; false after the last.
  bool next() {
    number_ = input_.line();
    line_.clear();
    if (input_.peek() < 0) {
      return false;
    }
    if (!input_.take(line_, longest_line)) {
      input_.refuse(number_,
                    fmt::format("the line has no end within {} bytes: this is no list of edges", longest_line));
    }
    return true;
  }
  /// The next line that is neither empty nor a comment.
  bool next_with_content() {
    while (next()) {
      const std::size_t first = line_.find_first_not_of(" \t");
      if (first != std::string::npos && line_[first] != '#' && line_[first] != '%') {
        return true;
      }
    }
    return false;
  }
  const std::string& line() const { return line_; }
  [[noreturn]] void refuse(const std::string& why) const {
    input_.refuse(number_, fmt::format("{} {}", quote_value(line_), why));
  }

 private:
  /// A file without line ends is not taken into memory whole.
  static constexpr std::size_t longest_line = std::size_t{1} << 20U;

  TextInput input_;
  std::string line_;
  std::uint64_t number_ = 0;
};

}  // namespace tiermap
