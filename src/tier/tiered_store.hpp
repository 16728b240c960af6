// A store with tiers in front: what make_tiered_store() makes.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tier/block_mover.hpp"
#include "tier/organizer.hpp"
#include "tier/tier_blocks.hpp"
#include "tiermap/store.hpp"
#include "tiermap/tiers.hpp"

namespace tiermap {

/// Reads and writes go to the tier that has the block. One that is in none is brought into the fastest with room when
/// it is read, or a good part of it is written; without room, and for a smaller part, the backing store serves. Where
/// the tier may have copies alone, what is written goes to a faster one, or to the backing store as well. Who makes
/// room is the Organizer. A child of fork() gets -EBUSY of everything, and writes nothing down: what is dirty is its
/// parent's, which goes on writing it.
class TieredStore final : public Store {
 public:
  /// Throws as make_tiered_store().
  TieredStore(std::shared_ptr<Store> backing, const TieringOptions& options);
  /// With these, which are open, as the tiers of the options.
  TieredStore(std::shared_ptr<Store> backing, const TieringOptions& options, std::vector<std::unique_ptr<Tier>> tiers);
  /// Writes all down, and errors are lost; nothing in a child of fork().
  ~TieredStore() override;

  std::uint64_t size_bytes() const override { return backing_->size_bytes(); }
  bool writable() const override { return backing_->writable(); }
  bool growable() const override { return backing_->growable(); }
  std::uint64_t most_bytes() const override { return backing_->most_bytes(); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int flush() override;
  int settle() override;
  int resize(std::uint64_t bytes) override;
  int punch(std::uint64_t offset, std::uint64_t bytes) override;
  void score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept override;
  /// As often as the organizer looks.
  void show_tiers(PublishedTiers& tiers, bool shown) noexcept override;
  double read_microseconds(std::uint64_t offset, std::uint64_t bytes) const noexcept override;
  /// Which are the blocks', if these are as large.
  bool writes_whole_pages() const override { return backing_->writes_whole_pages(); }
  std::optional<ElementLayout> element_layout() const override { return backing_->element_layout(); }
  std::string name() const override;

  /// Throws Error (ECHILD) in a child of fork().
  std::vector<TierReport> reports() const;

 private:
  struct Piece {
    std::uint64_t block;
    std::uint64_t from;  ///< Within the block.
    std::uint64_t bytes;
  };
  Piece piece_at(std::uint64_t offset, std::uint64_t end) const noexcept;
  bool has_tiers_for(std::uint64_t block) const noexcept { return block < blocks_.blocks(); }
  int read_piece(const Piece& piece, char* buffer, bool& behind);
  int bring_and_read(const Piece& piece, char* buffer, bool& behind);
  int write_piece(const Piece& piece, const char* buffer);
  int bring_and_write(const Piece& piece, const char* buffer);
  int write_through(BlockOwnership& owned, const Piece& piece, const char* buffer);
  int punch_piece(const Piece& piece);
  int cut_off(std::uint64_t bytes);
  int write_all_down();
  void note_room();
  void publish() noexcept;
  bool in_child() const noexcept;

  const pid_t process_;
  const std::shared_ptr<Store> backing_;
  const std::uint64_t block_bytes_;
  const bool emulated_;
  const double backing_cost_per_gigabyte_;
  TierBlocks blocks_;
  BlockMover mover_;
  ServedCounts backing_served_;
  std::mutex shown_mutex_;
  std::vector<PublishedTiers*> shown_;    ///< Where to tell what reports() says. Guarded by shown_mutex_.
  std::unique_ptr<Organizer> organizer_;  ///< The last one: its thread uses all the others.
};

/// Throws what TieredStore() would, and leaves nothing behind.
void check_tier_places(const TieringOptions& options);

}  // namespace tiermap
