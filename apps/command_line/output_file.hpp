// A file that a program writes results into, at a path that its user chose.
#pragma once

#include <fstream>
#include <string>

namespace tiermap {

/// Written under another name, so that what is at the path stays whole until all is there to take its place. What is no
/// plain file, such as /dev/stdout, is written as it is.
class OutputFile {
 public:
  /// Throws StoreError that names `path`.
  explicit OutputFile(const std::string& path);
  /// Removes what put_in_place() was not called for.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// What is written there; whoever writes much may ask it, and then check(), whether all goes well.
  std::ostream& stream() noexcept { return file_; }
  /// Throws StoreError if something could not be written.
  void check() const;
  /// The end of what is written. Throws StoreError.
  void close();
  /// After close(): gives the file its name. Throws StoreError.
  void put_in_place();

 private:
  void discard() noexcept;

  std::string path_;
  std::string written_path_;
  bool replaces_ = false;    ///< There is a file under the other name.
  mutable int failure_ = 0;  ///< What check() found first: its number stays with the thread that wrote.
  std::ofstream file_;
};

/// Whether two paths, without links and detours, are the same, as far as the file system can tell.
bool are_one_file(const std::string& one, const std::string& other);

}  // namespace tiermap
