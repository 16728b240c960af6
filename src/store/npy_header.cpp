#include "store/npy_header.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "store/store_url.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";
constexpr std::uint64_t most_header_bytes = 1 << 20;
constexpr int most_depth = 8;

[[noreturn]] void refuse_npy(const std::string& file, const std::string& problem) {
  throw StoreError(EINVAL, file + ": " + problem);
}

[[noreturn]] void refuse_header(const std::string& file, const std::string& what) {
  refuse_npy(file, "its .npy header has " + what + ": write the array again with numpy.save()");
}

/// One of Python's literals, as far as headers have them.
struct Literal {
  enum class Kind : std::uint8_t { text, number, boolean, sequence };
  Kind kind = Kind::sequence;
  std::string_view text;
  std::uint64_t number = 0;  ///< Of a boolean 0 or 1.
  std::vector<Literal> items;
};

class LiteralParser {
 public:
  LiteralParser(std::string_view rest, const std::string& file) : rest_(rest), file_(file) {}

  Literal value(int depth = 0) {
    if (depth > most_depth) {
      refuse_header(file_, "too many brackets");
    }
    const char first = peek();
    if (first == '\'' || first == '"') {
      return {Literal::Kind::text, text(), 0, {}};
    }
    if (first == '(' || first == '[') {
      return sequence(depth, first == '(' ? ')' : ']');
    }
    for (const auto& [word, number] : {std::pair{std::string_view("True"), 1U}, {"False", 0U}}) {
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return {Literal::Kind::boolean, {}, number, {}};
      }
    }
    return {Literal::Kind::number, {}, number(), {}};
  }
  std::string_view text() {
    const char quote = peek();
    const std::size_t end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) {
      refuse_header(file_, "no text where one should be");
    }
    const std::string_view found = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return found;
  }
  void expect(char wanted) {
    if (!take(wanted)) {
      refuse_header(file_, std::string("no '") + wanted + "' where one should be");
    }
  }
  bool take(char wanted) {
    if (peek() != wanted) {
      return false;
    }
    rest_.remove_prefix(1);
    return true;
  }
  bool at_end() { return peek() == '\0'; }

 private:
  char peek() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n\r"), rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }
  Literal sequence(int depth, char close) {
    Literal found;
    rest_.remove_prefix(1);
    while (!take(close)) {
      found.items.push_back(value(depth + 1));
      if (!take(',') && peek() != close) {
        refuse_header(file_, "brackets that do not close");
      }
    }
    return found;
  }
  std::uint64_t number() {
    std::uint64_t found = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), found);
    if (error != std::errc{}) {
      refuse_header(file_, "something that is no number, no text and no list");
    }
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    if (rest_.starts_with('L')) {  // Of Python 2.
      rest_.remove_prefix(1);
    }
    return found;
  }

  std::string_view rest_;
  const std::string& file_;
};

std::uint64_t times(std::uint64_t one, std::uint64_t other, const std::string& file) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(one, other, &product) || product > largest_file_bytes) {
    refuse_header(file, "a shape larger than any file");
  }
  return product;
}

/// '<f8', '|b1', '>U12', '<M8[ns]'.
ElementLayout layout_of_type(std::string_view type, const std::string& file) {
  ElementLayout layout;
  layout.type = type;
  std::string_view rest = type;
  if (!rest.empty() && std::string_view("<>=|").find(rest.front()) != std::string_view::npos) {
    layout.swapped = rest.front() == '>';
    rest.remove_prefix(1);
  }
  layout.kind = rest.empty() ? '\0' : rest.front();
  rest.remove_prefix(std::min<std::size_t>(rest.size(), 1));
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layout.bytes);
  if (layout.kind == 'O') {
    refuse_npy(file, "its elements are Python objects, which are nothing but numbers in the file: save numbers");
  }
  if (error != std::errc{} || std::string_view("biufcmMSUV").find(layout.kind) == std::string_view::npos ||
      (end != rest.data() + rest.size() && *end != '[')) {
    refuse_header(file, "an unknown type of element");
  }
  layout.bytes = times(layout.bytes, layout.kind == 'U' ? 4 : 1, file);
  layout.swapped = layout.swapped && layout.bytes > 1;
  return layout;
}

ElementLayout layout_of(const Literal& descr, const std::string& file);

/// ('x', '<f4') or ('x', '<f4', (3,)): of a field the type, and how many.
void add_field(ElementLayout& layout, const Literal& field, const std::string& file) {
  if (field.items.size() < 2 || field.items.size() > 3) {
    refuse_header(file, "a field without a type");
  }
  const ElementLayout part = layout_of(field.items[1], file);
  std::uint64_t bytes = part.bytes;
  if (field.items.size() == 3) {
    const Literal& shape = field.items[2];
    for (const Literal& extent : shape.items) {
      bytes = times(bytes, extent.number, file);
    }
    bytes = shape.kind == Literal::Kind::number ? times(bytes, shape.number, file) : bytes;
  }
  layout.bytes += bytes;
  layout.swapped = layout.swapped || part.swapped;
}

ElementLayout layout_of(const Literal& descr, const std::string& file) {
  if (descr.kind == Literal::Kind::text) {
    return layout_of_type(descr.text, file);
  }
  if (descr.items.empty()) {
    refuse_header(file, "no type of element");
  }
  ElementLayout layout;
  layout.type = "fields";
  for (const Literal& field : descr.items) {
    add_field(layout, field, file);
    times(layout.bytes, 1, file);
  }
  return layout;
}

void take_entry(NpyHeader& header, std::string_view key, const Literal& value, const std::string& file) {
  if (key == "descr") {
    header.elements = layout_of(value, file);
  } else if (key == "fortran_order") {
    header.fortran_order = value.number != 0;
  } else if (key == "shape") {
    if (value.kind != Literal::Kind::sequence) {
      refuse_header(file, "a shape that is none");
    }
    for (const Literal& extent : value.items) {
      if (extent.kind != Literal::Kind::number) {
        refuse_header(file, "a shape that is none");
      }
      header.shape.push_back(extent.number);
    }
  }
}

}  // namespace

std::uint64_t npy_header_bytes(std::string_view prefix, const std::string& file) {
  if (prefix.size() < npy_prefix_bytes || !prefix.starts_with(npy_magic)) {
    refuse_npy(file, "is no .npy file: write one with numpy.save(), or open it as file:");
  }
  const auto byte = [&](std::size_t at) { return std::uint64_t{static_cast<unsigned char>(prefix[at])}; };
  const std::uint64_t version = byte(6);
  if (version < 1 || version > 3 || byte(7) != 0) {
    refuse_npy(file, "is a .npy file of version " + std::to_string(version) + "." + std::to_string(byte(7)) +
                         ", which is not known here: save it as 1.0");
  }
  const std::uint64_t bytes = version == 1 ? 10 + byte(8) + (byte(9) << 8U)
                                           : 12 + byte(8) + (byte(9) << 8U) + (byte(10) << 16U) + (byte(11) << 24U);
  if (bytes > most_header_bytes) {
    refuse_header(file, "more than 1 MiB");
  }
  return bytes;
}

NpyHeader parse_npy_header(std::string_view beginning, const std::string& file) {
  NpyHeader header;
  header.data_offset = npy_header_bytes(beginning, file);
  if (beginning.size() < header.data_offset) {
    refuse_header(file, "no end");
  }
  const std::size_t text_begin = beginning[6] == 1 ? 10 : 12;
  LiteralParser parser(beginning.substr(text_begin, header.data_offset - text_begin), file);
  parser.expect('{');
  unsigned keys = 0;
  for (; !parser.take('}'); ++keys) {
    const std::string_view key = parser.text();
    parser.expect(':');
    take_entry(header, key, parser.value(), file);
    if (!parser.take(',')) {
      parser.expect('}');
      ++keys;
      break;
    }
  }
  if (keys != 3 || header.elements.type.empty() || !parser.at_end()) {
    refuse_header(file, "other entries than descr, fortran_order and shape");
  }
  header.data_bytes = header.elements.bytes;
  header.elements.row_bytes = header.elements.bytes;
  // Of a single column, or row, either order is the other one.
  const auto extents = std::count_if(header.shape.begin(), header.shape.end(), [](auto extent) { return extent != 1; });
  const bool row_by_row = !header.fortran_order || extents < 2;
  if (row_by_row) {
    header.elements.shape = header.shape;
  }
  for (std::size_t dimension = 0; dimension < header.shape.size(); ++dimension) {
    header.data_bytes = times(header.data_bytes, header.shape[dimension], file);
    if (dimension > 0 && row_by_row) {
      header.elements.row_bytes = times(header.elements.row_bytes, header.shape[dimension], file);
    }
  }
  return header;
}

}  // namespace tiermap
