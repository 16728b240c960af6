#include "median/image_source.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

void check_room(const std::string& path, std::uint64_t bytes) {
  const std::filesystem::path parent = std::filesystem::absolute(path).parent_path();
  std::error_code error;
  const std::filesystem::space_info room = std::filesystem::space(parent, error);
  if (!error && room.available < bytes) {
    throw OptionError(fmt::format("{} has room for {}, not for {}: choose another --file or fewer --bytes",
                                  parent.string(), format_size_rounded(room.available), format_size_rounded(bytes)),
                      ENOSPC);
  }
}

}  // namespace

ImageSource::ImageSource(std::string path, const StarField& field, ThreadTeam& team, ProgressDisplay& progress)
    : path_(std::move(path)) {
  check_room(path_, field.file_bytes());
  make_uninterrupted(path_, [&] {
    std::error_code error;
    if (!std::filesystem::create_directory(path_, error)) {
      throw OptionError(
          fmt::format("{} cannot be made: {}: choose another --file", path_, error ? error.message() : "it exists"));
    }
    return true;
  });
  made_ = MadePath(path_);
  field.write(path_, team, progress);
}

}  // namespace tiermap
