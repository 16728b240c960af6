#include "median/fits_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <utility>

#include "tiermap/error.hpp"

namespace tiermap {

FitsFile::FitsFile(std::string path, bool create) : path_(std::move(path)), created_(create) {
  if (create) {
    fits_create_diskfile(&handle_, path_.c_str(), &status_);
  } else {
    fits_open_diskfile(&handle_, path_.c_str(), READONLY, &status_);
  }
}

FitsFile::~FitsFile() {
  if (handle_ != nullptr) {
    int ignored = 0;
    fits_close_file(handle_, &ignored);
    fits_clear_errmsg();
  }
}

void FitsFile::check() {
  if (status_ == 0) {
    return;
  }
  std::array<char, FLEN_STATUS> text{};
  fits_get_errstatus(status_, text.data());
  fits_clear_errmsg();
  if (created_) {
    throw StoreError(EIO, fmt::format("{} cannot be written ({}): look whether the disk has room", path_, text.data()));
  }
  throw StoreError(EINVAL, fmt::format("{} is no FITS image ({}): leave it out", path_, text.data()));
}

void FitsFile::close() {
  fits_close_file(std::exchange(handle_, nullptr), &status_);
  check();
}

double FitsFile::number(const char* keyword, double value) {
  double found = value;
  fits_read_key(handle_, TDOUBLE, keyword, &found, nullptr, &status_);
  if (status_ == KEY_NO_EXIST) {
    status_ = 0;
    fits_clear_errmsg();
    return value;
  }
  return found;
}

bool FitsFile::has(const char* keyword) {
  std::array<char, FLEN_CARD> card{};
  int result = status_;
  fits_read_card(handle_, keyword, card.data(), &result);
  if (result == KEY_NO_EXIST) {
    fits_clear_errmsg();
  }
  return result == 0;
}

}  // namespace tiermap
