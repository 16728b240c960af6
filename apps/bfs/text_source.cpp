#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "bfs/edge_source.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::string_view banner = "%%MatrixMarket";

/// A text file line by line, with the number of the line for messages.
class LineReader {
 public:
  explicit LineReader(const std::string& path) : path_(path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
      throw StoreError(EINVAL, fmt::format("{} is not a plain file, and is to be read twice: name an edge list", path));
    }
    file_.open(path);
    if (!file_) {
      throw StoreError(errno, fmt::format("{} cannot be opened ({}): name a readable edge list", path,
                                          std::generic_category().message(errno)));
    }
  }
  /// The next line, without its end; false after the last.
  bool next() {
    ++number_;
    if (!std::getline(file_, line_)) {
      if (file_.bad()) {
        throw StoreError(EIO, fmt::format("{}:{}: reading failed", path_, number_));
      }
      return false;
    }
    if (!line_.empty() && line_.back() == '\r') {
      line_.pop_back();
    }
    return true;
  }
  /// The next line that is neither empty nor a comment.
  bool next_with_content() {
    while (next()) {
      const std::size_t first = line_.find_first_not_of(" \t");
      if (first != std::string::npos && line_[first] != '#' && line_[first] != '%') {
        return true;
      }
    }
    return false;
  }
  const std::string& line() const { return line_; }
  [[noreturn]] void refuse(const std::string& why) const {
    throw OptionError(fmt::format("{}:{}: {} {}", path_, number_, quote_value(line_), why));
  }

 private:
  std::string path_;
  std::ifstream file_;
  std::string line_;
  std::uint64_t number_ = 0;
};

/// Takes a whole number off the front of `text`; nothing if there is none or it is too large.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  const std::size_t first = text.find_first_not_of(" \t,");
  if (first == std::string_view::npos) {
    return std::nullopt;
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + first, text.data() + text.size(), number);
  const bool whole =
      error == std::errc{} && (end == text.data() + text.size() || *end == ' ' || *end == '\t' || *end == ',');
  if (!whole) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// What kind of text it is, and for a matrix what its first lines say.
struct TextFormat {
  bool matrix = false;
  bool symmetric = false;
  std::uint64_t rows = 0;
  std::uint64_t entries = 0;
};

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* other) { return word == other; });
}

TextFormat read_banner(LineReader& reader) {
  TextFormat format;
  format.matrix = true;
  std::istringstream words(reader.line());
  std::string word;
  std::string object;
  std::string layout;
  std::string field;
  std::string symmetry;
  words >> word >> object >> layout >> field >> symmetry;
  if (lower_case(object) != "matrix" || lower_case(layout) != "coordinate") {
    reader.refuse("is not a sparse matrix: give one whose first line says matrix coordinate");
  }
  if (!is_one_of(lower_case(field), {"pattern", "real", "integer", "complex", "double"})) {
    reader.refuse("names an unknown kind of entry: use pattern, real, integer or complex");
  }
  symmetry = lower_case(symmetry);
  if (!is_one_of(symmetry, {"general", "symmetric", "skew-symmetric", "hermitian"})) {
    reader.refuse("names an unknown symmetry: use general, symmetric, skew-symmetric or hermitian");
  }
  format.symmetric = symmetry != "general";
  if (!reader.next_with_content()) {
    reader.refuse("is where the matrix's rows, columns and entries should be: the file ends too early");
  }
  std::string_view sizes = reader.line();
  const auto rows = take_number(sizes);
  const auto columns = take_number(sizes);
  const auto entries = take_number(sizes);
  if (!rows || !columns || !entries) {
    reader.refuse("is not three numbers, of rows, columns and entries: correct the line");
  }
  if (*rows != *columns) {
    reader.refuse("is not a square matrix, and only a square one is a graph: give its adjacency matrix");
  }
  if (*rows >= no_vertex) {
    reader.refuse("has too many vertices: at most 4294967294 are possible");
  }
  format.rows = *rows;
  format.entries = *entries;
  return format;
}

class TextSource final : public EdgeSource {
 public:
  TextSource(std::string path, bool both_ways) : path_(std::move(path)), both_ways_(both_ways) {
    Vertex highest = 0;
    TextFormat format;
    read(
        [&](const Edge& edge) {
          ++edges_;
          highest = std::max({highest, edge.source, edge.target});
        },
        format);
    vertices_ = format.matrix ? format.rows : edges_ == 0 ? 0 : std::uint64_t{highest} + 1;
    if (edges_ == 0) {
      throw OptionError(fmt::format("{} has no edge in it: give a file with at least one", path_));
    }
  }

  std::uint64_t vertices() const override { return vertices_; }
  std::uint64_t edges() const override { return edges_; }

  void for_each_piece(ThreadTeam&, const EdgeSink& sink) const override {
    std::vector<Edge> piece;
    piece.reserve(piece_edges);
    std::uint64_t first = 0;
    const auto hand_over = [&] {
      sink(first, piece);
      first += piece.size();
      piece.clear();
    };
    TextFormat format;
    read(
        [&](const Edge& edge) {
          piece.push_back(edge);
          if (piece.size() == piece_edges) {
            hand_over();
          }
        },
        format);
    if (!piece.empty()) {
      hand_over();
    }
    if (first != edges_) {
      throw StoreError(EIO, fmt::format("{} changed while it was being read: try again", path_));
    }
  }

 private:
  template <typename Take>
  void read(const Take& take, TextFormat& format) const {
    LineReader reader(path_);
    bool found = reader.next();
    if (found && std::string_view(reader.line()).substr(0, banner.size()) == banner) {
      format = read_banner(reader);
      found = reader.next_with_content();
    } else if (found && (reader.line().find_first_not_of(" \t") == std::string::npos || is_comment(reader.line()))) {
      found = reader.next_with_content();
    }
    std::uint64_t entries = 0;
    for (; found; found = reader.next_with_content()) {
      const Edge edge = parse(reader, format);
      ++entries;
      take(edge);
      if (format.symmetric && !both_ways_ && edge.source != edge.target) {
        take(Edge{edge.target, edge.source});
      }
    }
    if (format.matrix && entries != format.entries) {
      throw OptionError(fmt::format("{} ends after {} of {} entries: the file is cut off or its second line is wrong",
                                    path_, entries, format.entries));
    }
  }

  static bool is_comment(const std::string& line) {
    const char first = line[line.find_first_not_of(" \t")];
    return first == '#' || first == '%';
  }

  Edge parse(const LineReader& reader, const TextFormat& format) const {
    std::string_view rest = reader.line();
    const auto source = take_number(rest);
    const auto target = source ? take_number(rest) : std::nullopt;
    if (!source || !target) {
      reader.refuse("does not begin with two vertex numbers: write for example 12 345");
    }
    if (!format.matrix) {
      if (std::max(*source, *target) >= no_vertex - 1) {
        reader.refuse("has a vertex number above 4294967293: number the vertices from 0 without gaps");
      }
      return {static_cast<Vertex>(*source), static_cast<Vertex>(*target)};
    }
    if (*source == 0 || *target == 0 || *source > format.rows || *target > format.rows) {
      reader.refuse(
          fmt::format("lies outside of a matrix with {} rows, numbered from 1: correct the entry", format.rows));
    }
    return {static_cast<Vertex>(*source - 1), static_cast<Vertex>(*target - 1)};
  }

  std::string path_;
  bool both_ways_;
  std::uint64_t vertices_ = 0;
  std::uint64_t edges_ = 0;
};

}  // namespace

std::unique_ptr<EdgeSource> make_text_source(const std::string& path, bool both_ways) {
  return std::make_unique<TextSource>(path, both_ways);
}

}  // namespace tiermap
