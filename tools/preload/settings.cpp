#include "preload/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "config/size.hpp"
#include "preload/glob.hpp"
#include "preload/reasons.hpp"
#include "tiermap/error.hpp"

namespace tiermap::preload {
namespace {

std::string value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (end > start) {
      lines.push_back(text.substr(start, end - start));
    }
    start = end + 1;
  }
  return lines;
}

bool any_matches(const std::vector<std::string>& patterns, std::string_view path) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches(pattern, path); });
}

}  // namespace

Settings read_settings() {
  Settings settings;
  settings.match = lines_of(value_of(match_variable));
  settings.exclude = lines_of(value_of(exclude_variable));
  if (const std::string size = value_of(minimum_size_variable); !size.empty()) {
    try {
      settings.minimum_bytes = parse_size(size, minimum_size_variable);
    } catch (const OptionError&) {  // `tiermap run` has refused it already; here nobody can be told.
    }
  }
  settings.read_only = !value_of(read_only_variable).empty();
  settings.serve_all = !value_of(serve_all_variable).empty();
  settings.verbose = !value_of(verbose_variable).empty();
  settings.report = value_of(report_variable);
  settings.first_process = value_of(process_variable) == std::to_string(::getpid());
  return settings;
}

const char* why_not_chosen(const Settings& settings, std::string_view path, bool private_mapping) {
  if (any_matches(settings.exclude, path)) {
    return reasons::excluded;
  }
  if (settings.match.empty()) {
    return private_mapping ? reasons::private_and_not_matched : nullptr;
  }
  return any_matches(settings.match, path) ? nullptr : reasons::not_matched;
}

const char* why_small_not_chosen(const Settings& settings, std::string_view path, bool private_mapping) {
  const char* const reason = why_not_chosen(settings, path, private_mapping);
  return reason == nullptr                            ? reasons::small
         : reason == reasons::excluded                ? reasons::small_and_excluded
         : reason == reasons::private_and_not_matched ? reasons::small_and_private
                                                      : reasons::small_and_not_matched;
}

}  // namespace tiermap::preload
