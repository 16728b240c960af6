#include "search/lookup_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

namespace tiermap {

void LookupOutcome::add(const LookupOutcome& other) noexcept {
  hits += other.hits;
  misses += other.misses;
  value_sum += other.value_sum;
  wrong += other.wrong;
  first_wrong = std::min(first_wrong, other.first_wrong);
}

std::string LookupOutcome::failure(const LookupSequence& sequence, const std::string& file) const {
  if (wrong == 0) {
    return {};
  }
  const Lookup first = sequence.at(first_wrong);
  return fmt::format("{} of {} look-ups in {} were answered wrongly, the first that of key {}, which {}", wrong,
                     hits + misses, file, first.key, first.value.has_value() ? "the file should have" : "no file has");
}

LookupOutcome look_up(const Dictionary& dictionary, const LookupSequence& sequence, std::uint64_t count,
                      ThreadTeam& team, ProgressDisplay& progress) {
  // Few, so that threads end together also where each look-up takes several page faults.
  constexpr std::uint64_t piece = 64;
  std::mutex mutex;
  LookupOutcome total;
  team.for_each((count + piece - 1) / piece, [&](std::uint64_t number) {
    LookupOutcome part;
    const std::uint64_t end = std::min(count, (number + 1) * piece);
    for (std::uint64_t index = number * piece; index < end; ++index) {
      const Lookup lookup = sequence.at(index);
      const std::optional<std::uint64_t> found = dictionary.find(lookup.key);
      ++(found.has_value() ? part.hits : part.misses);
      part.value_sum += found.value_or(0);
      if (found != lookup.value) {
        ++part.wrong;
        part.first_wrong = std::min(part.first_wrong, index);
      }
    }
    progress.add(end - number * piece);
    const std::lock_guard held(mutex);
    total.add(part);
  });
  return total;
}

}  // namespace tiermap
