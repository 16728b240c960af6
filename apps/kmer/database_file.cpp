#include "kmer/database_file.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "command_line/backing.hpp"
#include "parallel/random.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);
constexpr std::uint64_t slot_bytes = 2 * word_bytes;
/// More of anything than this no file has; sums of a few such numbers of bytes stay far from 2^64.
constexpr std::uint64_t most_of_anything = std::uint64_t{1} << 56U;

struct StoredNode {
  TaxonId id = no_taxon;
  TaxonId parent = no_taxon;
  std::uint32_t name_bytes = 0;
};

std::uint64_t round_up(std::uint64_t bytes) noexcept {
  return (bytes + page - 1) / page * page;
}

[[noreturn]] void refuse_file(const std::string& name, const std::string& why) {
  throw StoreError(EINVAL, fmt::format("{} {}", name, why));
}

bool is_plausible(const DatabaseHeader& header) noexcept {
  if (header.k < least_k || header.k > most_k || header.taxa == 0 || header.list_words == 0) {
    return false;
  }
  if (header.index == IndexKind::two_level) {
    return header.high_bits <= 2 * header.k && header.high_bits < 48 && header.slots == header.kmers &&
           header.homes == (std::uint64_t{1} << header.high_bits) + 1;
  }
  return header.index == IndexKind::hash && header.high_bits == 0 && header.homes > 0 && header.slots >= header.homes;
}

}  // namespace

const char* index_name(IndexKind kind) noexcept {
  return kind == IndexKind::two_level ? "two-level" : "hash";
}

bool DatabaseHeader::lay_out() noexcept {
  for (const std::uint64_t number : {kmers, taxa, name_bytes, list_words, homes, slots}) {
    if (number >= most_of_anything) {
      return false;
    }
  }
  taxonomy_at = bytes;
  lists_at = round_up(taxonomy_at + taxa * sizeof(StoredNode) + name_bytes);
  table_at = round_up(lists_at + list_words * word_bytes);
  slots_at = round_up(table_at + table_words() * word_bytes);
  file_bytes = slots_at + slots * slot_bytes;
  return true;
}

std::uint64_t DatabaseHeader::computed_checksum() const noexcept {
  std::uint64_t sum = 0;
  constexpr std::size_t words = offsetof(DatabaseHeader, checksum) / word_bytes;
  static_assert(words * word_bytes == offsetof(DatabaseHeader, checksum));
  for (std::size_t index_of_word = 0; index_of_word < words; ++index_of_word) {
    std::uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const std::byte*>(this) + index_of_word * word_bytes, word_bytes);
    sum = mix_word(sum ^ word) + 0x9e3779b97f4a7c15U;
  }
  return sum;
}

DatabaseHeader read_database_header(Store& store) {
  if (store.size_bytes() < DatabaseHeader::bytes) {
    refuse_file(store.name(), "is too short to be a database made by tiermap-kmer: build one with --genomes");
  }
  AlignedBuffer buffer(DatabaseHeader::bytes);
  read_fully(store, buffer.data(), DatabaseHeader::bytes, 0);
  DatabaseHeader header;
  const DatabaseHeader expected;
  std::memcpy(&header, buffer.data(), sizeof(header));
  if (std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0) {
    refuse_file(store.name(), "is not a database made by tiermap-kmer: build one with --genomes");
  }
  if (header.version != DatabaseHeader::current_version) {
    refuse_file(store.name(), fmt::format("is a database of version {}, and this program knows version {}: build it "
                                          "again",
                                          header.version, DatabaseHeader::current_version));
  }
  DatabaseHeader fitting = header;
  if (header.checksum != header.computed_checksum() || !is_plausible(header) || !fitting.lay_out() ||
      std::memcmp(&fitting, &header, sizeof(header)) != 0) {
    refuse_file(store.name(), "has a damaged header: build the database again");
  }
  if (store.size_bytes() < header.file_bytes) {
    refuse_file(store.name(), fmt::format("is cut off: it has {} of {} bytes; build the database again",
                                          store.size_bytes(), header.file_bytes));
  }
  return header;
}

void write_database_header(Store& store, DatabaseHeader header) {
  header.checksum = header.computed_checksum();
  AlignedBuffer buffer(DatabaseHeader::bytes);
  std::memset(buffer.data(), 0, DatabaseHeader::bytes);
  std::memcpy(buffer.data(), &header, sizeof(header));
  write_fully(store, buffer.data(), DatabaseHeader::bytes, 0);
}

Taxonomy read_database_taxonomy(Store& store, const DatabaseHeader& header) {
  const std::uint64_t bytes = header.lists_at - header.taxonomy_at;
  AlignedBuffer buffer(bytes);
  read_fully(store, buffer.data(), bytes, header.taxonomy_at);
  const std::byte* names = buffer.data() + header.taxa * sizeof(StoredNode);
  std::uint64_t names_left = header.name_bytes;
  std::vector<TaxonomyNode> nodes;
  for (std::uint64_t index = 0; index < header.taxa; ++index) {
    StoredNode node;
    std::memcpy(&node, buffer.data() + index * sizeof(node), sizeof(node));
    if (node.name_bytes > names_left) {
      refuse_damaged_database(store.name());
    }
    nodes.push_back({node.id, node.parent, std::string(reinterpret_cast<const char*>(names), node.name_bytes)});
    names += node.name_bytes;
    names_left -= node.name_bytes;
  }
  try {
    return {std::move(nodes), store.name()};
  } catch (const OptionError&) {
    refuse_damaged_database(store.name());
  }
}

void count_taxonomy(const Taxonomy& taxonomy, DatabaseHeader& header) {
  header.taxa = taxonomy.size();
  header.name_bytes = 0;
  for (Taxonomy::Place place = 0; place < taxonomy.size(); ++place) {
    header.name_bytes += taxonomy.name(place).size();
  }
}

void write_database_taxonomy(Store& store, const DatabaseHeader& header, const Taxonomy& taxonomy) {
  const std::uint64_t bytes = header.lists_at - header.taxonomy_at;
  AlignedBuffer buffer(bytes);
  std::memset(buffer.data(), 0, bytes);
  std::byte* nodes = buffer.data();
  std::byte* names = buffer.data() + header.taxa * sizeof(StoredNode);
  for (const TaxonomyNode& node : taxonomy.nodes()) {
    const StoredNode stored{node.id, node.parent, static_cast<std::uint32_t>(node.name.size())};
    std::memcpy(nodes, &stored, sizeof(stored));
    nodes += sizeof(stored);
    std::memcpy(names, node.name.data(), node.name.size());
    names += node.name.size();
  }
  write_fully(store, buffer.data(), bytes, header.taxonomy_at);
}

void refuse_damaged_database(const std::string& name) {
  throw StoreError(EINVAL, fmt::format("{} is damaged behind its header: build the database again", name));
}

}  // namespace tiermap
