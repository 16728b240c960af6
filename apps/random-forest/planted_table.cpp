#include "random-forest/planted_table.hpp"

#include <algorithm>
#include <atomic>

#include "parallel/random.hpp"
#include "points/particles.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t planted_rows_at_once = 4096;  // Whole blocks of the disk, whatever the number of columns.

}  // namespace

void write_planted_table(Store& table, const PointLayout& layout, std::uint32_t classes, std::uint64_t seed,
                         ThreadTeam& team, ProgressDisplay& progress) {
  const std::uint32_t features = layout.dimensions - 1;
  const std::uint64_t row_bytes = layout.dimensions * sizeof(float);
  const Particles particles(classes, features, seed);
  const std::uint64_t drawing = random_word(~seed, 0);
  std::atomic<std::uint64_t> next{0};
  team.run([&](std::uint32_t) {
    AlignedBuffer rows(planted_rows_at_once * row_bytes);
    for (std::uint64_t first = next.fetch_add(planted_rows_at_once); first < layout.points;
         first = next.fetch_add(planted_rows_at_once)) {
      const std::uint64_t count = std::min(planted_rows_at_once, layout.points - first);
      for (std::uint64_t index = 0; index < count; ++index) {
        const std::span<float> row = rows.as_span<float>().subspan(index * layout.dimensions, layout.dimensions);
        particles.place(first + index, row.first(features));
        const std::uint64_t word = random_word(drawing, first + index);
        const std::uint64_t drawn = word / one_wrong_of % classes;
        row[features] = static_cast<float>(word % one_wrong_of == 0 ? drawn : particles.cluster_of(first + index));
      }
      write_fully(table, rows.data(), count * row_bytes, first * row_bytes);
      progress.add(count * row_bytes);
    }
  });
}

}  // namespace tiermap
