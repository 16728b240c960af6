// A text file of any size, line by line or a piece of a line at a time. A line ends with \n, \r\n or \r, each line as
// it likes. A byte order mark is passed over. What is no text is refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tiermap {

class TextInput {
 public:
  /// `wanted` says in messages what to name instead: "a FASTA or FASTQ file". Throws StoreError for what cannot be
  /// opened or is no plain file, OptionError for what is compressed.
  TextInput(std::string path, std::string wanted);
  ~TextInput();
  TextInput(const TextInput&) = delete;
  TextInput& operator=(const TextInput&) = delete;

  /// The next character without taking it, -1 at the end of the file.
  int peek();
  /// Appends what is left of this line, but no more than `most` characters. True once the line's end was taken, or the
  /// file's.
  bool take(std::string& text, std::size_t most);
  /// The next line without its end; false after the last. Throws OptionError if it has none within a mebibyte.
  bool next_line(std::string& text);

  const std::string& path() const noexcept { return path_; }
  /// Of the next character, from 1.
  std::uint64_t line() const noexcept { return line_; }
  /// Taken so far.
  std::uint64_t position() const noexcept { return before_ + begin_; }
  /// Throws OptionError: "path:line: why".
  [[noreturn]] void refuse(std::uint64_t line, const std::string& why) const;

 private:
  bool fill();

  std::string path_;
  std::string wanted_;
  int descriptor_ = -1;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t before_ = 0;  ///< Bytes of the file before the buffer.
  std::uint64_t line_ = 1;
};

/// The bytes of all these files together. Throws StoreError for what is no plain file.
std::uint64_t total_file_bytes(const std::vector<std::string>& paths, const std::string& wanted);

}  // namespace tiermap
