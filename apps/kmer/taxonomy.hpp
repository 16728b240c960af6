// A tree of taxa: which organism belongs to which group, up to one root. And the table that says of which taxon each
// sequence is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tiermap {

/// As in the user's files and NCBI's: any number from 1 to 4294967294.
using TaxonId = std::uint32_t;
/// What belongs to no taxon that is known.
inline constexpr TaxonId no_taxon = 0;
inline constexpr std::uint64_t most_taxon_id = 4294967294;

struct TaxonomyNode {
  TaxonId id = no_taxon;
  TaxonId parent = no_taxon;  ///< Of the root: itself, or no_taxon.
  std::string name;
  std::uint64_t line = 0;  ///< Where it was read, for messages.
};

/// Taxa are named by their place from 0 in here; id() gives the number that users know. Immutable.
class Taxonomy {
 public:
  using Place = std::uint32_t;

  /// In any order. Throws OptionError that names `source` and the line: an id twice, a parent that is not there, a
  /// circle, no root or several.
  Taxonomy(std::vector<TaxonomyNode> nodes, const std::string& source);

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(nodes_.size()); }
  std::optional<Place> place_of(TaxonId id) const noexcept;
  TaxonId id(Place place) const noexcept { return nodes_[place].id; }
  const std::string& name(Place place) const noexcept { return nodes_[place].name; }
  /// Of the root: itself.
  Place parent(Place place) const noexcept { return parents_[place]; }
  /// Steps from the root.
  std::uint32_t depth(Place place) const noexcept { return depths_[place]; }

  /// The lowest taxon that both belong to.
  Place common_ancestor(Place one, Place other) const noexcept;
  bool is_ancestor_or_same(Place above, Place below) const noexcept { return common_ancestor(above, below) == above; }

  /// In order of their ids, the root with parent no_taxon.
  std::vector<TaxonomyNode> nodes() const;
  /// Only these taxa and what is above them, which must all be here.
  Taxonomy only(std::span<const TaxonId> ids) const;

 private:
  void find_parents(const std::string& source);
  void find_depths(const std::string& source);

  std::vector<TaxonomyNode> nodes_;
  std::vector<Place> parents_;
  std::vector<std::uint32_t> depths_;
};

/// Reads lines of `id TAB parent TAB name`; what begins with # is a comment. Throws StoreError, OptionError.
Taxonomy read_taxonomy(const std::string& path);

/// Of which taxon each sequence is.
using SequenceTaxa = std::unordered_map<std::string, TaxonId>;

/// Reads lines of `sequence-id TAB taxonomy-id`. Every taxon must be in the taxonomy. Throws StoreError, OptionError.
SequenceTaxa read_sequence_taxa(const std::string& path, const Taxonomy& taxonomy);

}  // namespace tiermap
