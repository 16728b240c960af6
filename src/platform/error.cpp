#include "tiermap/error.hpp"

#include "platform/control_characters.hpp"

namespace tiermap {
namespace {

/// One line, whatever file name or text from outside the message quotes.
std::string one_line(std::string message) {
  hide_control_characters(message);
  return message;
}

}  // namespace

Error::Error(int error_number, const std::string& message)
    : std::system_error(error_number, std::generic_category()), message_(one_line(message)) {}

}  // namespace tiermap
