// A text file line by line, with what messages about a line need.
#pragma once

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "command_line/compressed_input.hpp"
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
    std::array<char, 8> first_bytes{};
    file_.read(first_bytes.data(), first_bytes.size());
    refuse_compressed(path, {first_bytes.data(), static_cast<std::size_t>(file_.gcount())});
    file_.clear();
    file_.seekg(0);
  }
  /// The next line, without its end; false after the last.
  bool next() {
    ++number_;
    file_.getline(piece_.data(), static_cast<std::streamsize>(piece_.size()));
    if (file_.bad()) {
      throw StoreError(EIO, fmt::format("{}:{}: reading failed", path_, number_));
    }
    if (file_.fail() && file_.gcount() > 0) {
      throw OptionError(fmt::format("{}:{}: the line has no end within {} bytes: this is no list of edges", path_,
                                    number_, piece_.size()));
    }
    if (file_.fail()) {
      return false;
    }
    // All that was taken, but for the line's end, which only the file's last line may lack.
    line_.assign(piece_.data(), static_cast<std::size_t>(file_.gcount()) - (file_.eof() ? 0 : 1));
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
  /// A file without line ends is not taken into memory whole.
  static constexpr std::size_t longest_line = std::size_t{1} << 20U;

  std::string path_;
  std::ifstream file_;
  std::string line_;
  std::vector<char> piece_ = std::vector<char>(longest_line);
  std::uint64_t number_ = 0;
};

}  // namespace tiermap
