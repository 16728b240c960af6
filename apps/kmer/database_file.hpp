// A k-mer database in one file: header, taxonomy, lists of taxa, index. docs/applications/kmer.md has the layout.
#pragma once

#include <cstdint>
#include <string>

#include "kmer/kmer.hpp"
#include "kmer/taxonomy.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

enum class IndexKind : std::uint32_t {
  two_level = 0,  ///< two_level_index.hpp
  hash = 1,       ///< hash_index.hpp
};
const char* index_name(IndexKind kind) noexcept;

/// How often a k-mer is in the genomes of one taxon.
struct TaxonCount {
  TaxonId taxon = no_taxon;
  std::uint32_t count = 0;
  bool operator==(const TaxonCount&) const = default;
};

/// One element of a k-mer's list as the word that stands in the file: taxon in the low 32 bits, count in 16 above,
/// the highest bit in the list's last.
constexpr std::uint64_t most_count = 0xffff;
constexpr std::uint64_t last_in_list = std::uint64_t{1} << 63U;
constexpr std::uint64_t list_word(TaxonCount element, bool last) noexcept {
  return element.taxon | std::min<std::uint64_t>(element.count, most_count) << 32U | (last ? last_in_list : 0);
}
constexpr TaxonCount list_element(std::uint64_t word) noexcept {
  return {static_cast<TaxonId>(word), static_cast<std::uint32_t>(word >> 32U & most_count)};
}

/// What the file's first page says. All numbers little-endian, all positions in bytes and multiples of 4096.
struct DatabaseHeader {
  static constexpr std::uint32_t current_version = 1;
  static constexpr std::uint64_t bytes = 4096;

  char magic[8] = {'T', 'I', 'E', 'R', 'K', 'M', 'R', '\n'};
  std::uint32_t version = current_version;
  std::uint32_t k = 0;
  IndexKind index = IndexKind::two_level;
  std::uint32_t high_bits = 0;    ///< Two-level: of a k-mer's 2k bits, those that the table goes by.
  std::uint64_t kmers = 0;        ///< Different ones.
  std::uint64_t occurrences = 0;  ///< Of all k-mers in the genomes.
  std::uint64_t sequences = 0;    ///< That it was made from.
  std::uint64_t taxa = 0;         ///< In the taxonomy.
  std::uint64_t name_bytes = 0;   ///< Of all taxa's names.
  std::uint64_t list_words = 0;   ///< Word 0 belongs to no list.
  std::uint64_t homes = 0;        ///< Hash: slots that a hash leads to. Two-level: words of the table.
  std::uint64_t slots = 0;        ///< Hash: all slots. Two-level: k-mers.
  std::uint64_t taxonomy_at = 0;  ///< taxa times id, parent and length of the name, 4 bytes each; then the names.
  std::uint64_t lists_at = 0;     ///< list_words of 8 bytes.
  std::uint64_t table_at = 0;     ///< Two-level: where each list of k-mers begins, 8 bytes each.
  std::uint64_t slots_at = 0;     ///< Two words for each: the k-mer's part, where its list begins.
  std::uint64_t file_bytes = 0;
  std::uint64_t checksum = 0;  ///< Of all that is above.

  /// Sets every position from the numbers above. False if the file would be larger than any can be.
  bool lay_out() noexcept;
  std::uint64_t computed_checksum() const noexcept;
  std::uint64_t table_words() const noexcept { return index == IndexKind::two_level ? homes : 0; }
};

/// Reads and checks the header. Throws StoreError that says what is wrong: not such a file, of another version,
/// damaged, cut off.
DatabaseHeader read_database_header(Store& store);
void write_database_header(Store& store, DatabaseHeader header);

/// The part of the file that is read into memory when it is opened. Throws StoreError if it is damaged.
Taxonomy read_database_taxonomy(Store& store, const DatabaseHeader& header);
/// Sets `taxa` and `name_bytes`.
void count_taxonomy(const Taxonomy& taxonomy, DatabaseHeader& header);
void write_database_taxonomy(Store& store, const DatabaseHeader& header, const Taxonomy& taxonomy);

/// Throws StoreError: what is found at a k-mer cannot be.
[[noreturn]] void refuse_damaged_database(const std::string& name);

}  // namespace tiermap
