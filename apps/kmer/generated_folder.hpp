// The folder of a generated input, gone with this unless it is kept.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "command_line/backing.hpp"
#include "config/size.hpp"
#include "kmer/genome_generator.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

class GeneratedFolder {
 public:
  /// Makes the folder and writes into it. Throws StoreError, OptionError if the disk has not the room.
  GeneratedFolder(std::string path, const GeneratorOptions& options, ProgressDisplay& progress)
      : path_(std::move(path)) {
    std::error_code error;
    if (!std::filesystem::create_directory(path_, error)) {
      throw StoreError(error ? error.value() : EEXIST, fmt::format("{} cannot be made ({}): name another folder", path_,
                                                                   error ? error.message() : "it exists"));
    }
    remove_if_interrupted(path_);
    try {
      const GenomeGenerator generator(options);
      check_room(generator.fasta_bytes() + options.reads * (2 * std::uint64_t{options.read_bases} + 64));
      generator.write(files(), progress);
    } catch (...) {
      remove();
      throw;
    }
  }
  ~GeneratedFolder() { remove(); }
  GeneratedFolder(const GeneratedFolder&) = delete;
  GeneratedFolder& operator=(const GeneratedFolder&) = delete;

  GeneratedFiles files() const { return GeneratedFiles::in_folder(path_); }
  void keep() {
    keep_if_interrupted(path_);
    path_.clear();
  }

 private:
  void check_room(std::uint64_t bytes) const {
    const std::uint64_t free = std::filesystem::space(path_).available;
    if (free < bytes) {
      throw OptionError(
          fmt::format("{} has room for {}, and the genomes and reads need {}: choose fewer --bytes or reads", path_,
                      format_size_rounded(static_cast<double>(free)), format_size_rounded(static_cast<double>(bytes))),
          ENOSPC);
    }
  }
  void remove() noexcept {
    if (!path_.empty()) {
      std::error_code ignored;
      std::filesystem::remove_all(path_, ignored);
      keep_if_interrupted(path_);
    }
  }
  std::string path_;
};

}  // namespace tiermap
