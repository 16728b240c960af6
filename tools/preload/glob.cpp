#include "preload/glob.hpp"

#include <cstddef>

namespace tiermap::preload {
namespace {

/// Whether the class that begins after "[" holds `wanted`; `pattern` is left behind its "]". A class without an end is
/// an ordinary "[".
bool class_matches(std::string_view& pattern, char wanted) noexcept {
  const std::size_t end = pattern.find(']', pattern.size() > 1 && (pattern[0] == '!' || pattern[0] == '^') ? 2 : 1);
  if (end == std::string_view::npos) {
    return wanted == '[';
  }
  std::string_view members = pattern.substr(0, end);
  pattern.remove_prefix(end + 1);
  const bool negated = members[0] == '!' || members[0] == '^';
  members.remove_prefix(negated ? 1 : 0);
  bool found = false;
  for (std::size_t at = 0; at < members.size(); ++at) {
    if (at + 2 < members.size() && members[at + 1] == '-') {
      found = found || (members[at] <= wanted && wanted <= members[at + 2]);
      at += 2;
    } else {
      found = found || members[at] == wanted;
    }
  }
  return found != negated && wanted != '/';
}

bool whole_matches(std::string_view pattern, std::string_view text) noexcept;

bool star_matches(std::string_view pattern, std::string_view text) noexcept {
  const bool over_parts = pattern.starts_with("**");
  pattern.remove_prefix(over_parts ? 2 : 1);
  // "**/" may stand for no folder at all.
  if (over_parts && pattern.starts_with('/') && whole_matches(pattern.substr(1), text)) {
    return true;
  }
  for (std::size_t taken = 0; taken <= text.size(); ++taken) {
    if (whole_matches(pattern, text.substr(taken))) {
      return true;
    }
    if (taken < text.size() && text[taken] == '/' && !over_parts) {
      return false;
    }
  }
  return false;
}

bool whole_matches(std::string_view pattern, std::string_view text) noexcept {
  while (!pattern.empty()) {
    const char wanted = pattern.front();
    if (wanted == '*') {
      return star_matches(pattern, text);
    }
    if (text.empty()) {
      return false;
    }
    const char here = text.front();
    pattern.remove_prefix(1);
    text.remove_prefix(1);
    const bool same = wanted == '?' ? here != '/' : wanted == '[' ? class_matches(pattern, here) : wanted == here;
    if (!same) {
      return false;
    }
  }
  return text.empty();
}

}  // namespace

bool matches(std::string_view pattern, std::string_view path) noexcept {
  if (pattern.find('/') == std::string_view::npos) {
    path.remove_prefix(path.find_last_of('/') + 1);
  }
  return whole_matches(pattern, path);
}

}  // namespace tiermap::preload
