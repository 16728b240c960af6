// What a region of umap_ex() is backed by: LLNL/umap's interface for stores of a program's own.
#ifndef UMAP_STORE_STORE_HPP
#define UMAP_STORE_STORE_HPP

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tiermap {
class Store;
}

namespace Umap {

/// Derive from it to page anything that can be read at an offset. The functions are called from several threads at
/// once, never twice at once for one page of which one call is a write. Each call is for one page of the region: `buf`,
/// `nb` and `off` are aligned to 4096, so that of a region of another length the last call goes past its end, as far as
/// whole blocks of that do, and a store has to take that too. An exception is taken as EIO.
class Store {
 public:
  /// A store of a file that is open; `fd` may be closed afterwards. The first three arguments are not looked at. Null,
  /// with errno, if it cannot be had. The caller deletes it, after its regions are unmapped.
  static Store* make_store(void* region, std::size_t size, std::size_t align, int fd);

  Store() = default;
  Store(const Store&) = default;
  Store& operator=(const Store&) = default;
  /// If a region still uses the store, its pages can be neither read nor written any more (EBADF); nothing is called.
  virtual ~Store();

  /// Copies `nb` bytes from `off` into `buf`. Returns how many, or -1 with errno. After fewer than `nb` the rest of the
  /// page is what `buf` holds, zeros where nothing was put.
  virtual ssize_t read_from_store(char* buf, std::size_t nb, off_t off) = 0;

  /// Copies `nb` bytes to `off`. Returns how many (the rest is asked for again), or -1 with errno: then the page stays
  /// in memory and is tried again.
  virtual ssize_t write_to_store(char* buf, std::size_t nb, off_t off) = 0;

  /// For umap_ex(): the library's own stores put in what the engine reads and writes without calling them, and return
  /// 0, or the errno value for which they cannot. -1: the functions above are to be called.
  virtual int engine_store(std::shared_ptr<tiermap::Store>& store) const;
};

}  // namespace Umap

#endif
