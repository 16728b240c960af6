#include "store/hdf5/file.hpp"

#include <cerrno>
#include <map>
#include <utility>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

// HDF5's own names for these call a library that is linked.
constexpr unsigned to_read = 0x0000;
constexpr unsigned to_write = 0x0001;
constexpr unsigned to_make_anew = 0x0002;

/// Of datasets that are made, those of a MiB and more begin where pages can go past the kernel's page cache.
hid_t file_access(const Hdf5Call& hdf5) {
  constexpr hsize_t least_bytes = 1 << 20;
  constexpr hsize_t alignment = 4096;
  const hid_t access = hdf5->H5Pcreate(hdf5->file_access);
  hdf5->H5Pset_alignment(access, least_bytes, alignment);
  return access;
}

/// What libhdf5 says of a file, and what to do about it.
struct FileTrouble {
  std::string_view said;
  int error_number;
  std::string_view means;
};

constexpr FileTrouble file_troubles[] = {
    {"unable to lock file, errno = 11", EBUSY,
     "another program has it open: close it there, or set HDF5_USE_FILE_LOCKING=FALSE if it only reads"},
    {"unable to lock file", ENOLCK,
     "its file system has no locks: set HDF5_USE_FILE_LOCKING=FALSE, and let no other program write it"},
    {"consistency flags", EBUSY,
     "a program is writing it, or has ended without closing it: if none is, clear the mark by h5clear -s"},
    {"truncated file", EINVAL, "it is shorter than it says, since it was cut or not closed: copy or make it again"},
    {"already open", EBUSY, "this process has it open for reading: close that first, or open it for writing there"},
};

[[noreturn]] void refuse_file(const std::string& path, const Hdf5Failure& failure) {
  for (const FileTrouble& trouble : file_troubles) {
    if (failure.text.find(trouble.said) != std::string::npos) {
      throw StoreError(trouble.error_number, path + " cannot be opened: " + std::string(trouble.means));
    }
  }
  throw StoreError(EINVAL, path + " is no HDF5 file that libhdf5 can open (" + failure.text +
                               "): check it by h5ls, or open it as file:");
}

using FileIdentity = std::pair<std::uint64_t, std::uint64_t>;

/// For who holds an Hdf5Call.
std::map<FileIdentity, std::weak_ptr<Hdf5File>>& open_files() {
  static auto* const files =
      new std::map<FileIdentity, std::weak_ptr<Hdf5File>>;  // For stores that end with the program.
  return *files;
}

}  // namespace

std::shared_ptr<Hdf5File> Hdf5File::open(const Hdf5Call& hdf5, const std::string& path, const OpenedFile& opened) {
  std::erase_if(open_files(), [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Hdf5File>& known = open_files()[{opened.device, opened.inode}];
  std::shared_ptr<Hdf5File> file = known.lock();
  if (file == nullptr) {
    file = std::make_shared<Hdf5File>(hdf5, path);
    known = file;
    return file;
  }
  file->path_ = path;  // What it was called before may be another file's name by now.
  if (file->writable_) {
    file->refuse_inherited();
  } else if (file->id_ < 0) {  // Another program took it while it was opened again.
    file->open_again(hdf5, to_read);
  }
  return file;
}

std::shared_ptr<Hdf5File> Hdf5File::open_in(const Hdf5Call& hdf5, std::shared_ptr<Store> store) {
  auto behind = std::make_unique<Hdf5StoreFile>(std::move(store));
  std::string name = behind->name();
  return std::make_shared<Hdf5File>(hdf5, std::move(name), std::move(behind));
}

void Hdf5File::make(const Hdf5Call& hdf5, const std::string& path) {
  const Hdf5Id access(hdf5, file_access(hdf5));
  const hid_t file = hdf5->H5Fcreate(path.c_str(), to_make_anew, H5P_DEFAULT, access.get());
  if (file < 0 || hdf5->H5Fclose(file) < 0) {
    const Hdf5Failure failure = hdf5.failure();
    throw StoreError(failure.error_number,
                     path + " cannot be made an HDF5 file (" + failure.text + "): free some space, or name another");
  }
}

Hdf5File::Hdf5File(const Hdf5Call& hdf5, std::string path, std::unique_ptr<Hdf5StoreFile> behind)
    : functions_(*hdf5.operator->()), path_(std::move(path)), behind_(std::move(behind)) {
  open_again(hdf5, to_read);
}

Hdf5File::~Hdf5File() {
  if (!inherited()) {
    functions_.H5Fclose(id_);
  }
}

void Hdf5File::refuse_inherited() const {
  if (inherited()) {
    throw StoreError(EBUSY, path_ +
                                " is open in the process that this one was forked from: let only one of them write, "
                                "and open it after fork()");
  }
}

void Hdf5File::open_again(const Hdf5Call& hdf5, unsigned flags) {
  const Hdf5Id access(hdf5, file_access(hdf5));
  if (behind_ != nullptr) {
    behind_->use_for(hdf5, access.get());
  }
  id_ = hdf5->H5Fopen(path_.c_str(), flags, access.get());
  if (id_ < 0) {
    const Hdf5Failure failure = hdf5.failure();
    refuse_unread();
    refuse_file(path_, failure);
  }
  for (Dataset& dataset : datasets_) {
    dataset.id = open_id(hdf5, id_, dataset);
  }
}

void Hdf5File::make_writable(const Hdf5Call& hdf5) {
  if (writable_) {
    return;
  }
  refuse_inherited();
  for (Dataset& dataset : datasets_) {
    hdf5->H5Dclose(std::exchange(dataset.id, H5I_INVALID_HID));
  }
  hdf5->H5Fclose(id_);
  try {
    open_again(hdf5, to_write);
    writable_ = true;
  } catch (...) {
    open_again(hdf5, to_read);
    throw;
  }
}

hid_t Hdf5File::open_id(const Hdf5Call& hdf5, hid_t file, const Dataset& dataset) noexcept {
  const Hdf5Id access(hdf5, hdf5->H5Pcreate(hdf5->dataset_access));
  // A table of slots by the chunk's number: two that share one push each other out. Those least used leave first.
  constexpr std::size_t slots = 12'289;
  hdf5->H5Pset_chunk_cache(access.get(), slots, dataset.chunk_cache_bytes, 0);
  return hdf5->H5Dopen2(file, dataset.name.c_str(), access.get());
}

Hdf5File::Dataset& Hdf5File::open_dataset(const Hdf5Call& hdf5, const std::string& name,
                                          std::size_t chunk_cache_bytes) {
  Dataset dataset{name, chunk_cache_bytes, H5I_INVALID_HID};
  dataset.id = open_id(hdf5, id_, dataset);
  if (dataset.id < 0) {
    throw StoreError(EINVAL, path_ + ": dataset " + name + " cannot be opened (" + hdf5.failure().text +
                                 "): check the file by h5ls");
  }
  return datasets_.emplace_back(std::move(dataset));
}

void Hdf5File::close_dataset(const Hdf5Call& hdf5, const Dataset& dataset) noexcept {
  if (!inherited()) {
    hdf5->H5Dclose(dataset.id);
  }
  datasets_.remove_if([&](const Dataset& other) { return &other == &dataset; });
}

int Hdf5File::write_out(const Hdf5Call& hdf5) {
  if (lost_ == 0 && hdf5->H5Fflush(id_, H5F_SCOPE_LOCAL) < 0) {
    lost_ = -hdf5.failure().error_number;
  }
  return lost_;
}

void Hdf5File::refuse_unread() const {
  if (const int error = behind_ == nullptr ? 0 : behind_->take_error(); error != 0) {
    throw_file_error(-error, path_, "cannot be read");
  }
}

bool Hdf5File::failed_behind() const noexcept {
  return behind_ != nullptr && behind_->has_error();
}

int Hdf5File::failed(const Hdf5Call& hdf5) {
  const Hdf5Failure failure = hdf5.failure();
  if (const int error = behind_ == nullptr ? 0 : behind_->take_error(); error != 0) {
    return error;
  }
  if (writable_ && failure.lost_a_write) {
    lost_ = -failure.error_number;
  }
  return -failure.error_number;
}

}  // namespace tiermap
