// Edges of a text: the same, whoever reads them, and none that was not announced.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "apps/program_fixture.hpp"
#include "edges/edge_source.hpp"
#include "parallel/random.hpp"
#include "tiermap/error.hpp"

namespace tiermap::test {
namespace {

constexpr std::uint64_t vertices = 5000;

class EdgeSourceTest : public ProgramTest {
 protected:
  /// `count` edges, the last of them between the last two vertices, and lines that are none between them.
  std::string text_of(std::uint64_t count) const {
    std::string text = "# made by a test\n";
    for (std::uint64_t index = 0; index + 1 < count; ++index) {
      text += std::to_string(random_word(1, index) % vertices) + " " + std::to_string(random_word(2, index) % vertices);
      text += index % 1000 == 0 ? "\n\n% a remark\n" : "\n";
    }
    return text + std::to_string(vertices - 2) + " " + std::to_string(vertices - 1) + "\n";
  }
};

/// The edges in the order of their numbers.
std::vector<Edge> edges_of(const EdgeSource& source, std::uint32_t threads) {
  std::vector<Edge> edges(source.edges());
  ThreadTeam team(threads);
  source.for_each_piece(team, [&](std::uint64_t first, std::span<const Edge> piece) {
    std::copy(piece.begin(), piece.end(), edges.begin() + static_cast<std::ptrdiff_t>(first));
  });
  return edges;
}

TEST_F(EdgeSourceTest, AnyNumberOfThreadsReadsTheSameEdges) {
  // Less than a piece, whole pieces only, and one edge more.
  for (const std::uint64_t count : {std::uint64_t{10}, 2 * EdgeSource::piece_edges, 2 * EdgeSource::piece_edges + 1}) {
    const auto source = make_text_source(write_file("edges", text_of(count)), false);
    ASSERT_EQ(source->edges(), count);
    ASSERT_EQ(source->vertices(), vertices);
    const std::vector<Edge> once = edges_of(*source, 1);
    EXPECT_EQ(once[3].source, random_word(1, 3) % vertices);
    EXPECT_EQ(once[3].target, random_word(2, 3) % vertices);
    EXPECT_EQ(once.back().target, vertices - 1);
    for (const std::uint32_t threads : {2U, 5U}) {
      const std::vector<Edge> again = edges_of(*source, threads);
      EXPECT_TRUE(std::equal(once.begin(), once.end(), again.begin(), [](const Edge& left, const Edge& right) {
        return left.source == right.source && left.target == right.target;
      }));
    }
  }
}

TEST_F(EdgeSourceTest, ATextThatChangesMeanwhileIsRefused) {
  const std::string text = text_of(3 * EdgeSource::piece_edges / 2);
  const std::string file = write_file("edges", text);
  const auto source = make_text_source(file, false);
  const auto refuse = [&](const std::string& changed, const std::string& part) {
    write_file("edges", changed);
    ThreadTeam team(3);
    try {
      source->for_each_piece(team, [&](std::uint64_t first, std::span<const Edge> piece) {
        EXPECT_LE(first + piece.size(), source->edges());
        for (const Edge& edge : piece) {
          ASSERT_LT(std::max(edge.source, edge.target), vertices);
        }
      });
      FAIL() << "nothing was said about " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refuse(text + "1 2\n", "changed while");
  refuse("1 2\n", "changed while");
  refuse("1 " + std::to_string(vertices) + "\n" + text.substr(text.find('\n') + 1), "changed while");
  refuse(text + "one two\n", "one two");
}

TEST_F(EdgeSourceTest, EachLineEndsAsItLikes) {
  for (const std::string text :
       {"# made by a test\n0 1 a\n1 2\n\n2 3 b\n", "\xef\xbb\xbf# made by a test\n0 1 a\n1 2\n\n2 3 b\n",
        "\xef\xbb\xbf"
        "0 1 a\n1 2\n2 3 b\n",
        "# made by a test\r\n0 1 a\r\n1 2\r\n\r\n2 3 b", "# made by a test\r0 1 a\r1 2\r\r2 3 b\r",
        "# made by a test\r0 1 a\r\n1 2\n\r2 3 b"}) {
    const auto source = make_text_source(write_file("edges", text), false);
    ASSERT_EQ(source->edges(), 3U);
    const std::vector<Edge> edges = edges_of(*source, 1);
    for (Vertex vertex = 0; vertex < 3; ++vertex) {
      EXPECT_EQ(edges[vertex].source, vertex);
      EXPECT_EQ(edges[vertex].target, vertex + 1);
    }
  }
  const std::string matrix = "%%MatrixMarket matrix coordinate pattern general\r% a remark\r3 3 2\r1 2\r2 3\r";
  EXPECT_EQ(make_text_source(write_file("edges", matrix), false)->edges(), 2U);
  try {
    make_text_source(write_file("edges", "0 1\r1 2\r\ntwo 3\r"), false);
    FAIL() << "nothing was said";
  } catch (const OptionError& error) {
    EXPECT_NE(std::string(error.what()).find("edges:3: 'two 3' does not begin"), std::string::npos) << error.what();
  }
}

// Else the line with its sizes would be an edge, and its entries edges between other vertices.
TEST_F(EdgeSourceTest, AMatrixIsOneWhateverStandsBeforeItAndHoweverItIsSpelt) {
  for (const char* before : {"", "\n", "# made by a test\n% another remark\n"}) {
    for (const char* banner : {"%%MatrixMarket", "%%matrixmarket"}) {
      const std::string text =
          std::string(before) + banner + " matrix coordinate pattern general\n% a remark\n5 5 2\n1 2\n2 3\n";
      const auto source = make_text_source(write_file("edges", text), false);
      EXPECT_EQ(source->vertices(), 5U) << text;
      const std::vector<Edge> edges = edges_of(*source, 1);
      ASSERT_EQ(edges.size(), 2U) << text;
      EXPECT_EQ(edges[0].source, 0U);
      EXPECT_EQ(edges[1].target, 2U);
    }
  }
}

TEST_F(EdgeSourceTest, WhatIsNoTextIsRefusedByWhatItIs) {
  const auto refuse = [&](const std::string& contents, const std::string& part) {
    const std::string file = write_file("edges", contents);
    try {
      make_text_source(file, false);
      FAIL() << "nothing was said about " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("edges:1: "), std::string::npos) << error.what();
    }
  };
  refuse("\x1f\x8b\x08 and so on", "unpack it with gunzip first");
  refuse("\x28\xb5\x2f\xfd and so on", "unpack it with unzstd first");
  refuse("1 2 " + std::string(std::size_t{2} << 20U, ' '), "no end within");
}

}  // namespace
}  // namespace tiermap::test
