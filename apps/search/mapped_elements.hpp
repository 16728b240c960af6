// Heads and elements of a mapped file as arrays, and the filling of the second by many threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "command_line/memory_system.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "search/search_file.hpp"

namespace tiermap {

/// A head or the link of a node: the element's number, from 1 on; 0 leads nowhere. A number and no address, so that the
/// file can be mapped anywhere.
using Link = std::uint64_t;

inline std::span<Link> heads_in(const SearchHeader& header, const MappedBytes& mapped) {
  return {reinterpret_cast<Link*>(mapped.data() + SearchHeader::bytes), static_cast<std::size_t>(header.heads)};
}

template <typename Element>
std::span<Element> elements_in(const SearchHeader& header, const MappedBytes& mapped) {
  return {reinterpret_cast<Element*>(mapped.data() + header.elements_at), static_cast<std::size_t>(header.elements)};
}

/// Calls make(index) for every element and stores what it returns; the file is written in address order.
template <typename Element, typename Make>
void fill_elements(std::span<Element> elements, ThreadTeam& team, ProgressDisplay& progress, const Make& make) {
  constexpr std::uint64_t piece = 1U << 14U;
  team.for_each((elements.size() + piece - 1) / piece, [&](std::uint64_t number) {
    const std::uint64_t first = number * piece;
    const std::uint64_t end = std::min<std::uint64_t>(elements.size(), first + piece);
    for (std::uint64_t index = first; index < end; ++index) {
      elements[index] = make(index);
    }
    progress.add(end - first);
  });
}

}  // namespace tiermap
