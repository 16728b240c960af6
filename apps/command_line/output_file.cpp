#include "command_line/output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "command_line/interruption.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::string reason(int number) {
  return std::generic_category().message(number != 0 ? number : EIO);
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::is_regular_file(status)) {
    path_ = std::filesystem::canonical(path).string();  // A link stays one.
  }
  replaces_ = std::filesystem::is_regular_file(status) || !std::filesystem::exists(status);
  written_path_ = replaces_ ? fmt::format("{}.{}.part", path_, ::getpid()) : path_;
  if (replaces_) {
    remove_if_interrupted(written_path_);
  }
  errno = 0;
  file_.open(written_path_, std::ios::binary);
  if (!file_) {
    const int number = errno;
    discard();
    throw StoreError(number, fmt::format("{} cannot be written ({}): name a file in a folder you may write to", path,
                                         reason(number)));
  }
  if (std::filesystem::is_regular_file(status)) {
    std::filesystem::permissions(written_path_, status.permissions(), error);
  }
}

OutputFile::~OutputFile() {
  discard();
}

void OutputFile::check() const {
  if (!file_) {
    if (failure_ == 0) {
      failure_ = errno != 0 ? errno : EIO;
    }
    const char* const remedy = failure_ == EPIPE ? "read it to the end" : "make room on its disk";
    throw StoreError(failure_, fmt::format("{} cannot be written to the end ({}): {}, or name another file", path_,
                                           reason(failure_), remedy));
  }
}

void OutputFile::close() {
  check();
  errno = 0;
  file_.close();
  check();
}

void OutputFile::put_in_place() {
  std::error_code error;
  if (replaces_) {
    std::filesystem::rename(written_path_, path_, error);
  }
  if (error) {
    throw StoreError(error.value(),
                     fmt::format("{} cannot be replaced ({}): name another file", path_, error.message()));
  }
  keep_if_interrupted(written_path_);
  replaces_ = false;
}

void OutputFile::discard() noexcept {
  if (replaces_) {
    std::error_code ignored;
    std::filesystem::remove(written_path_, ignored);
    keep_if_interrupted(written_path_);
  }
}

bool are_one_file(const std::string& one, const std::string& other) {
  std::error_code error;
  std::error_code other_error;
  const std::filesystem::path first = std::filesystem::weakly_canonical(std::filesystem::absolute(one, error), error);
  const std::filesystem::path second =
      std::filesystem::weakly_canonical(std::filesystem::absolute(other, other_error), other_error);
  return one == other || (!error && !other_error && first == second);
}

}  // namespace tiermap
