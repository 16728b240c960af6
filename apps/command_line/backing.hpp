// The store an application works on: opened, or made and removed again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "command_line/interruption.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// A store by URL. One that was made here is removed when this goes, or the process is interrupted, unless keep() was
/// called; a data set of memory servers is then gone however the process ends.
class Backing {
 public:
  /// Opens what exists. Throws StoreError.
  static Backing open(const std::string& url, bool writable);
  /// Makes a store of `bytes` bytes. Throws StoreError if it exists, OptionError if the disk has not the room.
  static Backing create(const std::string& url, std::uint64_t bytes);
  /// As create(), but what is one file or directory has ".partial" behind its name until finish().
  /// Throws OptionError if what is one file has a folder's name.
  static Backing create_unfinished(const std::string& url, std::uint64_t bytes);
  /// A store that a program has made itself; it has no URL but its name.
  static Backing around(std::shared_ptr<Store> store);

  Backing(Backing&& other) noexcept;
  Backing& operator=(Backing&& other) noexcept;
  ~Backing();

  const std::string& url() const noexcept { return url_; }
  std::shared_ptr<Store> store() const noexcept { return store_; }
  std::uint64_t size_bytes() const { return store_->size_bytes(); }
  /// Throws OptionError of one that was made with another size than that of `whose`: some URLs have one in them.
  void require_size(std::uint64_t bytes, std::string_view whose) const;
  /// The file's path if the store is one plain file, else empty.
  const std::string& plain_path() const noexcept { return plain_path_; }

  /// The path that finish() will give it; empty if it has it.
  const std::string& final_path() const noexcept { return final_path_; }

  /// Does not remove it after all. Throws StoreError if not all memory servers of a data set can be told so.
  void keep();
  /// Of create_unfinished(): gives it its name, and opens it anew. Throws StoreError if something has that name by now.
  void finish();
  /// Makes it durable and asks the kernel to forget its pages, so that the next reader starts cold. Plain files only;
  /// other stores are only flushed.
  void make_cold();
  /// Closes a store on disk and opens it again, for reading only; what is not on disk would be gone, and stays open.
  /// Nobody else may hold it: a sparse store that is open for writing has no reader. Throws StoreError.
  void reopen_read_only();

 private:
  Backing(std::string url, std::shared_ptr<Store> store);
  void remove() noexcept;
  void forget() noexcept;

  std::string url_;
  std::string plain_path_;
  std::string made_path_;   ///< What to remove: empty if it was there before or is to stay.
  std::string final_path_;  ///< What finish() calls it; empty if it has its name.
  std::string final_url_;
  bool is_unkept_ = false;  ///< A data set that is gone with the process.
  std::shared_ptr<Store> store_;
};

/// Whether something is at the URL already; plain files and sparse directories only, false for all else. Throws
/// OptionError for a link that leads nowhere: what is made under another name could not be given its name.
bool backing_exists(const std::string& url);

/// Throws OptionError if something is at `path`, where only this program makes files beside those that it was told to
/// make: it is of a run that was killed, or goes on.
void refuse_left_behind(const std::string& path);

/// Throws OptionError if the disk on which `path` would be made has not room for so many bytes.
void check_room_for(const std::string& path, std::uint64_t bytes);

/// Where on disk the store of a URL is; empty if it is not one file or directory, or no URL at all: opening will say.
std::string path_of_store(const std::string& url);

/// Whether it is a path and no URL.
bool is_plain_path(const std::string& url);

/// Whether a store of this URL would be one file. Throws StoreError for what is no URL.
bool names_one_file(const std::string& url);

/// A path for a scratch file: $TMPDIR or /var/tmp, the program's name, the process, `what`. Throws OptionError if
/// TMPDIR names no directory.
std::string scratch_path(const std::string& program, const std::string& what);

/// The whole of [offset, offset + bytes), or throws StoreError.
void read_fully(Store& store, void* buffer, std::uint64_t bytes, std::uint64_t offset);
void write_fully(Store& store, const void* buffer, std::uint64_t bytes, std::uint64_t offset);

/// Memory for direct I/O: aligned to a page, freed by itself.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::uint64_t bytes);
  std::byte* data() noexcept { return memory_.get(); }
  template <typename T>
  std::span<T> as_span() noexcept {
    return {reinterpret_cast<T*>(memory_.get()), bytes_ / sizeof(T)};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::uint64_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace tiermap
