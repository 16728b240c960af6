// A FITS file that cfitsio has open: images are made by it, and what is read of them is checked by it.
#pragma once

#include <fitsio.h>

#include <string>

namespace tiermap {

/// Closed when this goes. As with cfitsio itself, calls on one that has failed do nothing, so that a sequence of them
/// is checked once, at its end. One thread at a time.
class CfitsioFile {
 public:
  /// Opens what exists, or makes what does not, under its very name: cfitsio's brackets and prefixes mean nothing. An
  /// error shows at check().
  static CfitsioFile open(const std::string& path) { return {path, false}; }
  static CfitsioFile create(const std::string& path) { return {path, true}; }
  ~CfitsioFile();
  CfitsioFile(const CfitsioFile&) = delete;
  CfitsioFile& operator=(const CfitsioFile&) = delete;

  fitsfile* handle() const noexcept { return handle_; }
  /// For cfitsio's functions, as their last argument.
  int* status() noexcept { return &status_; }

  /// Throws StoreError if a call has failed: "PATH is no FITS image (REASON): leave it out", or that it cannot be made.
  void check();
  /// Writes what is still to be written. Throws as check() does.
  void close();

 private:
  CfitsioFile(std::string path, bool create);

  std::string path_;
  bool created_;
  fitsfile* handle_ = nullptr;
  int status_ = 0;
  bool has_no_descriptor_ = false;
};

}  // namespace tiermap
