// A structure in a file: a page that says what it is, heads, and elements. docs/applications/search.md has the layout.
#pragma once

#include <cstdint>
#include <string>

#include "command_line/backing.hpp"

namespace tiermap {

/// What a file holds; the numbers are those in the file.
enum class Structure : std::uint32_t {
  sorted_vector = 1,  ///< Entries in the order of their keys.
  ordered_map = 2,    ///< A red-black tree.
  unordered_map = 3,  ///< A hash table with chains.
};

/// As it is typed: vector, ordered, unordered.
const char* structure_name(Structure structure) noexcept;
/// Throws OptionError that names the choices.
Structure parse_structure(const std::string& text);

/// What the file's first page says. All numbers little-endian.
struct SearchHeader {
  static constexpr std::uint32_t current_version = 1;
  static constexpr std::uint64_t bytes = 4096;

  char magic[8] = {'T', 'I', 'E', 'R', 'F', 'N', 'D', '\n'};
  std::uint32_t version = current_version;
  Structure structure = Structure::sorted_vector;
  std::uint64_t elements = 0;
  std::uint64_t seed = 0;           ///< Of keys, values and where each element lies.
  std::uint64_t element_bytes = 0;  ///< Of each.
  std::uint64_t heads = 0;          ///< Links of 8 bytes, from the second page on: the root, or one for each chain.
  std::uint64_t elements_at = 0;    ///< Where the elements begin: a page.
  std::uint64_t file_bytes = 0;
  std::uint64_t checksum = 0;

  /// The one header that so many elements of this structure have.
  static SearchHeader for_elements(Structure structure, std::uint64_t elements, std::uint64_t seed);
  /// The one with the most elements whose file is no larger than `most_bytes`. Throws OptionError if that is none, or
  /// if there would be more than keys.
  static SearchHeader for_bytes(Structure structure, std::uint64_t most_bytes, std::uint64_t seed);

  bool operator==(const SearchHeader&) const = default;
};

/// Reads and checks the header. Throws StoreError that says what is wrong: not such a file, of a later version,
/// damaged, cut off.
SearchHeader read_search_header(Store& store);
void write_search_header(Store& store, const SearchHeader& header);

/// Throws StoreError: a link of the file leads where it cannot.
[[noreturn]] void refuse_link(const std::string& name, std::uint64_t link);

}  // namespace tiermap
