// What `tiermap heap` prints: tables for people, JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "heap/heap_copy.hpp"
#include "heap/saved_heap.hpp"
#include "tiermap/heap_check.hpp"

namespace tiermap {

void print_objects(const std::vector<HeapObject>& objects, bool json);
void print_space(const std::string& path, const SavedHeap& heap, bool json);
void print_check(const std::string& path, const HeapCheck& check, bool json);
void print_salvage(const std::string& to, const HeapSalvage& salvage);

}  // namespace tiermap
