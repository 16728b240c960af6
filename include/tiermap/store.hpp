// A Store knows where bytes live. Derive from it to page anything that can be read at an offset;
// docs/how-to/own-store.md works an example. open_store() makes the built-in ones from a URL.
#pragma once

#if __cplusplus < 202002L
#error "Tiermap's C++ headers are C++20: compile with -std=c++20 or later"
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tiermap {

/// Where a piece of a store can be reached without calling the store.
struct Extent {
  int file_descriptor = -1;  ///< Opened with O_DIRECT where the file system allows it.
  std::uint64_t offset = 0;  ///< The piece's first byte in that file.
  std::uint64_t bytes = 0;   ///< How far the piece goes, at most what was asked; never 0 on success.
  bool hole = false;         ///< The piece reads as zeros; there is no file descriptor.
  bool complete = false;     ///< The file had all these bytes: a page of which it has none any more is an error.
};

/// A part of a record.
struct ElementField {
  std::string name;
  char kind = 'V';  ///< As numpy has them.
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  ///< In the record.
};

/// What a store's format says of its elements.
struct ElementLayout {
  std::uint64_t bytes = 0;
  std::uint64_t row_bytes = 0;  ///< Of those that differ in all indices but the first; of one dimension the same.
  char kind = '\0';             ///< As numpy has them: b, i, u, f, c and others; '\0': several fields.
  bool swapped = false;         ///< Some of it is in the byte order of other machines.
  std::string type;             ///< As the file calls it.
  /// Extents of the array that the elements are, the last index the fastest; empty where the format tells none, or
  /// another order.
  std::vector<std::uint64_t> shape = {};
  /// Of elements of several fields, where the format tells them.
  std::vector<ElementField> fields = {};
};

/// A backing store. The engine calls it from several threads at once, never twice at once for overlapping ranges of
/// which one is a write. Functions report failure by a negative errno value (`-EIO`); an exception that leaves one is
/// taken as -EIO.
class Store {
 public:
  virtual ~Store() = default;

  /// Current size in bytes. Thread-safe, never blocks.
  virtual std::uint64_t size_bytes() const = 0;

  /// Whether write() can succeed at all.
  virtual bool writable() const { return false; }

  /// Whether a write beyond size_bytes() makes the store larger (as with a file) rather than failing.
  virtual bool growable() const { return false; }

  /// How large it becomes so at most, where it is growable(): a vector on it takes no more elements.
  virtual std::uint64_t most_bytes() const { return ~std::uint64_t{0}; }

  /// Copies up to `bytes` bytes from `offset` into `buffer`. Returns how many, fewer only where the store ends (the
  /// engine takes what is missing as zeros) or after an interruption (the engine asks again for the rest; 0 means the
  /// end), or a negative errno value. -ENODATA says that there are no such bytes: to a page that has others they are
  /// zeros, and a page that has none is an error, as with mmap() behind a file's end.
  virtual std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) = 0;

  /// Copies `bytes` bytes to `offset`. Returns how many (the engine asks again for the rest), or a negative errno
  /// value.
  virtual std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset);

  /// Makes everything written so far durable. Returns 0 or a negative errno value.
  virtual int flush() { return 0; }

  /// Brings everything written so far to where it is to last, without flush()'s promise; called before a region over
  /// the store is unmapped. For stores that keep writes elsewhere for a while. Returns 0 or a negative errno value.
  virtual int settle() { return 0; }

  /// How soon somebody (`sharer`, not 0) will need these bytes: 1 now, less for later, 0 not foreseeably. Stores that
  /// have faster and slower places make use of it. Thread-safe, must not block for long.
  virtual void score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept;

  /// What it takes to read so many bytes from where they are now; 0 where all places are the same, and scores do
  /// nothing. Thread-safe.
  virtual double read_microseconds(std::uint64_t offset, std::uint64_t bytes) const noexcept;

  /// What its tiers hold and do is written to `tiers` now and then from here on, for `tiermap top`; `shown` false: no
  /// more, once this returns. Nothing for stores without tiers. Thread-safe.
  virtual void show_tiers(struct PublishedTiers& tiers, bool shown) noexcept;

  /// Changes the size; what is cut off is lost, what is added reads as zero. Asked for the size that it has, it cuts
  /// off what writes to an extent of locate_write() left behind its end. Asked for more than it knows it has, it cuts
  /// off nothing: a file that others have made longer still stays so. Returns 0 or a negative errno value.
  virtual int resize(std::uint64_t bytes);

  /// Discards a range: it reads as zeros from now on, the size stays, and the room it took is given back as far as that
  /// can be. Returns 0 or a negative errno value, -ENOTSUP if the store cannot (then write zeros).
  virtual int punch(std::uint64_t offset, std::uint64_t bytes);

  /// Where [offset, offset + bytes) can be read without calling read(), or false: then read() is called. An extent may
  /// cover only the first part. Thread-safe; called from signal handlers: it must not allocate, lock or throw.
  /// Offsets and lengths of what it returns, but for the last bytes of the store, are multiples of direct_alignment().
  virtual bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept;

  /// The same for writing. May allocate and block (a sparse store makes its segment here); a failure it can name is
  /// left to write() to report.
  virtual bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept;

  /// What offset, length and buffer address of direct reads and writes must be multiples of; a power of two, at most
  /// 4096.
  virtual std::uint32_t direct_alignment() const { return 1; }

  /// Whether read() neither blocks for long, nor allocates, locks or throws, so that a faulting thread may call it in
  /// its signal handler (a copy from memory is; anything with a mutex is not).
  virtual bool reads_in_signal_handler() const { return false; }

  /// Whether write() is to be handed whole pages of the region (the last one as long as it is), not the 4 KiB blocks
  /// that changed: for stores that keep pages and not bytes, such as compressed ones.
  virtual bool writes_whole_pages() const { return false; }

  /// How many reads, and how many writes, the store likes to have in flight at once; 0 means no cap.
  virtual std::uint32_t max_reads_in_flight() const { return 0; }
  virtual std::uint32_t max_writes_in_flight() const { return 0; }

  /// What it holds, where its format tells; a Vector is held against it.
  virtual std::optional<ElementLayout> element_layout() const { return std::nullopt; }

  /// What messages call it, such as its URL.
  virtual std::string name() const { return "store"; }
};

/// How open_store() opens.
enum class OpenMode : std::uint8_t {
  read_only,       ///< Must exist.
  read_write,      ///< Must exist.
  create,          ///< Must not exist yet.
  open_or_create,  ///< Either.
};

/// Opens the store that a URL names: `file:///p` (or a plain path), `sparse:///dir?segment=256MiB&capacity=1TiB`,
/// `concat:///a,/b` (`/a@offset+length` for a part), globs `file:///d/*.bin` (a read-only or read-write concat in name
/// order), `npy:///p.npy` (the elements of a .npy file), `hdf5:///f.h5:/group/name` (those of an HDF5 dataset, which
/// `?type=float32&shape=64,64` makes), `fits:///f.fits:1` (the pixels of a FITS image, of its first one without `:1`,
/// or of all files of a pattern), `csv:///f.csv?columns=x,y` (numbers in text, read-only),
/// `parquet:///f.parquet?columns=x,y` (columns of Parquet files), `s3://bucket/key`, `memory:1GiB`,
/// `hdf5:s3://bucket/f.h5:/group/name` and such (read-only: a file of a format in another store),
/// `tiered:///tiers.yaml?store=URL` (tiermap/tiers.hpp), `remote://host:port/name` (docs/cluster.md). Throws
/// StoreError, which names the URL and the remedy. `create_bytes` is the size of what is created. Thread-safe.
std::unique_ptr<Store> open_store(std::string_view url, OpenMode mode, std::uint64_t create_bytes = 0);

}  // namespace tiermap
