#include "config/yaml_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>
#include <system_error>

#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Far above any real file of options; what is larger was named by mistake.
constexpr std::size_t largest_yaml_bytes = 64 * 1024;

/// A parser's message may quote the file, line ends included.
std::string one_line(std::string text) {
  std::ranges::replace_if(text, [](char character) { return static_cast<unsigned char>(character) < 0x20; }, ' ');
  return text;
}

/// Takes no notice of what a document holds.
class IgnoreEvents : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

/// Whether anything follows the first document. (YAML::LoadAll() would tell, but never ends on a stray bracket, which
/// it takes for one empty document after the other.)
bool has_second_document(const std::string& yaml) {
  std::istringstream stream(yaml);
  YAML::Parser parser(stream);
  IgnoreEvents events;
  return parser.HandleNextDocument(events) && parser.HandleNextDocument(events);
}

}  // namespace

std::string yaml_position(const std::string& path, const YAML::Mark& mark) {
  return path + ":" + std::to_string(mark.is_null() ? 1 : mark.line + 1);
}

YAML::Node load_yaml(const std::string& yaml, const std::string& path, const std::string& remedy,
                     const std::string& syntax) {
  try {
    if (has_second_document(yaml)) {
      throw OptionError(path + ": something follows the end of the first YAML document: " + remedy);
    }
    return YAML::Load(yaml);
  } catch (const YAML::Exception& error) {
    throw OptionError(yaml_position(path, error.mark) + ": malformed YAML (" + one_line(error.msg) + "): " + syntax);
  }
}

std::string read_yaml_file(const std::string& path, const std::string& what, const std::string& remedy) {
  const auto refuse = [&](const std::string& reason) {
    throw OptionError(what + " " + quote_value(path) + " cannot be used (" + reason + "): " + remedy);
  };
  // A FIFO must not block.
  const int file_descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat status{};
  if (file_descriptor < 0 || ::fstat(file_descriptor, &status) != 0) {
    const int error_number = errno;
    if (file_descriptor >= 0) {
      ::close(file_descriptor);
    }
    refuse(std::generic_category().message(error_number));
  }
  std::string yaml;
  int error_number = 0;
  if (S_ISREG(status.st_mode)) {
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while (yaml.size() <= largest_yaml_bytes && (got = ::read(file_descriptor, buffer.data(), buffer.size())) > 0) {
      yaml.append(buffer.data(), static_cast<std::size_t>(got));
    }
    error_number = got < 0 ? errno : 0;
  }
  ::close(file_descriptor);
  if (!S_ISREG(status.st_mode)) {
    refuse(S_ISDIR(status.st_mode) ? "it is a directory" : "it is no regular file");
  }
  if (error_number != 0) {
    refuse(std::generic_category().message(error_number));
  }
  if (yaml.size() > largest_yaml_bytes) {
    refuse("it is larger than " + format_size(largest_yaml_bytes));
  }
  return yaml;
}

}  // namespace tiermap
