#include "umap_interface/directory_metadata.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <span>

#include "platform/page_sizes.hpp"
#include "store/directory_entries.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap::umap_interface {
namespace {

constexpr std::size_t longest_text = 256;
constexpr const char* new_name = "_metadata.new";

std::string file_in(const std::string& path) {
  return path + "/" + directory_metadata_name;
}

bool is_space(char character) {
  return character == ' ' || character == '\n' || character == '\r' || character == '\t';
}

std::optional<std::uint64_t> take_number(std::string_view& text) {
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::optional<DirectoryMetadata> parse_directory_metadata(std::string_view text) {
  const std::optional<std::uint64_t> file_bytes = take_number(text);
  if (!file_bytes.has_value() || text.empty() || !is_space(text.front())) {
    return std::nullopt;
  }
  const std::optional<std::uint64_t> capacity_bytes = take_number(text);
  const bool ends = std::all_of(text.begin(), text.end(), is_space);
  if (!capacity_bytes.has_value() || !ends || *file_bytes == 0 || *file_bytes > largest_directory_bytes ||
      *capacity_bytes == 0 || *capacity_bytes > largest_directory_bytes) {
    return std::nullopt;
  }
  return DirectoryMetadata{*file_bytes, *capacity_bytes};
}

std::optional<DirectoryMetadata> load_directory_metadata(int directory, const std::string& path) {
  const FileDescriptor file(::openat(directory, directory_metadata_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    if (errno == ENOENT) {
      return std::nullopt;
    }
    throw_file_error(errno, file_in(path), "cannot be opened");
  }
  char text[longest_text];
  const std::int64_t bytes = read_fully(file.get(), text, sizeof text, 0);
  const bool is_file = bytes != -ESPIPE && bytes != -EISDIR;
  if (bytes < 0 && is_file) {
    throw_file_error(static_cast<int>(-bytes), file_in(path), "cannot be read");
  }
  const auto metadata = parse_directory_metadata({text, is_file ? static_cast<std::size_t>(bytes) : 0});
  if (!metadata.has_value()) {
    throw StoreError(EINVAL, file_in(path) +
                                 " is not two decimal numbers, a file size and a capacity: name the directory of a "
                                 "SparseStore, or restore the file");
  }
  return metadata;
}

void save_directory_metadata(int directory, const std::string& path, const DirectoryMetadata& metadata) {
  const std::string text = std::to_string(metadata.file_bytes) + "\n" + std::to_string(metadata.capacity_bytes) + "\n";
  const int result = replace_file(directory, directory_metadata_name, new_name, std::as_bytes(std::span(text)));
  if (result != 0) {
    throw_file_error(-result, file_in(path), "cannot be written");
  }
  // Where a directory cannot be synchronised (some network file systems) the new name is as durable as it gets.
  synchronise(directory, true);
}

DirectoryMetadata new_directory_metadata(const std::string& path, std::uint64_t region_bytes, std::uint64_t page_bytes,
                                         std::uint64_t file_bytes) {
  // Few, unless they would be so large that copying one is slow: what copies them may not know holes.
  constexpr std::uint64_t few_files = 1024;
  constexpr std::uint64_t most_files = 65536;
  constexpr std::uint64_t large_file_bytes = 128ULL << 20;
  if (region_bytes > largest_directory_bytes || file_bytes > largest_directory_bytes ||
      page_bytes > largest_directory_bytes) {
    throw StoreError(EFBIG, "sparse directory " + path + " cannot hold " +
                                std::to_string(std::max({region_bytes, file_bytes, page_bytes})) +
                                " bytes: choose at most 1 EiB");
  }
  if (region_bytes == 0 && file_bytes == 0) {
    throw StoreError(EINVAL, "sparse directory " + path + " is to be of 0 bytes: give the region's size");
  }
  const std::uint64_t unit = round_up(std::max(page_bytes, kernel_page_bytes), kernel_page_bytes);
  DirectoryMetadata metadata;
  metadata.file_bytes = round_up(std::max<std::uint64_t>(file_bytes, 1), unit);
  const auto files = [&] {
    return region_bytes / metadata.file_bytes + (region_bytes % metadata.file_bytes != 0 ? 1U : 0U);
  };
  while (files() > few_files && (metadata.file_bytes < large_file_bytes || files() > most_files)) {
    metadata.file_bytes *= 2;
  }
  metadata.capacity_bytes = std::max(region_bytes, metadata.file_bytes);
  return metadata;
}

}  // namespace tiermap::umap_interface
