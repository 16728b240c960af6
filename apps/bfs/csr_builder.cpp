#include "bfs/csr_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <system_error>
#include <vector>

#include "parallel/word_sort.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);

std::uint64_t arc_word(Vertex source, Vertex target) {
  return std::uint64_t{source} << 32U | target;
}

/// Buffers for threads that come and go: as many as were ever in use at once.
class BufferPool {
 public:
  explicit BufferPool(std::uint64_t bytes) : bytes_(bytes) {}
  AlignedBuffer take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      return AlignedBuffer(bytes_);
    }
    AlignedBuffer buffer = std::move(idle_.back());
    idle_.pop_back();
    return buffer;
  }
  void give_back(AlignedBuffer buffer) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(buffer));
  }

 private:
  std::uint64_t bytes_;
  std::mutex mutex_;
  std::vector<AlignedBuffer> idle_;
};

Backing write_arcs(const EdgeSource& source, ThreadTeam& team, const CsrBuildOptions& options,
                   ProgressDisplay& progress) {
  const std::uint64_t arcs_per_edge = options.undirected ? 2 : 1;
  Backing scratch = Backing::create(options.scratch_path, source.edges() * arcs_per_edge * word_bytes);
  progress.restart("writing arcs", source.edges() * arcs_per_edge * word_bytes);
  const std::shared_ptr<Store> store = scratch.store();
  BufferPool pool(EdgeSource::piece_edges * arcs_per_edge * word_bytes);
  source.for_each_piece(team, [&](std::uint64_t first, std::span<const Edge> edges) {
    AlignedBuffer buffer = pool.take();
    const std::span<std::uint64_t> words = buffer.as_span<std::uint64_t>();
    std::uint64_t count = 0;
    for (const Edge& edge : edges) {
      words[count++] = arc_word(edge.source, edge.target);
      if (options.undirected) {
        words[count++] = arc_word(edge.target, edge.source);
      }
    }
    write_fully(*store, words.data(), count * word_bytes, first * arcs_per_edge * word_bytes);
    progress.add(count * word_bytes);
    pool.give_back(std::move(buffer));
  });
  return scratch;
}

/// Numbers written one after another, in large pieces.
template <typename Number>
class NumberWriter {
 public:
  NumberWriter(Store& store, std::uint64_t offset) : store_(store), offset_(offset), buffer_(buffer_bytes) {}
  void write(Number number) {
    numbers_[used_++] = number;
    if (used_ == numbers_.size()) {
      flush();
    }
  }
  void flush() {
    write_fully(store_, numbers_.data(), used_ * sizeof(Number), offset_);
    offset_ += used_ * sizeof(Number);
    used_ = 0;
  }

 private:
  static constexpr std::uint64_t buffer_bytes = std::uint64_t{4} << 20U;
  Store& store_;
  std::uint64_t offset_;
  AlignedBuffer buffer_;
  std::span<Number> numbers_ = buffer_.as_span<Number>();
  std::uint64_t used_ = 0;
};

/// Writes both tables from arcs in order. Returns how many arcs were neither loops nor there before.
std::uint64_t write_tables(std::span<const std::uint64_t> sorted, const CsrHeader& header, Store& store,
                           ProgressDisplay& progress) {
  NumberWriter<std::uint64_t> offsets(store, header.offsets_at);
  NumberWriter<Vertex> targets(store, header.targets_at);
  std::uint64_t next_vertex = 0;
  std::uint64_t arcs = 0;
  std::uint64_t previous = ~std::uint64_t{0};
  for (std::uint64_t index = 0; index < sorted.size(); ++index) {
    const std::uint64_t word = sorted[index];
    if (index % EdgeSource::piece_edges == 0) {
      progress.set(index * word_bytes);
    }
    const std::uint64_t source = word >> 32U;
    const auto target = static_cast<Vertex>(word);
    if (word == previous || source == target) {
      continue;
    }
    previous = word;
    for (; next_vertex <= source; ++next_vertex) {
      offsets.write(arcs);
    }
    targets.write(target);
    ++arcs;
  }
  for (; next_vertex <= header.vertices; ++next_vertex) {
    offsets.write(arcs);
  }
  offsets.flush();
  targets.flush();
  return arcs;
}

WordSortOptions sort_options(const MemorySystem& system, MappedBytes& mapped, bool prefetch,
                             ProgressDisplay& progress) {
  WordSortOptions options;
  options.memory_bytes = system.budget_bytes() / 10 * 7;
  if (prefetch) {
    options.ahead = [&mapped](std::uint64_t first, std::uint64_t count) {
      mapped.prefetch({first * word_bytes, count * word_bytes});
    };
  }
  options.finished = [&progress](std::uint64_t, std::uint64_t count) { progress.add(count * word_bytes); };
  return options;
}

}  // namespace

Backing build_csr(const EdgeSource& source, MemorySystem& system, ThreadTeam& team, const CsrBuildOptions& options,
                  ProgressDisplay& progress) {
  const std::uint64_t most_arcs = source.edges() * (options.undirected ? 2 : 1);
  CsrHeader header = CsrHeader::for_graph(source.vertices(), most_arcs, options.undirected);
  header.input_edges = source.edges();
  Backing graph = Backing::create_unfinished(options.url, header.file_bytes);
  Backing scratch = write_arcs(source, team, options, progress);
  scratch.make_cold();
  {
    const std::unique_ptr<MappedBytes> mapped = system.map(scratch, Access::read_write);
    progress.restart("sorting arcs", mapped->size());
    sort_words(mapped->as_span<std::uint64_t>(), team, sort_options(system, *mapped, options.prefetch, progress));
    progress.restart("writing the graph", mapped->size());
    const std::uint64_t arcs = write_tables(mapped->as_span<const std::uint64_t>(), header, *graph.store(), progress);
    header.file_bytes = header.targets_at + arcs * sizeof(Vertex);
    header.arcs = arcs;
  }
  if (const int result = graph.store()->resize(header.file_bytes); result < 0 && result != -ENOTSUP) {
    throw StoreError(-result, fmt::format("{} cannot be cut to {} bytes: {}", options.url, header.file_bytes,
                                          std::generic_category().message(-result)));
  }
  // Last: a file whose making was interrupted has no header, and is refused.
  write_csr_header(*graph.store(), header);
  graph.finish();
  return graph;
}

}  // namespace tiermap
