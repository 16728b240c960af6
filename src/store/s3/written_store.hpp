// An object in S3, read and written. No part of an object can be written in place: what is written waits in a scratch
// file, and flush() or settle() makes a new object of that and of what the old one has.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "platform/lazy_array.hpp"
#include "store/overlay_store.hpp"
#include "store/s3/client.hpp"
#include "store/s3/object_store.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Others see the object as it was until all of the new one is there, and then that: parts are uploaded, those without
/// a change copied by the server, and completed on the condition that the object is still the one that was read.
/// Otherwise nothing is changed, and the call says so (ESTALE); what was written stays in the scratch file.
///
/// Thread-safe: writes may go on while a new object is being made; they are in it or in the next one. A mark for each
/// MiB is set behind the bytes that were written, so that marks which were taken before the bytes were uploaded are
/// there again for whoever wrote meanwhile.
class S3WrittenStore final : public Store {
 public:
  /// `version` may be of no object: one of `bytes` zeros is made by the first flush() or settle(), or by the destructor
  /// if anything was written. Throws StoreError where there can be no scratch file.
  S3WrittenStore(std::shared_ptr<S3Client> client, S3Version version, std::uint64_t bytes);
  ~S3WrittenStore() override;

  std::uint64_t size_bytes() const override { return overlay_->size_bytes(); }
  bool writable() const override { return true; }
  bool growable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int flush() override;
  int settle() override { return flush(); }
  int resize(std::uint64_t bytes) override;
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override {
    return overlay_->locate_read(offset, bytes, extent);
  }
  std::uint32_t direct_alignment() const override { return overlay_->direct_alignment(); }
  std::uint32_t max_reads_in_flight() const override { return base_->max_reads_in_flight(); }
  std::string name() const override { return base_->name(); }

 private:
  static constexpr std::uint64_t mark_bytes = 1 << 20;

  void mark(std::uint64_t begin, std::uint64_t end) noexcept;
  /// Takes the marks of the first `bytes` bytes away, and says where they were.
  std::vector<bool> take_marks(std::uint64_t bytes);
  int make_object();
  S3Failure make_new_version(std::uint64_t bytes, const std::vector<bool>& changed);
  S3Failure put(const S3Client::Change& change, std::uint64_t bytes);
  S3Failure upload(const S3Client::Change& change, std::uint64_t bytes, const std::vector<bool>& changed);
  S3Failure upload_parts(const S3Client::Change& change, const std::string& upload, std::vector<S3Client::Part>& parts);
  S3Failure fill(std::vector<char>& content, std::uint64_t offset);
  bool has_to_be_made(std::uint64_t bytes) const;

  const std::shared_ptr<S3Client> client_;
  const std::shared_ptr<S3ObjectStore> base_;
  const std::shared_ptr<OverlayStore> overlay_;
  LazyArray<std::atomic<std::uint8_t>> changed_;  ///< A mark for each MiB that differs from the object.
  std::atomic<std::uint64_t> base_limit_;         ///< Bytes from here on were cut off once: they are not the object's.
  std::mutex size_mutex_;                         ///< Of who makes it longer or shorter.
  std::mutex making_;                             ///< One new object at a time. Taken first.
  const pid_t process_;
};

}  // namespace tiermap
