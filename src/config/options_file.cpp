#include "config/options_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

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
constexpr std::size_t largest_file_bytes = 64 * 1024;

std::string position(const std::string& path, const YAML::Mark& mark) {
  return path + ":" + std::to_string(mark.is_null() ? 1 : mark.line + 1);
}

/// A parser's message may quote the file, line ends included.
std::string one_line(std::string text) {
  std::ranges::replace_if(text, [](char character) { return static_cast<unsigned char>(character) < 0x20; }, ' ');
  return text;
}

[[noreturn]] void throw_unreadable(const std::string& path, const std::string& reason) {
  throw OptionError("TIERMAP_CONFIG " + quote_value(path) + " cannot be used (" + reason +
                    "): name a readable YAML file, or unset it");
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

YAML::Node load(const std::string& yaml, const std::string& path) {
  try {
    if (has_second_document(yaml)) {
      throw OptionError(path + ": something follows the end of the first YAML document: leave one mapping of options");
    }
    return YAML::Load(yaml);
  } catch (const YAML::Exception& error) {
    throw OptionError(position(path, error.mark) + ": malformed YAML (" + one_line(error.msg) +
                      "): write one 'option: value' a line");
  }
}

FileSetting read_setting(const YAML::Node& key, const YAML::Node& value, const std::string& path) {
  const std::string where = position(path, key.Mark());
  if (!key.IsScalar()) {
    throw OptionError(where + ": an option's name must be a word: write one 'option: value' a line");
  }
  const auto row = std::ranges::find(option_table(), std::string_view(key.Scalar()), &OptionRow::name);
  if (row == option_table().end()) {
    throw OptionError(where + ": unknown option " + quote_value(key.Scalar()) +
                      ": correct or remove it ('tiermap config' lists the options)");
  }
  const std::string what = where + ": " + std::string(row->name);
  if (value.IsSequence() || value.IsMap()) {
    throw OptionError(what + " is a " + (value.IsMap() ? "mapping" : "list") + ": choose " + describe_range(*row));
  }
  return {row->id, parse_option(*row, value.IsScalar() ? value.Scalar() : std::string(), what), where};
}

}  // namespace

std::vector<FileSetting> parse_options_file(const std::string& yaml, const std::string& path) {
  const YAML::Node root = load(yaml, path);
  std::vector<FileSetting> settings;
  if (root.IsNull()) {
    return settings;
  }
  if (!root.IsMap()) {
    throw OptionError(position(path, root.Mark()) + ": not a mapping of options: write one 'option: value' a line");
  }
  for (const auto& entry : root) {
    FileSetting setting = read_setting(entry.first, entry.second, path);
    const auto earlier = std::ranges::find(settings, setting.id, &FileSetting::id);
    if (earlier != settings.end()) {
      throw OptionError(setting.where + ": " + std::string(option_row(setting.id).name) + " was set before at " +
                        earlier->where + ": remove one of the two");
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

std::vector<FileSetting> read_options_file(const std::string& path) {
  // A FIFO must not block.
  const int file_descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat status{};
  if (file_descriptor < 0 || ::fstat(file_descriptor, &status) != 0) {
    const int error_number = errno;
    if (file_descriptor >= 0) {
      ::close(file_descriptor);
    }
    throw_unreadable(path, std::generic_category().message(error_number));
  }
  std::string yaml;
  int error_number = 0;
  if (S_ISREG(status.st_mode)) {
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while (yaml.size() <= largest_file_bytes && (got = ::read(file_descriptor, buffer.data(), buffer.size())) > 0) {
      yaml.append(buffer.data(), static_cast<std::size_t>(got));
    }
    error_number = got < 0 ? errno : 0;
  }
  ::close(file_descriptor);
  if (!S_ISREG(status.st_mode)) {
    throw_unreadable(path, S_ISDIR(status.st_mode) ? "it is a directory" : "it is no regular file");
  }
  if (error_number != 0) {
    throw_unreadable(path, std::generic_category().message(error_number));
  }
  if (yaml.size() > largest_file_bytes) {
    throw_unreadable(path, "it is larger than " + format_size(largest_file_bytes));
  }
  return parse_options_file(yaml, path);
}

}  // namespace tiermap
