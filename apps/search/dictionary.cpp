#include "search/dictionary.hpp"

#include "search/ordered_map.hpp"
#include "search/sorted_vector.hpp"
#include "search/unordered_map.hpp"

namespace tiermap {

void build_dictionary(const SearchHeader& header, const MappedBytes& mapped, const BuildTools& tools) {
  switch (header.structure) {
    case Structure::ordered_map:
      return build_ordered_map(header, mapped, tools);
    case Structure::unordered_map:
      return build_unordered_map(header, mapped, tools);
    case Structure::sorted_vector:
      break;
  }
  build_sorted_vector(header, mapped, tools);
}

std::unique_ptr<const Dictionary> open_dictionary(const SearchHeader& header, const MappedBytes& mapped,
                                                  const std::string& name) {
  switch (header.structure) {
    case Structure::ordered_map:
      return std::make_unique<OrderedMap>(header, mapped, name);
    case Structure::unordered_map:
      return std::make_unique<UnorderedMap>(header, mapped, name);
    case Structure::sorted_vector:
      break;
  }
  return std::make_unique<SortedVector>(header, mapped);
}

}  // namespace tiermap
