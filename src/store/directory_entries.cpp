#include "store/directory_entries.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <cerrno>
#include <string_view>

#include "store/file_open.hpp"

namespace tiermap {

std::vector<std::string> names_in(int directory, const std::string& path) {
  // A descriptor of its own: reading a directory moves a position that duplicates share.
  FileDescriptor own(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const stream = own.valid() ? ::fdopendir(own.get()) : nullptr;
  if (stream == nullptr) {
    throw_file_error(errno, path, "cannot be listed");
  }
  own.release();
  std::vector<std::string> names;
  errno = 0;
  while (const struct dirent* entry = ::readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      names.emplace_back(name);
    }
  }
  const int error = errno;
  ::closedir(stream);
  if (error != 0) {
    throw_file_error(error, path, "cannot be listed");
  }
  return names;
}

}  // namespace tiermap
