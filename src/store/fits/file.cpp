#include "store/fits/file.hpp"

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "store/file_open.hpp"
#include "store/fits/headers.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Before cfitsio sees it, which would unpack what is compressed into memory, wait for a FIFO, or worse. Returns its
/// size.
std::uint64_t check_fits_file(const std::string& path) {
  const OpenedFile opened = open_file(path, false, false);
  check_fits_headers(opened.file, opened.bytes, path);
  return opened.bytes;
}

}  // namespace

FitsFile::FitsFile(std::string path) : path_(std::move(path)), bytes_(check_fits_file(path_)), fits_(path_) {
  open(path_);
}

FitsFile::FitsFile(const std::shared_ptr<Store>& store) : FitsFile(store, copy_fits_headers(store)) {}

FitsFile::FitsFile(const std::shared_ptr<Store>& store, const FileDescriptor& headers)
    : path_(store->name()), store_(store), bytes_(store->size_bytes()), fits_(path_) {
  open("/proc/self/fd/" + std::to_string(headers.get()));
}

void FitsFile::open(const std::string& path) {
  fits_->fits_open_diskfile(&handle_, path.c_str(), READONLY, &status_);
  check();
}

FitsFile::~FitsFile() {
  if (handle_ != nullptr) {
    int ignored = 0;
    fits_->fits_close_file(handle_, &ignored);
    fits_->fits_clear_errmsg();
  }
}

std::string FitsFile::failure() {
  std::array<char, FLEN_STATUS> text{};
  fits_->fits_get_errstatus(status_, text.data());
  fits_->fits_clear_errmsg();
  return in_one_line(text.data());
}

void FitsFile::check() {
  if (status_ != 0) {
    throw StoreError(EINVAL, path_ + " is no FITS image (" + failure() + "): leave it out");
  }
}

void FitsFile::check_value(const char* keyword) {
  if (status_ != 0) {
    throw StoreError(EINVAL,
                     path_ + " has a " + keyword + " that cannot be taken (" + failure() + "): mend its header");
  }
}

int FitsFile::parts() {
  int count = 0;
  fits_->fits_get_num_hdus(handle_, &count, &status_);
  check();
  return count;
}

FitsPart FitsFile::go_to(int part) {
  int type = ANY_HDU;
  int axes = 0;
  fits_->fits_movabs_hdu(handle_, part + 1, &type, &status_);
  const bool compressed = fits_->fits_is_compressed_image(handle_, &status_) != 0;
  if (type == IMAGE_HDU && !compressed) {
    fits_->fits_get_img_dim(handle_, &axes, &status_);
  }
  check();
  return compressed          ? FitsPart::compressed_image
         : type != IMAGE_HDU ? FitsPart::table
         : axes == 0         ? FitsPart::nothing
                             : FitsPart::image;
}

int FitsFile::bits_per_pixel() {
  int bits = 0;
  fits_->fits_get_img_type(handle_, &bits, &status_);
  check();
  return bits;
}

std::vector<std::uint64_t> FitsFile::axes() {
  int count = 0;
  fits_->fits_get_img_dim(handle_, &count, &status_);
  check();
  std::vector<LONGLONG> sides(static_cast<std::size_t>(count));
  fits_->fits_get_img_sizell(handle_, count, sides.data(), &status_);
  check();
  return {sides.begin(), sides.end()};
}

std::uint64_t FitsFile::data_offset() {
  LONGLONG header = 0;
  LONGLONG data = 0;
  LONGLONG end = 0;
  fits_->fits_get_hduaddrll(handle_, &header, &data, &end, &status_);
  check();
  return static_cast<std::uint64_t>(data);
}

bool FitsFile::has(const char* keyword) {
  std::array<char, FLEN_CARD> card{};
  int result = status_;
  fits_->fits_read_card(handle_, keyword, card.data(), &result);
  if (result == KEY_NO_EXIST) {
    fits_->fits_clear_errmsg();
  }
  return result == 0;
}

double FitsFile::number(const char* keyword, double missing) {
  double found = missing;
  if (has(keyword)) {
    fits_->fits_read_key(handle_, TDOUBLE, keyword, &found, nullptr, &status_);
    check_value(keyword);
  }
  check();
  return found;
}

std::optional<std::int64_t> FitsFile::integer(const char* keyword) {
  if (!has(keyword)) {
    check();
    return std::nullopt;
  }
  LONGLONG found = 0;
  fits_->fits_read_key(handle_, TLONGLONG, keyword, &found, nullptr, &status_);
  check_value(keyword);
  return found;
}

std::string FitsFile::text(const char* keyword, const char* missing) {
  std::array<char, FLEN_VALUE> found{};
  if (!has(keyword)) {
    check();
    return missing;
  }
  fits_->fits_read_key(handle_, TSTRING, keyword, found.data(), nullptr, &status_);
  check();
  return found.data();
}

}  // namespace tiermap
