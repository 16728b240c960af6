// A dataset that only libhdf5 can read and write: in chunks, with filters, or not yet given a place.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "store/hdf5/dataset.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// The items in row-major order, whatever the chunks. Chunks that were read stay decoded in libhdf5's cache, so far as
/// that goes; those that were written are encoded when they leave it, by settle() or flush(), or at the end.
///
/// Thread-safe: one call of libhdf5 at a time. What goes to and from it is copied by way of a buffer of its own, see
/// Hdf5Call. What cannot be read is an error to who asked, and said once on standard error. Once anything that was
/// taken could not be written every call fails: what the file has is then neither the old nor the new.
class Hdf5DatasetStore final : public Store {
 public:
  /// With at most `decoded_bytes` of decoded chunks; of larger ones, one. Throws StoreError.
  Hdf5DatasetStore(const Hdf5Call& hdf5, std::shared_ptr<Hdf5File> file, DirectFile synchronised, Hdf5Dataset dataset,
                   bool writable, std::uint64_t decoded_bytes, std::string name, const FileOptions& options);
  ~Hdf5DatasetStore() override;

  std::uint64_t size_bytes() const override { return dataset_.bytes; }
  bool writable() const override { return writable_; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int settle() override;
  int flush() override;
  std::uint32_t max_reads_in_flight() const override { return at_once(options_.max_reads_in_flight); }
  std::uint32_t max_writes_in_flight() const override { return at_once(options_.max_writes_in_flight); }
  std::optional<ElementLayout> element_layout() const override { return dataset_.elements; }
  std::string name() const override { return name_; }

 private:
  /// While one is in libhdf5 another copies: more would only wait.
  static std::uint32_t at_once(std::uint32_t asked) { return asked == 0 ? 2 : asked; }
  int transfer(const Hdf5Call& hdf5, char* items, std::uint64_t first, std::uint64_t count, bool writing);
  void say_unread(const Hdf5Failure& failure, std::uint64_t first, std::uint64_t count);
  void say_lost(const Hdf5Failure& failure);
  int write_items(char* items, std::uint64_t first, std::uint64_t count, std::uint64_t skip, std::uint64_t bytes);

  std::shared_ptr<Hdf5File> file_;
  const DirectFile synchronised_;
  const Hdf5Dataset dataset_;
  const bool writable_;
  const std::string name_;
  const FileOptions options_;
  Hdf5File::Dataset* open_ = nullptr;
  hid_t space_ = H5I_INVALID_HID;
  hid_t type_ = H5I_INVALID_HID;
  std::set<std::uint64_t> told_;  ///< First items of what was said to be unreadable. Guarded by Hdf5Call.
};

}  // namespace tiermap
