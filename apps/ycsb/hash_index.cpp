#include "ycsb/hash_index.hpp"

#include <fmt/format.h>

#include "parallel/random.hpp"

namespace tiermap {

std::uint64_t HashIndex::entry_of(const PoolTransaction& transaction, std::uint64_t key) const {
  const std::uint64_t first = mix_word(key) % layout_.hash_entries();
  for (std::uint64_t step = 0; step < layout_.hash_entries(); ++step) {
    const std::uint64_t at = layout_.hash_entry_at(partition_, (first + step) % layout_.hash_entries());
    const auto& entry = transaction.view<HashEntry>(at);
    if (entry.record == 0 || entry.key == key) {
      return at;
    }
  }
  layout_.refuse_damage(fmt::format("the hash index of partition {} has no free entry", partition_));
}

std::optional<std::uint64_t> HashIndex::find(const PoolTransaction& transaction, std::uint64_t key) const {
  const auto& entry = transaction.view<HashEntry>(entry_of(transaction, key));
  return entry.record == 0 ? std::nullopt : std::optional(entry.record - 1);
}

void HashIndex::insert(PoolTransaction& transaction, std::uint64_t key, std::uint64_t record) const {
  transaction.edit<HashEntry>(entry_of(transaction, key)) = {key, record + 1};
}

}  // namespace tiermap
