// A program of several ranks, each of which the kernel gives other addresses: every rank hangs its part into a list,
// and all follow the whole of it by the pointers in it. Exit code 0 if it is what it should be.
#include <iostream>
#include <tiermap/shared_vector.hpp>

namespace {

struct Node {
  std::uint64_t value;
  const Node* next;
};

int run() {
  tiermap::Job job;
  tiermap::SharedVectorOptions options;
  options.same_address = true;
  auto nodes = tiermap::SharedVector<Node>::create(job, "nodes", 10'000, options);
  for (std::uint64_t index = job.rank(); index < nodes.size(); index += job.ranks()) {
    nodes[index] = {index, index + 1 < nodes.size() ? &nodes[index + 1] : nullptr};
  }
  job.barrier();
  std::uint64_t expected = 0;
  for (const Node* node = nodes.data(); node != nullptr; node = node->next) {
    if (node->value != expected++) {
      std::cerr << "shared-list: rank " << job.rank() << " finds " << node->value << "\n";
      return 1;
    }
  }
  const bool whole = expected == nodes.size();
  nodes.close();
  job.end();
  return whole ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::cerr << "shared-list: " << error.what() << "\n";
    return 2;
  }
}
