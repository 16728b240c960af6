// A text file line by line, with what messages about a line need.
#pragma once

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>

#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

/// Reads lines and counts them. Lines that end in a carriage return too are taken without it.
class LineReader {
 public:
  explicit LineReader(const std::string& path) : path_(path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
      throw StoreError(EINVAL, fmt::format("{} is not a plain file, and is to be read twice: name an edge list", path));
    }
    file_.open(path);
    if (!file_) {
      throw StoreError(errno, fmt::format("{} cannot be opened ({}): name a readable edge list", path,
                                          std::generic_category().message(errno)));
    }
  }
  /// The next line, without its end; false after the last.
  bool next() {
    ++number_;
    if (!std::getline(file_, line_)) {
      if (file_.bad()) {
        throw StoreError(EIO, fmt::format("{}:{}: reading failed", path_, number_));
      }
      return false;
    }
    if (!line_.empty() && line_.back() == '\r') {
      line_.pop_back();
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
    throw OptionError(fmt::format("{}:{}: {} {}", path_, number_, quote_value(line_), why));
  }

 private:
  std::string path_;
  std::ifstream file_;
  std::string line_;
  std::uint64_t number_ = 0;
};

}  // namespace tiermap
