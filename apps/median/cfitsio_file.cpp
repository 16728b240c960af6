#include "median/cfitsio_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <utility>

#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

CfitsioFile::CfitsioFile(std::string path, bool create) : path_(std::move(path)), created_(create) {
  if (create) {
    errno = 0;
    fits_create_diskfile(&handle_, path_.c_str(), &status_);
    has_no_descriptor_ = status_ != 0 && (errno == EMFILE || errno == ENFILE);
  } else {
    fits_open_diskfile(&handle_, path_.c_str(), READONLY, &status_);
  }
}

CfitsioFile::~CfitsioFile() {
  if (handle_ != nullptr) {
    int ignored = 0;
    fits_close_file(handle_, &ignored);
    fits_clear_errmsg();
  }
}

void CfitsioFile::check() {
  if (status_ == 0) {
    return;
  }
  std::array<char, FLEN_STATUS> text{};
  fits_get_errstatus(status_, text.data());
  fits_clear_errmsg();
  if (has_no_descriptor_) {  // Which cfitsio does not tell from all else.
    throw_file_error(EMFILE, path_, "cannot be written");
  }
  if (created_) {
    throw StoreError(EIO, fmt::format("{} cannot be written ({}): look whether the disk has room", path_, text.data()));
  }
  throw StoreError(EINVAL, fmt::format("{} is no FITS image ({}): leave it out", path_, text.data()));
}

void CfitsioFile::close() {
  fits_close_file(std::exchange(handle_, nullptr), &status_);
  check();
}

}  // namespace tiermap
