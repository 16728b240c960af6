// A file of HDF5, open once in this process however many stores are in it.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "store/file_open.hpp"
#include "store/hdf5/library.hpp"
#include "store/hdf5/store_file.hpp"

namespace tiermap {

/// libhdf5 locks files: any number of programs that read, or one that writes. This has the one or the other for as long
/// as it is there; for datasets that are written past libhdf5 alone, that of one that reads.
///
/// After a fork() the child reads what the parent reads, by the same descriptor, and leaves the lock to it; what the
/// parent may write the child does not touch, since each would have its own idea of the file.
///
/// Everything here, the destructor too, is for who holds an Hdf5Call.
class Hdf5File {
 public:
  /// A dataset that is open. The id changes when make_writable() opens the file again.
  struct Dataset {
    std::string name;
    std::size_t chunk_cache_bytes = 0;
    hid_t id = H5I_INVALID_HID;
  };

  /// For reading, if no store has it open for more. `opened` is the same file, and tells what it is. Throws StoreError.
  static std::shared_ptr<Hdf5File> open(const Hdf5Call& hdf5, const std::string& path, const OpenedFile& opened);
  /// One that lies in a store, for reading, to which nobody can hold a lock. Throws StoreError.
  static std::shared_ptr<Hdf5File> open_in(const Hdf5Call& hdf5, std::shared_ptr<Store> store);
  Hdf5File(const Hdf5Call& hdf5, std::string path, std::unique_ptr<Hdf5StoreFile> behind = nullptr);
  ~Hdf5File();
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  /// By which it was opened last, and can be opened again: a file that is renamed keeps its stores. Of one in a store
  /// that store's name.
  const std::string& path() const noexcept { return path_; }
  hid_t id() const noexcept { return id_; }

  /// Makes a file without datasets at a path where a file of no length is. Throws StoreError.
  static void make(const Hdf5Call& hdf5, const std::string& path);

  /// Opens it again if it is not open for writing. Throws StoreError, and then it is open for reading as before.
  void make_writable(const Hdf5Call& hdf5);

  /// Until close_dataset(). Throws StoreError.
  Dataset& open_dataset(const Hdf5Call& hdf5, const std::string& name, std::size_t chunk_cache_bytes);
  void close_dataset(const Hdf5Call& hdf5, const Dataset& dataset) noexcept;

  /// Writes out what libhdf5 has of it in memory. Returns 0 or a negative errno value.
  int write_out(const Hdf5Call& hdf5);
  /// Of a call that failed, before failed(): whether the store that the file lies in has failed, which says so itself.
  bool failed_behind() const noexcept;
  /// Of a call that failed: why, a negative errno value.
  int failed(const Hdf5Call& hdf5);
  /// Of one in a store: throws StoreError if that could not be read since the last call.
  void refuse_unread() const;
  /// Why something that was taken could not be written, for as long as the file is open: 0 or a negative errno value.
  /// Then its datasets have neither the old nor the new.
  int lost() const noexcept { return writable_ && inherited() ? -EBUSY : lost_; }
  void set_lost(int error) noexcept { lost_ = error; }

 private:
  bool inherited() const noexcept { return ::getpid() != owner_; }
  void refuse_inherited() const;
  void open_again(const Hdf5Call& hdf5, unsigned flags);
  static hid_t open_id(const Hdf5Call& hdf5, hid_t file, const Dataset& dataset) noexcept;

  const Hdf5Functions& functions_;
  std::string path_;
  const std::unique_ptr<Hdf5StoreFile> behind_;  ///< Nothing if it is a file.
  const pid_t owner_ = ::getpid();
  bool writable_ = false;
  int lost_ = 0;
  hid_t id_ = H5I_INVALID_HID;
  std::list<Dataset> datasets_;
};

}  // namespace tiermap
