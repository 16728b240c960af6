// A hash table in the file: the k-mer's hash leads to a slot, and those that were taken already follow (open
// addressing, linear probing). As k-mers come in the order of their hashes when it is written, it is written from its
// beginning to its end, and what finds no room at the end goes on in slots after it.
#pragma once

#include <cstdint>

#include "kmer/database_file.hpp"
#include "kmer/file_words.hpp"
#include "parallel/random.hpp"

namespace tiermap {

/// No two k-mers have the same: it stands for the k-mer in the table.
constexpr std::uint64_t hash_of(Kmer kmer) noexcept {
  return mix_word(kmer);
}

// Twice as wide as a word: ISO C++ has no such type.
__extension__ typedef unsigned __int128 WideWord;

/// The slot that a hash leads to: the higher the hash, the higher the slot.
constexpr std::uint64_t home_slot(std::uint64_t hash, std::uint64_t homes) noexcept {
  return static_cast<std::uint64_t>(WideWord{hash} * homes >> 64U);
}

/// Where the k-mer's list begins, 0 if there is none. `words` are the file's.
template <typename Words>
std::uint64_t find_by_hash(const DatabaseHeader& header, Words& words, Kmer kmer) {
  const std::uint64_t hash = hash_of(kmer);
  const std::uint64_t slots = header.slots_at / sizeof(std::uint64_t);
  for (std::uint64_t slot = home_slot(hash, header.homes); slot < header.slots; ++slot) {
    const std::uint64_t list = words[slots + 2 * slot + 1];
    if (list == 0 || words[slots + 2 * slot] == hash) {
      return list;
    }
  }
  return 0;
}

/// Writes the index of k-mers that come in ascending order of their hashes.
class HashWriter {
 public:
  /// Sets what the index decides of a header in which `kmers` is right; finish() may find fewer `slots`.
  static void plan(DatabaseHeader& header) noexcept;

  HashWriter(Store& store, const DatabaseHeader& header);
  void add(std::uint64_t hash, std::uint64_t list);
  /// Returns how many slots there are.
  std::uint64_t finish();

 private:
  void leave_empty_until(std::uint64_t slot);

  std::uint64_t homes_;
  WordWriter slots_;
};

}  // namespace tiermap
