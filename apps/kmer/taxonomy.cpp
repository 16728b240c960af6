#include "kmer/taxonomy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>
#include <utility>

#include "command_line/text_input.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint32_t no_depth = ~std::uint32_t{0};

[[noreturn]] void refuse(const std::string& source, std::uint64_t line, const std::string& why) {
  throw OptionError(line == 0 ? fmt::format("{}: {}", source, why) : fmt::format("{}:{}: {}", source, line, why));
}

bool is_root(const TaxonomyNode& node) {
  return node.parent == no_taxon || node.parent == node.id;
}

/// The next line that is neither empty nor a comment.
bool next_entry(TextInput& input, std::string& text, std::uint64_t& line) {
  do {
    line = input.line();
    if (!input.next_line(text)) {
      return false;
    }
  } while (text.find_first_not_of(" \t") == std::string::npos || text[0] == '#');
  return true;
}

/// Takes what stands before the next tab off the front of `text`.
std::string_view take_field(std::string_view& text) {
  const std::size_t end = std::min(text.find('\t'), text.size());
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return field;
}

std::optional<TaxonId> taxon_in(std::string_view text, std::uint64_t least) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most_taxon_id) {
    return std::nullopt;
  }
  return static_cast<TaxonId>(number);
}

}  // namespace

Taxonomy::Taxonomy(std::vector<TaxonomyNode> nodes, const std::string& source) : nodes_(std::move(nodes)) {
  if (nodes_.empty()) {
    refuse(source, 0, "the taxonomy has no taxon in it: give it at least a root");
  }
  std::sort(nodes_.begin(), nodes_.end(), [](const TaxonomyNode& one, const TaxonomyNode& other) {
    return std::tie(one.id, one.line) < std::tie(other.id, other.line);
  });
  const auto twice =
      std::adjacent_find(nodes_.begin(), nodes_.end(),
                         [](const TaxonomyNode& one, const TaxonomyNode& other) { return one.id == other.id; });
  if (twice != nodes_.end()) {
    refuse(source, (twice + 1)->line,
           fmt::format("taxon {} was in line {} already: remove one of them", twice->id, twice->line));
  }
  find_parents(source);
  find_depths(source);
}

std::optional<Taxonomy::Place> Taxonomy::place_of(TaxonId id) const noexcept {
  const auto found = std::lower_bound(nodes_.begin(), nodes_.end(), id,
                                      [](const TaxonomyNode& node, TaxonId wanted) { return node.id < wanted; });
  if (found == nodes_.end() || found->id != id) {
    return std::nullopt;
  }
  return static_cast<Place>(found - nodes_.begin());
}

void Taxonomy::find_parents(const std::string& source) {
  const TaxonomyNode* root = nullptr;
  for (const TaxonomyNode& node : nodes_) {
    const std::optional<Place> parent = place_of(is_root(node) ? node.id : node.parent);
    if (!parent.has_value()) {
      refuse(source, node.line,
             fmt::format("taxon {} has parent {}, which is not there: add it, or name another", node.id, node.parent));
    }
    if (is_root(node)) {
      if (root != nullptr) {
        refuse(source, node.line,
               fmt::format("taxon {} has no parent, and neither has {}: put both under one root", node.id, root->id));
      }
      root = &node;
    }
    parents_.push_back(*parent);
  }
  if (root == nullptr) {
    refuse(source, 0, "the taxonomy has no root: give one taxon itself as its parent");
  }
}

void Taxonomy::find_depths(const std::string& source) {
  depths_.assign(nodes_.size(), no_depth);
  std::vector<Place> way;
  for (Place start = 0; start < size(); ++start) {
    way.clear();
    Place place = start;
    while (depths_[place] == no_depth && parents_[place] != place) {
      if (way.size() == nodes_.size()) {
        refuse(source, nodes_[place].line,
               fmt::format("taxon {} is among its own ancestors: correct its parent", nodes_[place].id));
      }
      way.push_back(place);
      place = parents_[place];
    }
    if (depths_[place] == no_depth) {
      depths_[place] = 0;
    }
    for (std::uint32_t depth = depths_[place]; !way.empty(); way.pop_back()) {
      depths_[way.back()] = ++depth;
    }
  }
}

Taxonomy::Place Taxonomy::common_ancestor(Place one, Place other) const noexcept {
  while (one != other) {
    Place& lower = depths_[one] > depths_[other] ? one : other;
    lower = parents_[lower];
  }
  return one;
}

std::vector<TaxonomyNode> Taxonomy::nodes() const {
  std::vector<TaxonomyNode> nodes = nodes_;
  for (TaxonomyNode& node : nodes) {
    node.parent = is_root(node) ? no_taxon : node.parent;
    node.line = 0;
  }
  return nodes;
}

Taxonomy Taxonomy::only(std::span<const TaxonId> ids) const {
  std::vector<bool> wanted(nodes_.size());
  for (const TaxonId id : ids) {
    for (Place place = place_of(id).value(); !wanted[place]; place = parents_[place]) {
      wanted[place] = true;
    }
  }
  std::vector<TaxonomyNode> kept;
  for (Place place = 0; place < size(); ++place) {
    if (wanted[place]) {
      kept.push_back(nodes_[place]);
    }
  }
  return {std::move(kept), "the taxonomy"};
}

Taxonomy read_taxonomy(const std::string& path) {
  TextInput input(path, "a taxonomy, lines of id, parent and name");
  std::vector<TaxonomyNode> nodes;
  std::string text;
  for (std::uint64_t line = 0; next_entry(input, text, line);) {
    std::string_view rest = text;
    const std::string_view id_text = take_field(rest);
    const std::string_view parent_text = take_field(rest);
    if (parent_text == "|") {
      input.refuse(line,
                   "this is a line of NCBI's nodes.dmp: make lines of id, tab, parent, tab, name of it "
                   "(docs/applications/kmer.md)");
    }
    const std::optional<TaxonId> id = taxon_in(id_text, 1);
    const std::optional<TaxonId> parent = taxon_in(parent_text, 0);
    if (!id.has_value() || !parent.has_value()) {
      input.refuse(line, quote_value(text) +
                             " does not begin with two numbers from 1 to 4294967294 and a tab after "
                             "each: write id, tab, parent, tab, name");
    }
    nodes.push_back({*id, *parent, std::string(rest), line});
  }
  return {std::move(nodes), path};
}

SequenceTaxa read_sequence_taxa(const std::string& path, const Taxonomy& taxonomy) {
  TextInput input(path, "a table, lines of sequence id and taxonomy id");
  SequenceTaxa taxa;
  std::string text;
  for (std::uint64_t line = 0; next_entry(input, text, line);) {
    std::string_view rest = text;
    const std::string_view sequence = take_field(rest);
    const std::optional<TaxonId> taxon = taxon_in(take_field(rest), 1);
    if (sequence.empty() || !taxon.has_value()) {
      input.refuse(line, quote_value(text) + " is no sequence's id, a tab and a taxon's number: correct the line");
    }
    if (!taxonomy.place_of(*taxon).has_value()) {
      input.refuse(line, fmt::format("sequence {} is of taxon {}, which is not in the taxonomy: add it there",
                                     quote_value(sequence), *taxon));
    }
    if (!taxa.emplace(sequence, *taxon).second) {
      input.refuse(line,
                   fmt::format("sequence {} has a line before this one: remove one of them", quote_value(sequence)));
    }
  }
  if (taxa.empty()) {
    input.refuse(1, "the table is empty: write lines of sequence id, tab, taxonomy id");
  }
  return taxa;
}

}  // namespace tiermap
