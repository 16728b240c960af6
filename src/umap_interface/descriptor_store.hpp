// Files that a program has open, as stores: for umap() and for Store::make_store().
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "store/file_store.hpp"
#include "umap/store/Store.hpp"

namespace tiermap::umap_interface {

/// The file behind a descriptor, opened anew so that the program may close its own; as writable as the descriptor is.
/// Throws StoreError.
std::unique_ptr<FileStore> open_descriptor(int descriptor);

/// Files that regions have open, each once however many regions and descriptors it has: a thousand regions of a file
/// need two descriptors. Not thread-safe.
class OpenFiles {
 public:
  /// As open_descriptor().
  std::shared_ptr<FileStore> open(int descriptor);

 private:
  using Key = std::tuple<dev_t, ino_t, bool>;  ///< With whether it can be written.
  std::map<Key, std::weak_ptr<FileStore>> files_;
};

/// A file that no write makes longer: what is past its end at that time is dropped, as with mmap().
std::shared_ptr<Store> capped(const std::shared_ptr<FileStore>& file);

/// A read or a write as UMap's stores do them, on one of the engine's: how much was done, or -1 with errno.
ssize_t read_whole(Store& store, char* buffer, std::size_t bytes, off_t offset) noexcept;
ssize_t write_whole(Store& store, const char* buffer, std::size_t bytes, off_t offset) noexcept;

/// What make_store() gives.
class DescriptorStore final : public Umap::Store {
 public:
  explicit DescriptorStore(std::shared_ptr<tiermap::Store> file) : file_(std::move(file)) {}
  ssize_t read_from_store(char* buf, std::size_t nb, off_t off) override;
  ssize_t write_to_store(char* buf, std::size_t nb, off_t off) override;
  int engine_store(std::shared_ptr<tiermap::Store>& store) const override {
    store = file_;
    return 0;
  }

 private:
  const std::shared_ptr<tiermap::Store> file_;
};

}  // namespace tiermap::umap_interface
