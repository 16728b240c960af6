#include <iostream>
#include <tiermap/heap.hpp>
#include <tiermap/heap_containers.hpp>

struct Record {
  std::uint64_t minute;
  double degrees;
};
using Records = tiermap::HeapVector<Record>;
using Stations = tiermap::HeapUnorderedMap<tiermap::HeapString, Records>;

int main() {
  auto heap = tiermap::Heap::open_or_create("weather.heap", {.budget_bytes = 64 << 20});
  auto& stations = *heap.find_or_construct<Stations>("stations")();
  auto& records = stations[tiermap::HeapString("Berlin-Dahlem", heap)];
  for (int i = 0; i < 1000; ++i) records.push_back({records.size(), 8.5});
  heap.checkpoint();
  std::cout << "Berlin-Dahlem has " << records.size() << " records, the last one of minute " << records.back().minute
            << '\n';
}
