// Reading an allocator's metadata that may be damaged, as far as it goes. A loaded allocator trusts what it has read;
// this trusts nothing, and goes on behind what is damaged.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heap/metadata_records.hpp"

namespace tiermap {

/// Told of everything in the order of slabs.
class MetadataVisitor {
 public:
  virtual ~MetadataVisitor() = default;
  /// Something at this place of the metadata area is not as it should be.
  virtual void damage(std::uint64_t place, const std::string& what) = 0;
  /// `bits` has a bit for each slot, the live ones set; it is empty if they cannot be trusted.
  virtual void span(std::uint64_t slab, const SavedSlab& saved, std::span<const std::uint64_t> bits) = 0;
  virtual void large_block(std::uint64_t slab, const SavedSlab& saved) = 0;
  /// No intact record says what these slabs are.
  virtual void unknown(std::uint64_t first_slab, std::uint64_t end_slab) = 0;
  /// Everything before this slab was told of; at most `end_slab` is to come.
  virtual void passed(std::uint64_t slab, std::uint64_t end_slab) = 0;
};

class MetadataWalk {
 public:
  /// Of a data area of so many slabs. `whole`: looks also behind what the header says is in use, as a save that was cut
  /// short may have left something there.
  MetadataWalk(MetadataArea& area, std::uint64_t slabs, bool whole, MetadataVisitor& visitor)
      : area_(area), slabs_(slabs), whole_(whole), visitor_(visitor) {}

  void run();

 private:
  void read_header();
  void read_records(std::uint64_t first, std::uint64_t count);
  void visit_record(std::uint64_t record, std::span<const std::byte> bytes);
  void lose_record(std::uint64_t record, const std::string& what);
  void visit_entries(std::uint64_t record, const SavedSlabs& entries);
  void visit_entry(std::uint64_t slab, const SavedSlab& saved);
  void read_bitmaps(std::uint64_t record, const SavedSlabs& entries);
  void visit_span(std::uint64_t slab, const SavedSlab& saved);
  void finish();

  MetadataArea& area_;
  const std::uint64_t slabs_;
  const bool whole_;
  MetadataVisitor& visitor_;

  std::optional<MetadataHeader> header_;       ///< If it is intact.
  std::uint64_t end_ = 0;                      ///< Slabs that are looked at.
  std::uint64_t next_ = 1;                     ///< What was told of reaches to this slab.
  std::optional<std::uint64_t> unknown_from_;  ///< Until the next thing that is known.
  bool beyond_told_ = false;                   ///< Once is enough.
  bool lost_ = false;                          ///< A record could not be read.
  std::uint64_t sum_ = 0;

  std::vector<std::byte> records_;
  std::vector<std::byte> bitmaps_;  ///< Of the spans of one record,
  std::uint64_t bitmaps_from_ = 0;  ///< from this slab on.
};

}  // namespace tiermap
