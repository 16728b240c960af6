// The graph of a Debian machine's packages, from the lists that apt keeps: a package is a vertex, each thing it depends
// on, recommends or suggests an edge.
#pragma once

#include <cstdint>
#include <istream>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tiermap {

enum class Relation : std::uint8_t { depends, pre_depends, recommends, suggests };
inline constexpr std::uint32_t relation_count = 4;
const char* relation_name(Relation relation) noexcept;

struct PackageRelation {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Relation relation = Relation::depends;
};

/// Grows with every list that is added. A name that is only ever asked for (a virtual package) is a vertex too. The
/// same relation of the same two packages counts once, however many lists and versions say it; every alternative
/// counts.
class PackageGraph {
 public:
  /// Reads paragraphs in the format of Packages files.
  void add_list(std::istream& list);

  const std::vector<std::string>& names() const noexcept { return names_; }
  const std::vector<PackageRelation>& relations() const noexcept { return relations_; }
  /// Packages that have a paragraph of their own.
  std::uint64_t described() const noexcept { return described_.size(); }

  /// An edge list: two vertex numbers and the relation's name a line, with a comment on top.
  void write_edges(std::ostream& output) const;
  /// Vertex number and name, a line each.
  void write_names(std::ostream& output) const;

 private:
  std::uint32_t vertex(std::string_view name);
  void add_field(std::uint32_t package, std::string_view field, std::string_view value);

  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::unordered_set<std::uint32_t> described_;
  std::unordered_set<std::uint64_t> known_;
  std::vector<PackageRelation> relations_;
};

/// The package lists in a folder of apt's, compressed or not, in name order.
std::vector<std::string> find_package_lists(const std::string& folder);

/// Adds one list; what is compressed is unpacked by apt itself. Throws StoreError if it cannot be read.
void add_list_file(PackageGraph& graph, const std::string& path);

}  // namespace tiermap
