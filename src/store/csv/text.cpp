#include "store/csv/text.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace tiermap {
namespace {

constexpr std::uint64_t file_piece_bytes = 64 << 10;
constexpr std::uint64_t most_store_piece_bytes = 8 << 20;

}  // namespace

CsvText::CsvText(OpenedFile file) : file_(std::move(file)), state_(state()) {}

CsvText::CsvText(std::shared_ptr<Store> store) : store_(std::move(store)), state_(state()) {}

CsvText::State CsvText::state() const noexcept {
  if (store_ != nullptr) {
    return {store_->size_bytes(), 0};
  }
  struct stat status{};
  if (::fstat(file_->file.buffered(), &status) != 0) {
    return {};
  }
  return {static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

std::int64_t CsvText::read(void* buffer, std::size_t bytes, std::uint64_t offset) const {
  if (store_ == nullptr) {
    return file_->file.read(buffer, bytes, offset);
  }
  std::size_t done = 0;
  while (done < bytes) {
    const std::int64_t got = store_->read(static_cast<char*>(buffer) + done, bytes - done, offset + done);
    if (got < 0) {
      return got;
    }
    if (got == 0) {
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::int64_t>(done);
}

std::size_t CsvText::piece_bytes(std::uint64_t bytes) const noexcept {
  return store_ == nullptr ? file_piece_bytes : std::clamp(bytes, file_piece_bytes, most_store_piece_bytes);
}

}  // namespace tiermap
