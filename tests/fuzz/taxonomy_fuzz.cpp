// Any text is a taxonomy in which every taxon's way up ends at the root, or is refused with one line; the same text as
// a table of sequences names taxa of the taxonomy only.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kmer/taxonomy.hpp"
#include "tiermap/error.hpp"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// A file in memory, whose path the reader opens.
int file_with(const std::uint8_t* data, std::size_t size) {
  static const int descriptor = ::memfd_create("taxonomy", MFD_CLOEXEC);
  require(descriptor >= 0 && ::ftruncate(descriptor, 0) == 0);
  require(::pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size));
  return descriptor;
}

void check_tree(const tiermap::Taxonomy& taxonomy) {
  for (tiermap::Taxonomy::Place place = 0; place < taxonomy.size(); ++place) {
    require(taxonomy.place_of(taxonomy.id(place)) == place);
    const tiermap::Taxonomy::Place parent = taxonomy.parent(place);
    require(parent == place ? taxonomy.depth(place) == 0 : taxonomy.depth(place) == taxonomy.depth(parent) + 1);
    require(taxonomy.depth(taxonomy.common_ancestor(place, 0)) <= taxonomy.depth(place));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = "/proc/self/fd/" + std::to_string(file_with(data, size));
  try {
    const tiermap::Taxonomy taxonomy = tiermap::read_taxonomy(path);
    check_tree(taxonomy);
    for (const auto& [sequence, taxon] : tiermap::read_sequence_taxa(path, taxonomy)) {
      require(!sequence.empty() && taxonomy.place_of(taxon).has_value());
    }
  } catch (const tiermap::OptionError& error) {
    require(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
  }
  return 0;
}
