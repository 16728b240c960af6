// The folder of a generated input.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "command_line/backing.hpp"
#include "command_line/interruption.hpp"
#include "kmer/genome_generator.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

/// Gone with this, also when the process is interrupted, unless it is kept. It has its name once it is whole.
class GeneratedFolder {
 public:
  /// Makes the folder and writes into it. Throws StoreError, OptionError if the disk has not the room.
  GeneratedFolder(std::string path, const GeneratorOptions& options, ProgressDisplay& progress)
      : path_(std::move(path)) {
    const std::string partial = partial_path(path_);
    refuse_left_behind(partial);
    make_uninterrupted(partial, [&] {
      std::error_code error;
      if (!std::filesystem::create_directory(partial, error)) {
        throw StoreError(error ? error.value() : EEXIST, fmt::format("{} cannot be made ({}): name another folder",
                                                                     path_, error ? error.message() : "it exists"));
      }
      return true;
    });
    made_ = MadePath(partial);
    const GenomeGenerator generator(options);
    check_room_for(partial, generator.fasta_bytes() + options.reads * (2 * std::uint64_t{options.read_bases} + 64));
    generator.write(GeneratedFiles::in_folder(partial), progress);
    made_.rename_to(path_);
  }

  GeneratedFiles files() const { return GeneratedFiles::in_folder(path_); }
  void keep() { made_.keep(); }

 private:
  std::string path_;
  MadePath made_;
};

}  // namespace tiermap
