// A store that keeps pages is handed whole ones, whatever lies between it and the vector.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <vector>

#include "store/temporary_directory.hpp"
#include "tiermap/tiers.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

/// Keeps pages, and counts what is handed to it that is none.
class PagesStore final : public Store {
 public:
  static constexpr std::uint64_t page_bytes = 16 << 10;
  explicit PagesStore(std::shared_ptr<Store> base) : base_(std::move(base)) {}
  std::uint64_t size_bytes() const override { return base_->size_bytes(); }
  bool writable() const override { return true; }
  bool growable() const override { return true; }
  bool writes_whole_pages() const override { return true; }
  int resize(std::uint64_t bytes) override { return base_->resize(bytes); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return base_->read(buffer, bytes, offset);
  }
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const bool whole = offset % page_bytes == 0 && (bytes == page_bytes || offset + bytes == size_bytes());
    parts += whole ? 0 : 1;
    ++writes;
    return base_->write(buffer, bytes, offset);
  }

  std::atomic<int> writes{0};
  std::atomic<int> parts{0};

 private:
  const std::shared_ptr<Store> base_;
};

TEST(WholePagesTest, a_store_that_keeps_pages_is_handed_these) {
  constexpr std::uint64_t page_elements = PagesStore::page_bytes / sizeof(std::uint64_t);
  constexpr std::uint64_t elements = 100 * page_elements + 7;
  const TemporaryDirectory directory;
  const std::string path = directory / "vector";
  VectorOptions small;
  small.budget_bytes = 1 << 20;
  small.page_size_bytes = PagesStore::page_bytes;
  TieringOptions tiering;
  tiering.block_bytes = PagesStore::page_bytes;
  tiering.tiers.resize(1);
  tiering.tiers[0].capacity_bytes = PagesStore::page_bytes;  // Most pages are in the store behind it alone.
  for (const bool tiered : {false, true}) {
    SCOPED_TRACE(tiered ? "behind a tier" : "by itself");
    std::filesystem::remove(path);
    const auto pages = std::make_shared<PagesStore>(open_store(path, OpenMode::create));
    auto numbers = Vector<std::uint64_t>::on(tiered ? make_tiered_store(pages, tiering) : pages, small);
    numbers.append(std::vector<std::uint64_t>(elements, 3));
    numbers.sync();
    for (std::uint64_t at = 5; at < elements; at += page_elements) {
      numbers[at] = at;
    }
    numbers.close();
    EXPECT_GE(pages->writes, 150);
    EXPECT_EQ(pages->parts, 0) << "of " << pages->writes;
  }
}

}  // namespace
}  // namespace tiermap
