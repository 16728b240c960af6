#include "store/matching_files.hpp"

#include <glob.h>

#include <algorithm>
#include <cerrno>

#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

std::vector<std::string> matching_files(std::string_view encoded, const StoreUrl& url) {
  const std::string pattern = decode_pattern(encoded, url.text);
  glob_t matches = {};
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &matches);
  const int error = result == GLOB_NOSPACE ? ENOMEM : errno;
  const bool missing = result == GLOB_NOMATCH || (result == GLOB_ABORTED && error == ENOENT);
  std::vector<std::string> paths;
  if (result == 0) {
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  }
  ::globfree(&matches);
  if (missing) {
    throw StoreError(ENOENT, "store '" + url.text + "': no file matches: check the pattern (a star in a name is %2A)");
  }
  if (result != 0) {
    throw_file_error(error, "store '" + url.text + "': a directory of the pattern", "cannot be read");
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace tiermap
