// Where the images come from: a directory that is there, or one that is filled and removed again.
#pragma once

#include <string>

#include "command_line/interruption.hpp"
#include "median/star_field.hpp"

namespace tiermap {

/// A directory of images. One that was made here is removed when this goes, or the process is interrupted, unless
/// keep() was called.
class ImageSource {
 public:
  /// One that is there.
  explicit ImageSource(std::string path) : path_(std::move(path)) {}
  /// Makes it and fills it. Throws OptionError if the disk has not the room, StoreError.
  ImageSource(std::string path, const StarField& field, ThreadTeam& team, ProgressDisplay& progress);

  const std::string& path() const noexcept { return path_; }
  void keep() noexcept { made_.keep(); }

 private:
  std::string path_;
  MadePath made_;
};

}  // namespace tiermap
