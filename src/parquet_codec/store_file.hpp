// A Store as Arrow wants a file to be.
#pragma once

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <arrow/status.h>

#include <cstdint>
#include <memory>
#include <system_error>
#include <utility>

#include "tiermap/store.hpp"

namespace tiermap::parquet_codec {

/// Arrow reads at offsets alone, from several threads at once.
class StoreFile final : public ::arrow::io::RandomAccessFile {
 public:
  explicit StoreFile(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  ::arrow::Result<std::int64_t> GetSize() override { return static_cast<std::int64_t>(store_->size_bytes()); }

  // All of them: what Arrow does for one that is missing is one call at a time.
  ::arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t bytes, bool allow_short_read,
                                       void* out) override {
    std::int64_t done = 0;
    while (done < bytes) {
      const std::int64_t got = store_->read(static_cast<char*>(out) + done, static_cast<std::size_t>(bytes - done),
                                            static_cast<std::uint64_t>(position + done));
      if (got < 0) {
        return ::arrow::Status::IOError(std::generic_category().message(static_cast<int>(-got)));
      }
      if (got == 0) {
        break;
      }
      done += got;
    }
    if (done < bytes && !allow_short_read) {
      return ::arrow::Status::IOError("the file ends at byte ", position + done);
    }
    return done;
  }
  ::arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t bytes, void* out) override {
    return ReadAt(position, bytes, true, out);
  }
  ::arrow::Result<std::shared_ptr<::arrow::Buffer>> ReadAt(std::int64_t position, std::int64_t bytes,
                                                           bool allow_short_read) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ::arrow::AllocateResizableBuffer(bytes, ::arrow::system_memory_pool()));
    ARROW_ASSIGN_OR_RAISE(const std::int64_t got, ReadAt(position, bytes, allow_short_read, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(got));
    return std::shared_ptr<::arrow::Buffer>(std::move(buffer));
  }
  ::arrow::Result<std::shared_ptr<::arrow::Buffer>> ReadAt(std::int64_t position, std::int64_t bytes) override {
    return ReadAt(position, bytes, true);
  }

  ::arrow::Result<std::int64_t> Read(std::int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const std::int64_t got, ReadAt(position_, bytes, out));
    position_ += got;
    return got;
  }
  ::arrow::Result<std::shared_ptr<::arrow::Buffer>> Read(std::int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, bytes));
    position_ += buffer->size();
    return buffer;
  }
  ::arrow::Status Seek(std::int64_t position) override {
    position_ = position;
    return ::arrow::Status::OK();
  }
  ::arrow::Result<std::int64_t> Tell() const override { return position_; }
  ::arrow::Status Close() override {
    closed_ = true;
    return ::arrow::Status::OK();
  }
  bool closed() const override { return closed_; }

 private:
  const std::shared_ptr<Store> store_;
  std::int64_t position_ = 0;
  bool closed_ = false;
};

}  // namespace tiermap::parquet_codec
