#include <cstdint>
#include <iostream>
#include <tiermap/tiermap.hpp>

int main() {
  tiermap::Cache cache({.budget_bytes = 64 << 20});
  auto region = cache.map("example.bin", {.access = tiermap::Access::read_write, .length = 256 << 20});
  auto words = region.as_span<std::uint64_t>();
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i;
  region.sync();
  std::cout << words.size() << " words in 64 MiB of memory, the last one is " << words.back() << '\n';
}
