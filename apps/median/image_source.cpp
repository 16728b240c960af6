#include "median/image_source.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "command_line/backing.hpp"
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
  const std::string partial = partial_path(path_);
  refuse_left_behind(partial);
  make_uninterrupted(partial, [&] {
    std::error_code error;
    if (!std::filesystem::create_directory(partial, error)) {
      throw OptionError(
          fmt::format("{} cannot be made: {}: choose another --file", partial, error ? error.message() : "it exists"));
    }
    return true;
  });
  made_ = MadePath(partial);
  field.write(partial, team, progress);
  made_.rename_to(path_);
}

}  // namespace tiermap
