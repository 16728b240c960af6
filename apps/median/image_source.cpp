#include "median/image_source.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "command_line/backing.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

ImageSource::ImageSource(std::string path, const StarField& field, ThreadTeam& team, ProgressDisplay& progress)
    : path_(std::move(path)) {
  check_room_for(path_, field.file_bytes());
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
