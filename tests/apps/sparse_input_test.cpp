// A sparse store that somebody else writes to, or whose metadata cannot be right: every program that is given it
// refuses it with one line and exit code 2, and leaves it as it was.
#include <fstream>
#include <iterator>
#include <vector>

#include "apps/program_fixture.hpp"
#include "store/sparse_metadata.hpp"
#include "tiermap/store.hpp"

namespace tiermap::test {
namespace {

class SparseInputTest : public ProgramTest {
 protected:
  SparseInputTest() {
    longest_run_seconds = 60;
    const auto store = open_store(url() + "?segment=64KiB", OpenMode::create, text_.size());
    EXPECT_EQ(store->write(text_.data(), text_.size(), 0), static_cast<std::int64_t>(text_.size()));
  }

  std::string url() const { return "sparse://" + path("store"); }

  std::string metadata() const {
    std::ifstream file(metadata_path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void set_metadata(const std::string& bytes) const { std::ofstream(metadata_path(), std::ios::binary) << bytes; }

  void expect_all_refuse(const std::string& part) const {
    const std::string before = metadata();
    expect_refused("tiermap-sort", {"--in-place", "--budget", "8MiB", "--file", url()}, part);
    expect_refused("tiermap-bfs", {"--budget", "8MiB", "--graph", url()}, part);
    EXPECT_EQ(metadata(), before);
  }
  /// Refused with this in the metadata file's place, and as it was before with its own.
  void expect_refused_with(const std::string& bytes, const std::string& part) const {
    const std::string good = metadata();
    set_metadata(bytes);
    expect_all_refuse(part);
    set_metadata(good);
    expect_unchanged();
  }
  void expect_unchanged() const {
    const auto store = open_store(url(), OpenMode::read_only);
    ASSERT_EQ(store->size_bytes(), text_.size());
    std::string found(text_.size(), '\0');
    EXPECT_EQ(store->read(found.data(), found.size(), 0), static_cast<std::int64_t>(found.size()));
    EXPECT_EQ(found, text_);
  }

 private:
  std::string metadata_path() const { return path(std::string("store/") + sparse_metadata_name); }

  const std::string text_ = std::string(200'000, 'z') + std::string(56'000, 'a');
};

TEST_F(SparseInputTest, ThatAnotherOneWritesTo) {
  {
    const auto writer = open_store(url(), OpenMode::read_write);
    expect_all_refuse("close it there first");
  }
  expect_unchanged();
}

TEST_F(SparseInputTest, ThatAnotherOneReads) {
  const auto reader = open_store(url(), OpenMode::read_only);
  expect_refused("tiermap-sort", {"--in-place", "--budget", "8MiB", "--file", url()}, "one store takes one writer");
  expect_unchanged();
}

TEST_F(SparseInputTest, WhoseMetadataAreCutOff) {
  for (const std::size_t bytes : {0U, 11U, 12U, 63U}) {
    expect_refused_with(metadata().substr(0, bytes), "is truncated: it has " + std::to_string(bytes) + " bytes");
  }
}

TEST_F(SparseInputTest, WhoseMetadataAreDamaged) {
  std::string bytes = metadata();
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  expect_refused_with(bytes, "its checksum is wrong");
}

TEST_F(SparseInputTest, OfALaterVersion) {
  std::string bytes = metadata();
  bytes[8] = 99;
  expect_refused_with(bytes, "use a newer version of Tiermap");
}

}  // namespace
}  // namespace tiermap::test
