// A FITS file that cfitsio has open.
#pragma once

#include <fitsio.h>

#include <string>

namespace tiermap {

/// Closed when this goes. As with cfitsio itself, calls on one that has failed do nothing, so that a sequence of them
/// is checked once, at its end. One thread at a time.
class FitsFile {
 public:
  /// Opens what exists, or makes what does not, under its very name: cfitsio's brackets and prefixes mean nothing. An
  /// error shows at check().
  static FitsFile open(const std::string& path) { return {path, false}; }
  static FitsFile create(const std::string& path) { return {path, true}; }
  ~FitsFile();
  FitsFile(const FitsFile&) = delete;
  FitsFile& operator=(const FitsFile&) = delete;

  fitsfile* handle() const noexcept { return handle_; }
  /// For cfitsio's functions, as their last argument.
  int* status() noexcept { return &status_; }

  /// Throws StoreError if a call has failed: "PATH is no FITS image (REASON): leave it out", or that it cannot be made.
  void check();
  /// Writes what is still to be written. Throws as check() does.
  void close();
  /// A number in the header, or `value` if it has none of that name.
  double number(const char* keyword, double value);
  bool has(const char* keyword);

 private:
  FitsFile(std::string path, bool create);

  std::string path_;
  bool created_;
  fitsfile* handle_ = nullptr;
  int status_ = 0;
};

}  // namespace tiermap
