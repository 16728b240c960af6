#include "command_line/text_input.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "command_line/compressed_input.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{256} << 10U;
/// A file without line ends is not taken into memory whole.
constexpr std::size_t longest_line = std::size_t{1} << 20U;
/// What some editors write before all text, and no screen shows.
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

struct stat status_of(const std::string& path, const std::string& wanted) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    const int number = errno;
    throw StoreError(number, fmt::format("{} cannot be opened ({}): name {}", path,
                                         std::generic_category().message(number), wanted));
  }
  if (!S_ISREG(status.st_mode)) {
    throw StoreError(EINVAL, fmt::format("{} is not a plain file: name {}", path, wanted));
  }
  return status;
}

}  // namespace

TextInput::TextInput(std::string path, std::string wanted)
    : path_(std::move(path)), wanted_(std::move(wanted)), buffer_(buffer_bytes) {
  status_of(path_, wanted_);
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    const int number = errno;
    throw StoreError(number, fmt::format("{} cannot be opened ({}): name {}", path_,
                                         std::generic_category().message(number), wanted_));
  }
  try {
    fill();
    const std::string_view first_bytes(buffer_.data(), end_);
    refuse_compressed(path_, first_bytes);
    begin_ = first_bytes.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

TextInput::~TextInput() {
  ::close(descriptor_);
}

/// False at the end of the file. To be called when all of the buffer is taken.
bool TextInput::fill() {
  before_ += end_;
  begin_ = 0;
  end_ = 0;
  for (;;) {
    const ssize_t got = ::read(descriptor_, buffer_.data(), buffer_.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw StoreError(EIO,
                       fmt::format("{}:{}: reading failed: {}", path_, line_, std::generic_category().message(errno)));
    }
    end_ = static_cast<std::size_t>(got);
    return got > 0;
  }
}

int TextInput::peek() {
  if (begin_ == end_ && !fill()) {
    return -1;
  }
  return static_cast<unsigned char>(buffer_[begin_]);
}

bool TextInput::take(std::string& text, std::size_t most) {
  while (peek() >= 0) {
    const char* const first = buffer_.data() + begin_;
    std::size_t length = std::min(end_ - begin_, most);
    if (const void* found = std::memchr(first, '\n', length); found != nullptr) {
      length = static_cast<std::size_t>(static_cast<const char*>(found) - first);
    }
    if (const void* found = std::memchr(first, '\r', length); found != nullptr) {
      length = static_cast<std::size_t>(static_cast<const char*>(found) - first);
    }
    text.append(first, length);
    begin_ += length;
    most -= length;
    const int next = peek();
    if (next == '\n' || next == '\r') {
      ++begin_;
      if (next == '\r' && peek() == '\n') {
        ++begin_;
      }
      ++line_;
      return true;
    }
    if (most == 0) {
      return next < 0;
    }
  }
  return true;
}

bool TextInput::next_line(std::string& text) {
  text.clear();
  if (peek() < 0) {
    return false;
  }
  const std::uint64_t line = line_;
  if (!take(text, longest_line)) {
    refuse(line, fmt::format("the line has no end within {} bytes: name {}", longest_line, wanted_));
  }
  return true;
}

void TextInput::refuse(std::uint64_t line, const std::string& why) const {
  throw OptionError(fmt::format("{}:{}: {}", path_, line, why));
}

std::uint64_t total_file_bytes(const std::vector<std::string>& paths, const std::string& wanted) {
  std::uint64_t bytes = 0;
  for (const std::string& path : paths) {
    bytes += static_cast<std::uint64_t>(status_of(path, wanted).st_size);
  }
  return bytes;
}

}  // namespace tiermap
