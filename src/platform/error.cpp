#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// One line, whatever file name or text from outside the message quotes.
std::string one_line(std::string message) {
  for (char& character : message) {
    const auto code = static_cast<unsigned char>(character);
    if (code < 0x20 || code == 0x7f) {
      character = '?';
    }
  }
  return message;
}

}  // namespace

Error::Error(int error_number, const std::string& message)
    : std::system_error(error_number, std::generic_category()), message_(one_line(message)) {}

}  // namespace tiermap
