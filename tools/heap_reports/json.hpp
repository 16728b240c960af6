// Objects of a heap as JSON and as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tiermap/heap_check.hpp"

namespace tiermap {

nlohmann::ordered_json as_json(const std::vector<HeapObject>& objects);
void print_heap_json(const nlohmann::ordered_json& report);
/// Without what would move a terminal's cursor.
std::string shown(const std::string& text);

}  // namespace tiermap
