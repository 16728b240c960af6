// The headers of a FITS file, as cfitsio reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/file_descriptor.hpp"
#include "store/fits/library.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// What one of a file's parts, which FITS calls HDUs, is.
enum class FitsPart : std::uint8_t { nothing, image, compressed_image, table };

/// Open until this goes; while it is there it has cfitsio for itself, so that a thread may have but one.
class FitsFile {
 public:
  /// Opens what exists, under its very name: cfitsio's brackets and prefixes mean nothing. Throws StoreError for what
  /// is no FITS file.
  explicit FitsFile(std::string path);
  /// One that lies in a store, by that store's name.
  explicit FitsFile(const std::shared_ptr<Store>& store);
  ~FitsFile();
  FitsFile(const FitsFile&) = delete;
  FitsFile& operator=(const FitsFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  /// Nothing if it is a file.
  const std::shared_ptr<Store>& store() const noexcept { return store_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  // Each throws StoreError if it fails: "PATH is no FITS image (REASON): leave it out".

  /// How many parts there are.
  int parts();
  /// Goes to a part, of which the first is 0.
  FitsPart go_to(int part);

  // Of the part that is gone to.
  int bits_per_pixel();
  std::vector<std::uint64_t> axes();  ///< The first one is the fastest.
  std::uint64_t data_offset();
  /// Values of the header, or what is said if it has none of that name.
  double number(const char* keyword, double missing);
  std::optional<std::int64_t> integer(const char* keyword);
  std::string text(const char* keyword, const char* missing);

 private:
  FitsFile(const std::shared_ptr<Store>& store, const FileDescriptor& headers);
  void open(const std::string& path);
  /// What the call said that has failed.
  std::string failure();
  /// Throws if a call has failed.
  void check();
  /// Throws if the value of this keyword, which is there, could not be read.
  void check_value(const char* keyword);
  /// A value's keyword is looked for. False if it is not there, or something has failed.
  bool has(const char* keyword);

  const std::string path_;
  const std::shared_ptr<Store> store_;
  const std::uint64_t bytes_;
  const FitsCall fits_;
  fitsfile* handle_ = nullptr;
  int status_ = 0;
};

}  // namespace tiermap
