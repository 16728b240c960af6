// Whatever a file holds, tiermap-search refuses it with a StoreError, or finds its way about in it: the header, and
// then the links, which are checked as they are followed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "file_in_memory.hpp"
#include "search/dictionary.hpp"
#include "search/entries.hpp"
#include "search/search_file.hpp"
#include "tiermap/error.hpp"

namespace {

using tiermap::SearchHeader;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void look_up(tiermap::FileInMemory& file) {
  try {
    const SearchHeader header = tiermap::read_search_header(file);
    require(header.elements_at + header.elements * header.element_bytes <= file.size_bytes());
    require(SearchHeader::bytes + header.heads * 8 <= header.elements_at);
    const tiermap::MappedFileInMemory mapped(file);
    const auto dictionary = open_dictionary(header, mapped, "a file");
    const tiermap::LookupSequence sequence(tiermap::Entries(header.seed), header.elements, 1, 50);
    for (std::uint64_t index = 0; index < 64; ++index) {
      static_cast<void>(dictionary->find(sequence.at(index).key));
    }
  } catch (const tiermap::StoreError& error) {
    require(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
  }
}

/// The header of the largest structure of its kind that the file has room for; no chance would find a right one.
void put_header(tiermap::FileInMemory& file, tiermap::Structure structure) {
  try {
    const SearchHeader header = SearchHeader::for_bytes(structure, file.size_bytes(), 1);
    std::memcpy(file.bytes(), &header, sizeof(header));
  } catch (const tiermap::OptionError&) {
    // No room for any.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tiermap::FileInMemory file(data, size, sizeof(SearchHeader), SearchHeader::bytes);
  look_up(file);
  for (const auto structure :
       {tiermap::Structure::sorted_vector, tiermap::Structure::ordered_map, tiermap::Structure::unordered_map}) {
    put_header(file, structure);
    look_up(file);
  }
  return 0;
}
