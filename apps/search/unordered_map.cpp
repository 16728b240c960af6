#include "search/unordered_map.hpp"

#include <algorithm>
#include <vector>

#include "parallel/random.hpp"

namespace tiermap {
namespace {

/// Nodes that are hashed before they are chained.
constexpr std::uint64_t batch_nodes = 1U << 18U;
/// Threads that chain: each looks at all hashes of a batch, so more would only look.
constexpr std::uint32_t most_chainers = 16;

std::uint64_t head_of(std::uint64_t key, std::uint64_t heads) noexcept {
  return mix_word(key) % heads;
}

/// Threads add nodes, each to heads that are its alone: chains are the same however many threads there are.
class ChainBuilder {
 public:
  ChainBuilder(const SearchHeader& header, const MappedBytes& mapped, const BuildTools& tools)
      : tools_(tools),
        entries_(header.seed),
        heads_(heads_in(header, mapped)),
        nodes_(elements_in<ChainNode>(header, mapped)),
        chosen_(std::min<std::uint64_t>(batch_nodes, nodes_.size())) {}

  void build() {
    // Half of the memory, for the nodes pass through it too.
    const std::uint64_t heads_at_once = std::max<std::uint64_t>(1, tools_.memory_bytes / 2 / sizeof(Link));
    const std::uint64_t passes = (heads_.size() + heads_at_once - 1) / heads_at_once;
    tools_.progress.restart("building", passes * nodes_.size());
    for (std::uint64_t first = 0; first < heads_.size(); first += heads_at_once) {
      const std::uint64_t end = std::min<std::uint64_t>(heads_.size(), first + heads_at_once);
      for (std::uint64_t node = 0; node < nodes_.size(); node += batch_nodes) {
        const std::span batch = nodes_.subspan(node, std::min<std::uint64_t>(batch_nodes, nodes_.size() - node));
        choose_heads(batch, node, first == 0);
        chain(batch, node, first, end);
      }
    }
  }

 private:
  void choose_heads(std::span<ChainNode> batch, std::uint64_t first_node, bool write) {
    constexpr std::uint64_t piece = 1U << 12U;
    tools_.team.for_each((batch.size() + piece - 1) / piece, [&](std::uint64_t number) {
      const std::uint64_t end = std::min<std::uint64_t>(batch.size(), (number + 1) * piece);
      for (std::uint64_t index = number * piece; index < end; ++index) {
        const Entry entry = entries_.at(first_node + index);
        chosen_[index] = head_of(entry.key, heads_.size());
        if (write) {
          batch[index].entry = entry;
        }
      }
    });
  }

  /// Of the batch, the nodes whose heads are in [first, end), of which each thread has a part.
  void chain(std::span<ChainNode> batch, std::uint64_t first_node, std::uint64_t first, std::uint64_t end) {
    const std::uint64_t chainers = std::min(tools_.team.size(), most_chainers);
    tools_.team.run([&](std::uint32_t member) {
      const std::uint64_t part = (end - first + chainers - 1) / chainers;
      const std::uint64_t part_first = std::min(end, first + member * part);
      const std::uint64_t part_end = std::min(end, part_first + part);
      for (std::uint64_t index = 0; part_first < part_end && index < batch.size(); ++index) {
        const std::uint64_t head = chosen_[index];
        if (head >= part_first && head < part_end) {
          batch[index].next = heads_[head];
          heads_[head] = first_node + index + 1;
        }
      }
    });
    tools_.progress.add(batch.size());
  }

  const BuildTools& tools_;
  Entries entries_;
  std::span<Link> heads_;
  std::span<ChainNode> nodes_;
  std::vector<std::uint64_t> chosen_;  ///< The head of each node of a batch.
};

}  // namespace

UnorderedMap::UnorderedMap(const SearchHeader& header, const MappedBytes& mapped, std::string name)
    : name_(std::move(name)), heads_(heads_in(header, mapped)), nodes_(elements_in<const ChainNode>(header, mapped)) {}

std::optional<std::uint64_t> UnorderedMap::find(std::uint64_t key) const {
  Link above = nodes_.size() + 1;
  for (Link link = heads_[head_of(key, heads_.size())]; link != 0; link = nodes_[link - 1].next) {
    // Links go down, or they could go in circles.
    if (link >= above) {
      refuse_link(name_, link);
    }
    if (nodes_[link - 1].entry.key == key) {
      return nodes_[link - 1].entry.value;
    }
    above = link;
  }
  return std::nullopt;
}

void build_unordered_map(const SearchHeader& header, const MappedBytes& mapped, const BuildTools& tools) {
  ChainBuilder(header, mapped, tools).build();
}

}  // namespace tiermap
