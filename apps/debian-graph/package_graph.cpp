#include "debian-graph/package_graph.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace tiermap {
namespace {

constexpr std::array<const char*, relation_count> relation_names = {"Depends", "Pre-Depends", "Recommends", "Suggests"};

std::optional<Relation> relation_of(std::string_view field) {
  for (std::uint32_t index = 0; index < relation_count; ++index) {
    if (field == relation_names[index]) {
      return static_cast<Relation>(index);
    }
  }
  return std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

/// "libc6:any (>= 2.34) [amd64]" is libc6.
std::string_view name_in(std::string_view dependency) {
  const std::string_view text = trimmed(dependency);
  return text.substr(0, text.find_first_of(" \t(:[<"));
}

}  // namespace

const char* relation_name(Relation relation) noexcept {
  return relation_names[static_cast<std::size_t>(relation)];
}

std::uint32_t PackageGraph::vertex(std::string_view name) {
  const auto [position, added] = numbers_.try_emplace(std::string(name), static_cast<std::uint32_t>(names_.size()));
  if (added) {
    names_.emplace_back(name);
  }
  return position->second;
}

void PackageGraph::add_list(std::istream& list) {
  std::optional<std::uint32_t> package;
  std::string field;
  std::string value;
  const auto finish_field = [&] {
    if (field == "Package" && !trimmed(value).empty()) {
      package = vertex(trimmed(value));
      described_.insert(*package);
    } else if (package.has_value()) {
      add_field(*package, field, value);
    }
    field.clear();
    value.clear();
  };
  for (std::string line; std::getline(list, line);) {
    if (!line.empty() && (line.front() == ' ' || line.front() == '\t')) {
      value += line;
      continue;
    }
    finish_field();
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) {
      package.reset();  // An empty line ends the paragraph.
      continue;
    }
    field = line.substr(0, colon);
    value = line.substr(colon + 1);
  }
  finish_field();
}

void PackageGraph::add_field(std::uint32_t package, std::string_view field, std::string_view value) {
  const std::optional<Relation> relation = relation_of(field);
  if (!relation.has_value()) {
    return;
  }
  while (!value.empty()) {
    const std::size_t end = std::min(value.find_first_of(",|"), value.size());
    if (const std::string_view name = name_in(value.substr(0, end)); !name.empty()) {
      const std::uint32_t other = vertex(name);
      // Fewer than 2^31 packages leave room for the relation beside both ends.
      const std::uint64_t key =
          (std::uint64_t{package} << 33U) ^ (std::uint64_t{other} << 2U) ^ static_cast<std::uint64_t>(*relation);
      if (known_.insert(key).second) {
        relations_.push_back({package, other, *relation});
      }
    }
    value.remove_prefix(std::min(end + 1, value.size()));
  }
}

void PackageGraph::write_edges(std::ostream& output) const {
  output << "# The packages of a Debian machine: package, what it asks for, how. " << names_.size() << " packages, "
         << relations_.size() << " relations.\n";
  for (const PackageRelation& relation : relations_) {
    output << relation.from << ' ' << relation.to << ' ' << relation_name(relation.relation) << '\n';
  }
}

void PackageGraph::write_names(std::ostream& output) const {
  for (std::size_t number = 0; number < names_.size(); ++number) {
    output << number << ' ' << names_[number] << '\n';
  }
}

}  // namespace tiermap
