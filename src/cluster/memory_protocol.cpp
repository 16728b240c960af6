#include "cluster/memory_protocol.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <type_traits>

#include "config/size.hpp"

namespace tiermap {
namespace {

/// The numbers of a layout, as they travel.
using LayoutNumbers = std::array<std::uint64_t, 5>;

LayoutNumbers numbers_of(const DataSetLayout& layout) noexcept {
  return {static_cast<std::uint64_t>(layout.kind), layout.servers, layout.index, layout.copies, layout.stripe_bytes};
}

std::optional<DataSetLayout> layout_of(const LayoutNumbers& numbers) noexcept {
  constexpr std::uint64_t most_servers = 1024;
  if (numbers[0] > static_cast<std::uint64_t>(DataSetLayout::Kind::replicated) || numbers[1] > most_servers ||
      numbers[2] > most_servers || numbers[3] > most_servers) {
    return std::nullopt;
  }
  return DataSetLayout{static_cast<DataSetLayout::Kind>(numbers[0]), static_cast<std::uint32_t>(numbers[1]),
                       static_cast<std::uint32_t>(numbers[2]), static_cast<std::uint32_t>(numbers[3]), numbers[4]};
}

template <std::size_t Count>
void append(std::vector<std::byte>& bytes, const std::array<std::uint64_t, Count>& numbers) {
  const std::size_t before = bytes.size();
  bytes.resize(before + sizeof(numbers));
  std::memcpy(bytes.data() + before, numbers.data(), sizeof(numbers));
}

template <std::size_t Count>
bool take(std::span<const std::byte>& bytes, std::array<std::uint64_t, Count>& numbers) {
  if (bytes.size() < sizeof(numbers)) {
    return false;
  }
  std::memcpy(numbers.data(), bytes.data(), sizeof(numbers));
  bytes = bytes.subspan(sizeof(numbers));
  return true;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string join(const std::vector<std::string>& parts, char separator) {
  std::string text;
  for (const std::string& part : parts) {
    text += part;
    text += separator;
  }
  return text;
}

std::uint64_t number_in(const std::string& text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string DataSetLayout::text() const {
  if (kind == Kind::single) {
    return "on one server";
  }
  const std::string how = kind == Kind::striped ? "striped" : "replicated";
  return how + " over " + std::to_string(servers) + " servers, " + std::to_string(copies) +
         (copies == 1 ? " copy" : " copies") +
         (kind == Kind::striped ? ", stripes of " + format_size(stripe_bytes) : std::string());
}

std::vector<std::byte> encode(const DataSetFacts& facts) {
  std::vector<std::byte> bytes;
  append(bytes, std::array{facts.identity, facts.version, facts.bytes, facts.whole_bytes, facts.read_nanoseconds,
                           facts.announced});
  append(bytes, numbers_of(facts.layout));
  return bytes;
}

std::optional<DataSetFacts> decode_facts(std::span<const std::byte> body) {
  std::array<std::uint64_t, 6> numbers{};
  LayoutNumbers of_layout{};
  if (!take(body, numbers) || !take(body, of_layout)) {
    return std::nullopt;
  }
  const std::optional<DataSetLayout> layout = layout_of(of_layout);
  return layout.has_value() ? std::optional(DataSetFacts{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4],
                                                         numbers[5], *layout})
                            : std::nullopt;
}

std::vector<std::byte> encode(const CreateForm& form) {
  std::vector<std::byte> bytes;
  append(bytes, std::array{form.whole_bytes, form.identity});
  append(bytes, numbers_of(form.layout));
  const std::string text =
      form.name + "\n" + form.place + "\n" + join(form.readers, ',') + "\n" + join(form.writers, ',') + "\n";
  const std::size_t before = bytes.size();
  bytes.resize(before + text.size());
  std::memcpy(bytes.data() + before, text.data(), text.size());
  return bytes;
}

std::optional<CreateForm> decode_form(std::span<const std::byte> body) {
  std::array<std::uint64_t, 2> numbers{};
  LayoutNumbers of_layout{};
  if (!take(body, numbers) || !take(body, of_layout)) {
    return std::nullopt;
  }
  const std::optional<DataSetLayout> layout = layout_of(of_layout);
  const std::vector<std::string> lines =
      split(std::string_view(reinterpret_cast<const char*>(body.data()), body.size()), '\n');
  if (!layout.has_value() || lines.size() != 4) {
    return std::nullopt;
  }
  return CreateForm{lines[0], lines[1], split(lines[2], ','), split(lines[3], ','), numbers[0], numbers[1], *layout};
}

int decode_scores(std::span<const std::byte> body, std::uint64_t limit, std::vector<ScoredRange>& ranges) {
  static_assert(sizeof(ScoredRange) == 16 && std::has_unique_object_representations_v<ScoredRange>);
  ranges.clear();
  if (body.empty() || body.size() % sizeof(ScoredRange) != 0) {
    return -EPROTO;
  }
  if (body.size() / sizeof(ScoredRange) > most_scored_ranges) {
    return -ERANGE;
  }
  ranges.resize(body.size() / sizeof(ScoredRange));
  std::memcpy(ranges.data(), body.data(), body.size());
  std::uint64_t bytes = 0;
  for (const ScoredRange& range : ranges) {
    bytes += range.bytes;
    if (range.bytes == 0 || bytes > most_scored_bytes || range.offset > limit || range.bytes > limit - range.offset) {
      ranges.clear();
      return -ERANGE;
    }
  }
  return 0;
}

std::string encode(const std::vector<DataSetLine>& lines) {
  std::string text;
  for (const DataSetLine& line : lines) {
    text += join({line.name, std::to_string(line.bytes), line.owner, line.place, std::to_string(line.readers),
                  std::to_string(line.writers), line.layout, std::to_string(line.whole_bytes),
                  std::to_string(line.damaged), std::to_string(line.mended)},
                 '\t');
    text += '\n';
  }
  return text;
}

std::vector<DataSetLine> decode_lines(std::string_view text) {
  std::vector<DataSetLine> lines;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> parts = split(line, '\t');
    if (parts.size() == 10) {
      lines.push_back({parts[0], number_in(parts[1]), parts[2], parts[3], number_in(parts[4]), number_in(parts[5]),
                       parts[6], number_in(parts[7]), number_in(parts[8]), number_in(parts[9])});
    }
  }
  return lines;
}

bool is_plain_name(std::string_view name) noexcept {
  const auto plain = [](char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '.' || character == '_' || character == '-';
  };
  return !name.empty() && name.size() <= longest_plain_name && name.front() != '.' && std::ranges::all_of(name, plain);
}

}  // namespace tiermap
