// A file that is written without a name, and gets its name once it is whole and durable.
#pragma once

#include <string>
#include <utility>

#include "store/file_descriptor.hpp"

namespace tiermap {

/// Gone with its last descriptor unless it was given a name. All throw StoreError that names the path.
class NewParquetFile {
 public:
  /// In the directory of `path`, for which it is meant.
  explicit NewParquetFile(std::string path);
  ~NewParquetFile();
  NewParquetFile(NewParquetFile&& other) noexcept
      : path_(std::move(other.path_)),
        beside_(std::move(other.beside_)),
        descriptor_(std::move(other.descriptor_)),
        is_beside_(std::exchange(other.is_beside_, false)) {}
  NewParquetFile& operator=(NewParquetFile&&) = delete;

  int descriptor() const { return descriptor_.get(); }
  /// The path by which it is opened meanwhile.
  std::string present_path() const;

  /// Gives it the name, which must be free (EEXIST), or that of a file whose place it takes: in one step. It is durable
  /// first, and the name is so afterwards.
  void publish();
  void replace(int before);

  FileDescriptor take() { return std::move(descriptor_); }

 private:
  void make_durable() const;
  int link(const std::string& name) const;

  std::string path_;
  std::string beside_;  ///< The name that it has for a moment, or where a file must have one from the beginning.
  FileDescriptor descriptor_;
  bool is_beside_ = false;
};

}  // namespace tiermap
