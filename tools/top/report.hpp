// What `tiermap top` prints: a table for people, JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "top/sample.hpp"

namespace tiermap {

/// A heading and a line each, without line ends, none longer than `columns` (0: any length).
std::vector<std::string> format_table(const std::vector<TopLine>& lines, std::size_t columns);

/// One JSON object: {"caches": [{..., "regions": [...]}]}.
std::string format_json(const std::vector<TopLine>& lines);

}  // namespace tiermap
