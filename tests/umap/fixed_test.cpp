// UMAP_FIXED as Metall uses it: inside a PROT_NONE reservation. LLNL/umap overwrites one page beyond.
#include <sys/mman.h>

#include "umap_fixture.hpp"

namespace tiermap {
namespace {

constexpr std::size_t reserved_pages = 16;

class FixedTest : public UmapTest {
 protected:
  FixedTest() {
    raw_ = ::mmap(nullptr, (reserved_pages + 1) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const auto address = reinterpret_cast<std::uintptr_t>(raw_);
    reservation_ = reinterpret_cast<char*>((address + page - 1) / page * page);
  }
  ~FixedTest() override { ::munmap(raw_, (reserved_pages + 1) * page); }

  void* map_at(void* place, std::size_t bytes, const OpenFile& file) {
    return ::umap(place, bytes, for_both, UMAP_PRIVATE | UMAP_FIXED, file.descriptor(), 0);
  }

  void* raw_;
  char* reservation_;
};

TEST_F(FixedTest, TakesThatPieceOfAReservationAndGivesItBack) {
  const OpenFile file(folder_ / "file", 8 * page);
  char* const place = reservation_ + 4 * page;
  auto* region = static_cast<std::uint64_t*>(map_at(place, 8 * page, file));
  ASSERT_EQ(static_cast<void*>(region), place);
  EXPECT_EQ(touch(region + 3), 3U);
  poke(region + 4, 44);
  // Not a page more, before or behind.
  EXPECT_EQ(mapped_bytes(reservation_, 4 * page, "---p"), 4 * page);
  EXPECT_EQ(mapped_bytes(place + 8 * page, 4 * page, "---p"), 4 * page);
  EXPECT_EQ(::uunmap(region, 9 * page), 0);
  EXPECT_EQ(file.word(4), 44U);
  EXPECT_EQ(mapped_bytes(reservation_, reserved_pages * page, "---p"), reserved_pages * page);
  // And again, as Metall does when it opens what it has created.
  region = static_cast<std::uint64_t*>(map_at(place, 8 * page, file));
  ASSERT_EQ(static_cast<void*>(region), place);
  EXPECT_EQ(touch(region + 4), 44U);
  EXPECT_EQ(::uunmap(region, 9 * page), 0);
}

TEST_F(FixedTest, ThePageBehindIsNotOverwritten) {
  const OpenFile file(folder_ / "file", 4 * page);
  char* const neighbour = reservation_ + 8 * page;
  ASSERT_EQ(::mprotect(neighbour, page, PROT_READ | PROT_WRITE), 0);
  std::memset(neighbour, 77, page);
  ASSERT_EQ(map_at(reservation_ + 4 * page, 4 * page, file), reservation_ + 4 * page);
  EXPECT_EQ(neighbour[0], 77);
  EXPECT_EQ(neighbour[page - 1], 77);
  EXPECT_EQ(::uunmap(reservation_ + 4 * page, 5 * page), 0);
  EXPECT_EQ(neighbour[0], 77);
}

TEST_F(FixedTest, InPlaceOfMemoryLeavesMemory) {
  const OpenFile file(folder_ / "file", 4 * page);
  ASSERT_EQ(::mprotect(reservation_, 2 * page, PROT_READ | PROT_WRITE), 0);
  std::memset(reservation_, 5, page);
  ASSERT_EQ(map_at(reservation_, 4 * page, file), reservation_);
  EXPECT_EQ(::uunmap(reservation_, 4 * page), 0);
  EXPECT_EQ(mapped_bytes(reservation_, 4 * page, "rw-p"), 2 * page);
  EXPECT_EQ(reservation_[0], 0);
  EXPECT_EQ(mapped_bytes(reservation_ + 2 * page, 2 * page, "---p"), 2 * page);
}

/// Where the kernel puts nothing by itself, so that what is found there is ours.
char* const far_away = reinterpret_cast<char*>(0x200000000000);

TEST_F(FixedTest, WhereNothingWasNothingIsLeft) {
  const OpenFile file(folder_ / "file", 4 * page);
  ASSERT_EQ(map_at(far_away, 4 * page, file), far_away);
  EXPECT_EQ(touch(reinterpret_cast<std::uint64_t*>(far_away + 3 * page)), 3 * words_a_page);
  EXPECT_EQ(::uunmap(far_away, 4 * page), 0);
  EXPECT_EQ(mapped_bytes(far_away, 4 * page), 0U);
  // Beside something that stays.
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  ASSERT_EQ(::mmap(far_away + page, page, PROT_READ, flags, -1, 0), far_away + page);
  ASSERT_EQ(map_at(far_away, 4 * page, file), far_away);
  EXPECT_EQ(::uunmap(far_away, 4 * page), 0);
  EXPECT_EQ(mapped_bytes(far_away, 4 * page), page);
  EXPECT_EQ(mapped_bytes(far_away + page, page, "r--p"), page);
  EXPECT_EQ(::munmap(far_away + page, page), 0);
}

TEST_F(FixedTest, AFailureLeavesAHole) {
  const OpenFile file(folder_ / "file", 4 * page, true, O_RDONLY);
  EXPECT_EQ(map_at(far_away, 4 * page, file), UMAP_FAILED);
  EXPECT_EQ(mapped_bytes(far_away, 4 * page), 0U);
  errno = 0;
  EXPECT_EQ(map_at(reinterpret_cast<void*>(~std::uintptr_t{0} << 40U), page, file), UMAP_FAILED);
  EXPECT_NE(errno, 0);
}

TEST_F(FixedTest, OverARegionIsRefused) {
  const OpenFile file(folder_ / "file", 4 * page);
  ASSERT_EQ(map_at(reservation_, 4 * page, file), reservation_);
  errno = 0;
  EXPECT_EQ(map_at(reservation_ + 2 * page, 4 * page, file), UMAP_FAILED);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(touch(reinterpret_cast<std::uint64_t*>(reservation_) + 3), 3U);
  EXPECT_EQ(::uunmap(reservation_, 4 * page), 0);
}

TEST_F(FixedTest, AFailureLeavesTheReservation) {
  const OpenFile file(folder_ / "file", 4 * page, true, O_RDONLY);
  errno = 0;
  EXPECT_EQ(map_at(reservation_, 4 * page, file), UMAP_FAILED);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(mapped_bytes(reservation_, reserved_pages * page, "---p"), reserved_pages * page);
}

TEST_F(FixedTest, AnAddressThatIsAlignedToSmallerPagesGetsThose) {
  const OpenFile file(folder_ / "file", 4 * page);
  char* const place = reservation_ + 4096;
  auto* const region = static_cast<std::uint64_t*>(map_at(place, 4 * page, file));
  ASSERT_EQ(static_cast<void*>(region), place);
  EXPECT_EQ(touch(region + 3 * words_a_page), 3 * words_a_page);
  EXPECT_EQ(::uunmap(region, 4 * page), 0);
  errno = 0;
  EXPECT_EQ(map_at(reservation_ + 8, page, file), UMAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(FixedTest, WithoutTheFlagAnAddressIsAHint) {
  const OpenFile file(folder_ / "file", 4 * page);
  void* const elsewhere = ::umap(reservation_, 4 * page, for_reading, UMAP_PRIVATE, file.descriptor(), 0);
  ASSERT_NE(elsewhere, UMAP_FAILED);
  EXPECT_NE(elsewhere, reservation_);
  EXPECT_EQ(::uunmap(elsewhere, 4 * page), 0);
  EXPECT_EQ(::umap(far_away, 4 * page, for_reading, UMAP_PRIVATE, file.descriptor(), 0), far_away);
  EXPECT_EQ(::uunmap(far_away, 4 * page), 0);
}

}  // namespace
}  // namespace tiermap
