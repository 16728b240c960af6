#include "store/directory_entries.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
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

int replace_file(int directory, const char* name, const char* temporary_name,
                 std::span<const std::byte> content) noexcept {
  const FileDescriptor file(::openat(directory, temporary_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) {
    return -errno;
  }
  const std::int64_t put = write_fully(file.get(), content.data(), content.size(), 0);
  int result = put < 0 ? static_cast<int>(put) : (static_cast<std::size_t>(put) < content.size() ? -ENOSPC : 0);
  result = result == 0 ? synchronise(file.get(), true) : result;
  if (result == 0 && ::renameat(directory, temporary_name, directory, name) != 0) {
    result = -errno;
  }
  if (result != 0) {
    ::unlinkat(directory, temporary_name, 0);
  }
  return result;
}

}  // namespace tiermap
