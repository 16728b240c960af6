// A directory of files as one store, each file made when it is first written to: LLNL/umap's SparseStore, on the same
// directories.
#ifndef UMAP_STORE_SPARSESTORE_H
#define UMAP_STORE_SPARSESTORE_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "umap/store/Store.hpp"
#include "umap/umap.h"

namespace Umap {

/// The directory holds `_metadata` (the size of each file, then the capacity, in decimals) and the files 0, 1, 2, ...
/// Constructors do not throw: where the directory cannot be had, get_directory_creation_status() says why, and mapping
/// the store fails with that. Thread-safe. One process may write to a directory at a time.
class SparseStore : public Store {
 public:
  /// Makes the directory, or opens the one that is there with all it holds, as large as it is or `region_size`,
  /// whatever is more. A new one has files of `file_size` bytes, rounded up to `page_size`, or of a power of two times
  /// that: so large that they are at most 1,024, or of 128 MiB or more and at most 65,536. One that is there keeps its
  /// files' size.
  SparseStore(std::size_t region_size, std::size_t page_size, std::string directory, std::size_t file_size);

  /// Opens a directory.
  SparseStore(std::string directory, bool read_only);

  SparseStore(const SparseStore&) = delete;
  SparseStore& operator=(const SparseStore&) = delete;
  /// A region that is still mapped keeps the files.
  ~SparseStore() override;

  ssize_t read_from_store(char* buf, std::size_t nb, off_t off) override;
  ssize_t write_to_store(char* buf, std::size_t nb, off_t off) override;

  /// Bytes that the store can hold; 0 if it is not open.
  std::size_t get_current_capacity();
  /// The same of a directory; 0, with errno, if it is none.
  static std::size_t get_capacity(std::string directory);

  /// Closes the files, once no region uses them. Returns 0. Nothing can be read or mapped afterwards (EBADF).
  int close_files();

  /// 0, or the errno value for which the directory could not be made or opened.
  int get_directory_creation_status();

  int engine_store(std::shared_ptr<tiermap::Store>& store) const override;

 private:
  std::shared_ptr<tiermap::Store> open_files() const;

  mutable std::mutex mutex_;
  std::shared_ptr<tiermap::Store> files_;
  int status_ = 0;
};

}  // namespace Umap

#endif
