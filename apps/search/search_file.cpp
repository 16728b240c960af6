#include "search/search_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "config/size.hpp"
#include "parallel/random.hpp"
#include "search/entries.hpp"
#include "search/ordered_map.hpp"
#include "search/unordered_map.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t link_bytes = sizeof(std::uint64_t);

constexpr std::array<std::pair<const char*, Structure>, 3> structures = {{{"vector", Structure::sorted_vector},
                                                                          {"ordered", Structure::ordered_map},
                                                                          {"unordered", Structure::unordered_map}}};

bool is_known(Structure structure) {
  return structure >= Structure::sorted_vector && structure <= Structure::unordered_map;
}

std::uint64_t element_bytes_of(Structure structure) {
  switch (structure) {
    case Structure::ordered_map:
      return sizeof(TreeNode);
    case Structure::unordered_map:
      return sizeof(ChainNode);
    case Structure::sorted_vector:
      break;
  }
  return sizeof(Entry);
}

std::uint64_t heads_of(Structure structure, std::uint64_t elements) {
  switch (structure) {
    case Structure::ordered_map:
      return 1;
    case Structure::unordered_map:
      return elements;
    case Structure::sorted_vector:
      break;
  }
  return 0;
}

[[noreturn]] void refuse_file(const Store& store, const std::string& why) {
  throw StoreError(EINVAL, fmt::format("{} {}", store.name(), why));
}

}  // namespace

const char* structure_name(Structure structure) noexcept {
  return structures[static_cast<std::size_t>(structure) - 1].first;
}

Structure parse_structure(const std::string& text) {
  for (const auto& [name, structure] : structures) {
    if (text == name) {
      return structure;
    }
  }
  throw OptionError("structure " + text + " is unknown: choose vector, ordered or unordered");
}

SearchHeader SearchHeader::for_elements(Structure structure, std::uint64_t elements, std::uint64_t seed) {
  SearchHeader header;
  header.structure = structure;
  header.elements = elements;
  header.seed = seed;
  header.element_bytes = element_bytes_of(structure);
  header.heads = heads_of(structure, elements);
  header.elements_at = bytes + (header.heads * link_bytes + page - 1) / page * page;
  header.file_bytes = header.elements_at + elements * header.element_bytes;
  // All else follows from these.
  header.checksum = mix_word(mix_word(mix_word(static_cast<std::uint64_t>(structure)) + elements) + seed);
  return header;
}

SearchHeader SearchHeader::for_bytes(Structure structure, std::uint64_t most_bytes, std::uint64_t seed) {
  const std::uint64_t least = for_elements(structure, 1, seed).file_bytes;
  if (most_bytes < least) {
    throw OptionError(fmt::format("size {} has room for no element: choose {} or more", format_size(most_bytes),
                                  format_size((least + page - 1) / page * page)));
  }
  const std::uint64_t each =
      element_bytes_of(structure) + (structure == Structure::unordered_map ? link_bytes : std::uint64_t{0});
  std::uint64_t elements = (most_bytes - bytes) / each;
  if (elements > Entries::most) {
    throw OptionError(fmt::format("size {} is more elements than there are keys for: choose {} or less",
                                  format_size(most_bytes), format_size(Entries::most * each)));
  }
  // Heads take whole pages.
  while (for_elements(structure, elements, seed).file_bytes > most_bytes) {
    --elements;
  }
  return for_elements(structure, elements, seed);
}

SearchHeader read_search_header(Store& store) {
  SearchHeader header;
  const SearchHeader expected;
  if (store.size_bytes() < SearchHeader::bytes) {
    refuse_file(store, "is too short to be made by tiermap-search: make one with --file and --keep");
  }
  AlignedBuffer buffer(SearchHeader::bytes);
  read_fully(store, buffer.data(), SearchHeader::bytes, 0);
  std::memcpy(&header, buffer.data(), sizeof(header));
  if (std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0) {
    refuse_file(store, "was not made by tiermap-search: make one with --file and --keep");
  }
  if (header.version != SearchHeader::current_version) {
    refuse_file(store, fmt::format("is of version {}, and this program knows version {}: make it again", header.version,
                                   SearchHeader::current_version));
  }
  if (!is_known(header.structure) || header.elements == 0 || header.elements > Entries::most ||
      header != SearchHeader::for_elements(header.structure, header.elements, header.seed)) {
    refuse_file(store, "has a damaged header: make it again");
  }
  if (store.size_bytes() < header.file_bytes) {
    refuse_file(store,
                fmt::format("is cut off: it has {} of {} bytes; make it again", store.size_bytes(), header.file_bytes));
  }
  return header;
}

void write_search_header(Store& store, const SearchHeader& header) {
  AlignedBuffer buffer(SearchHeader::bytes);
  std::memset(buffer.data(), 0, SearchHeader::bytes);
  std::memcpy(buffer.data(), &header, sizeof(header));
  write_fully(store, buffer.data(), SearchHeader::bytes, 0);
}

void refuse_link(const std::string& name, std::uint64_t link) {
  throw StoreError(EINVAL,
                   fmt::format("{} is damaged: its link to element {} leads astray; make it again", name, link));
}

}  // namespace tiermap
