#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "edges/edge_source.hpp"
#include "edges/line_reader.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::string_view banner = "%%matrixmarket";  // In small letters, in which it may be, too.

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

/// The edges of a text, one after another.
class EdgeReader {
 public:
  EdgeReader(const std::string& path, bool both_ways) : path_(path), lines_(path), both_ways_(both_ways) {
    // What stands before a matrix's first line makes no list of edges of it.
    do {
      found_ = lines_.next();
    } while (found_ && !is_banner(lines_.line()) && is_empty_or_comment(lines_.line()));
    if (found_ && is_banner(lines_.line())) {
      format_ = read_banner(lines_);
      found_ = lines_.next_with_content();
    }
  }

  const TextFormat& format() const { return format_; }

  /// False after the last edge. Throws OptionError for what cannot be understood.
  bool next(Edge& edge) {
    if (mirror_.has_value()) {
      edge = *mirror_;
      mirror_.reset();
      return true;
    }
    if (!found_) {
      check_entries();
      return false;
    }
    edge = parse();
    ++entries_;
    if (format_.symmetric && !both_ways_ && edge.source != edge.target) {
      mirror_ = Edge{edge.target, edge.source};
    }
    found_ = lines_.next_with_content();
    return true;
  }

 private:
  static bool is_banner(const std::string& line) { return lower_case(line.substr(0, banner.size())) == banner; }
  static bool is_empty_or_comment(const std::string& line) {
    const std::size_t first = line.find_first_not_of(" \t");
    return first == std::string::npos || line[first] == '#' || line[first] == '%';
  }

  void check_entries() const {
    if (format_.matrix && entries_ != format_.entries) {
      throw OptionError(fmt::format("{} ends after {} of {} entries: the file is cut off or its second line is wrong",
                                    path_, entries_, format_.entries));
    }
  }

  Edge parse() const {
    std::string_view rest = lines_.line();
    const auto source = take_number(rest);
    const auto target = source ? take_number(rest) : std::nullopt;
    if (!source || !target) {
      lines_.refuse("does not begin with two vertex numbers: write for example 12 345");
    }
    if (!format_.matrix) {
      if (std::max(*source, *target) >= no_vertex - 1) {
        lines_.refuse("has a vertex number above 4294967293: number the vertices from 0 without gaps");
      }
      return {static_cast<Vertex>(*source), static_cast<Vertex>(*target)};
    }
    if (*source == 0 || *target == 0 || *source > format_.rows || *target > format_.rows) {
      lines_.refuse(
          fmt::format("lies outside of a matrix with {} rows, numbered from 1: correct the entry", format_.rows));
    }
    return {static_cast<Vertex>(*source - 1), static_cast<Vertex>(*target - 1)};
  }

  std::string path_;
  LineReader lines_;
  bool both_ways_;
  TextFormat format_;
  bool found_ = false;
  std::uint64_t entries_ = 0;
  std::optional<Edge> mirror_;  ///< Of the last edge, if it is to be given next.
};

class TextSource final : public EdgeSource {
 public:
  TextSource(std::string path, bool both_ways) : path_(std::move(path)), both_ways_(both_ways) {
    EdgeReader reader(path_, both_ways_);
    Vertex highest = 0;
    for (Edge edge; reader.next(edge);) {
      ++edges_;
      highest = std::max({highest, edge.source, edge.target});
    }
    vertices_ = reader.format().matrix ? reader.format().rows : edges_ == 0 ? 0 : std::uint64_t{highest} + 1;
    if (edges_ == 0) {
      throw OptionError(fmt::format("{} has no edge in it: give a file with at least one", path_));
    }
  }

  std::uint64_t vertices() const override { return vertices_; }
  std::uint64_t edges() const override { return edges_; }

  // Threads take turns to read a piece, so that one reads while the others work on what they have read.
  void for_each_piece(ThreadTeam& team, const EdgeSink& sink) const override {
    EdgeReader reader(path_, both_ways_);
    std::mutex mutex;  // Guards all but what is each thread's own.
    std::uint64_t edges = 0;
    bool ended = false;
    team.run([&](std::uint32_t) {
      std::vector<Edge> piece;
      piece.reserve(std::min(piece_edges, edges_));
      for (;;) {
        std::uint64_t first = 0;
        {
          const std::lock_guard lock(mutex);
          if (ended) {
            return;
          }
          ended = true;  // Stays so if reading fails: nobody goes on.
          read_piece(reader, piece);
          first = edges;
          edges += piece.size();
          check_unchanged(edges <= edges_);
          ended = piece.size() < piece_edges;
        }
        if (!piece.empty()) {
          sink(first, piece);
        }
      }
    });
    check_unchanged(edges == edges_);
  }

 private:
  void read_piece(EdgeReader& reader, std::vector<Edge>& piece) const {
    piece.clear();
    for (Edge edge; piece.size() < piece_edges && reader.next(edge);) {
      check_unchanged(std::max(edge.source, edge.target) < vertices_);
      piece.push_back(edge);
    }
  }

  /// Whoever was told how many vertices and edges there are has room for no others.
  void check_unchanged(bool unchanged) const {
    if (!unchanged) {
      throw StoreError(EIO, fmt::format("{} changed while it was being read: try again", path_));
    }
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
