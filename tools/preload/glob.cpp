#include "preload/glob.hpp"

#include <cstddef>
#include <vector>

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

/// From the end of both to their beginnings, so that no pattern takes longer than its length times the text's.
bool whole_matches(std::string_view pattern, std::string_view text) {
  const std::size_t width = text.size() + 1;
  std::vector<bool> known((pattern.size() + 1) * width);
  known.back() = true;
  const auto match = [&](std::size_t from, std::size_t at) { return known[from * width + at]; };
  for (std::size_t from = pattern.size(); from-- > 0;) {
    const bool over_parts = pattern.substr(from).starts_with("**");
    for (std::size_t at = width; at-- > 0;) {
      const bool more = at < text.size();
      bool result = false;
      if (pattern[from] == '*') {
        result =
            match(from + (over_parts ? 2 : 1), at) || (more && (over_parts || text[at] != '/') && match(from, at + 1));
        // "**/" may stand for no folder at all.
        result = result || (over_parts && pattern.substr(from + 2).starts_with('/') && match(from + 3, at));
      } else if (more) {
        std::string_view rest = pattern.substr(from + 1);
        const bool same = pattern[from] == '?'   ? text[at] != '/'
                          : pattern[from] == '[' ? class_matches(rest, text[at])
                                                 : pattern[from] == text[at];
        result = same && match(pattern.size() - rest.size(), at + 1);
      }
      known[from * width + at] = result;
    }
  }
  return match(0, 0);
}

}  // namespace

bool matches(std::string_view pattern, std::string_view path) {
  if (pattern.find('/') == std::string_view::npos) {
    path.remove_prefix(path.find_last_of('/') + 1);
  }
  return whole_matches(pattern, path);
}

}  // namespace tiermap::preload
