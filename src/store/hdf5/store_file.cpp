#include "store/hdf5/store_file.hpp"

#if __has_include(<H5FDdevelop.h>)  // From 1.14 on.
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Where what describes a dataset lies together, one block has most of it.
constexpr std::size_t block_bytes = 1 << 20;
constexpr std::size_t most_blocks = 16;
constexpr haddr_t largest_address = 0x7fff'ffff'ffff'ffff;

/// What libhdf5 has of an open file: its own part comes first.
struct DriverFile {
  H5FD_t of_library;
  Hdf5StoreFile* file;
  haddr_t end;  ///< Of what libhdf5 takes for the file's content.
};

/// What a list of properties has, and libhdf5 copies.
struct DriverInformation {
  Hdf5StoreFile* file = nullptr;
};

const Hdf5Functions* functions = nullptr;  // As all of it under the lock of libhdf5.

DriverFile& driver_file(H5FD_t* file) {
  return *reinterpret_cast<DriverFile*>(file);
}
const DriverFile& driver_file(const H5FD_t* file) {
  return *reinterpret_cast<const DriverFile*>(file);
}

/// For reading alone. A link to another file asks for that one by the same list of properties: it is not here.
H5FD_t* open_driver_file(const char* name, unsigned flags, hid_t access, haddr_t) {
  const auto* const information = static_cast<const DriverInformation*>(functions->H5Pget_driver_info(access));
  constexpr unsigned to_change = 0x0001 | 0x0002 | 0x0010;  // Written, emptied, made.
  if (information == nullptr || (flags & to_change) != 0 || information->file->name() != name) {
    return nullptr;
  }
  auto* const opened = new (std::nothrow) DriverFile{};
  if (opened == nullptr) {
    return nullptr;
  }
  opened->file = information->file;
  return &opened->of_library;
}

herr_t close_driver_file(H5FD_t* file) {
  delete &driver_file(file);
  return 0;
}

int compare_driver_files(const H5FD_t* one, const H5FD_t* other) {
  const std::less<> before;
  const Hdf5StoreFile* const first = driver_file(one).file;
  const Hdf5StoreFile* const second = driver_file(other).file;
  return before(first, second) ? -1 : before(second, first) ? 1 : 0;
}

herr_t query_driver(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t end_of_content(const H5FD_t* file, H5FD_mem_t) {
  return driver_file(file).end;
}

herr_t set_end_of_content(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  driver_file(file).end = end;
  return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t) {
  return driver_file(file).file->bytes();
}

herr_t read_driver_file(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t bytes, void* buffer) {
  return driver_file(file).file->read(buffer, bytes, address) == 0 ? 0 : -1;
}

herr_t refuse_write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) {
  return -1;
}

H5FD_class_t driver_class() {
  H5FD_class_t made{};
#ifdef H5FD_CLASS_VERSION
  made.version = H5FD_CLASS_VERSION;
  made.value = static_cast<H5FD_class_value_t>(600);  // Of those that are free for who writes one.
#endif
  made.name = "tiermap";
  made.maxaddr = largest_address;
  made.fc_degree = H5F_CLOSE_WEAK;
  made.fapl_size = sizeof(DriverInformation);
  made.open = open_driver_file;
  made.close = close_driver_file;
  made.cmp = compare_driver_files;
  made.query = query_driver;
  made.get_eoa = end_of_content;
  made.set_eoa = set_end_of_content;
  made.get_eof = end_of_file;
  made.read = read_driver_file;
  made.write = refuse_write;
  return made;
}

hid_t driver(const Hdf5Call& hdf5) {
  static const H5FD_class_t made = driver_class();
  static const hid_t registered = hdf5->H5FDregister(&made);
  return registered;
}

}  // namespace

Hdf5StoreFile::Hdf5StoreFile(std::shared_ptr<Store> store)
    : blocks_(std::move(store), block_bytes, most_blocks),
      name_(blocks_.store().name()),
      bytes_(blocks_.store().size_bytes()) {}

void Hdf5StoreFile::use_for(const Hdf5Call& hdf5, hid_t access) {
  functions = hdf5.operator->();
  const DriverInformation information{this};
  if (hdf5->H5Pset_driver(access, driver(hdf5), &information) < 0) {
    throw StoreError(ENOTSUP, name_ + ": " TIERMAP_HDF5_LIBRARY " takes no driver (" + hdf5.failure().text +
                                  "): copy it to a file, or install version 1.10 or later");
  }
}

int Hdf5StoreFile::read(void* buffer, std::size_t bytes, std::uint64_t offset) noexcept {
  const std::size_t there = std::min<std::uint64_t>(bytes, bytes_ - std::min(offset, bytes_));
  std::memset(static_cast<char*>(buffer) + there, 0, bytes - there);
  int error = 0;
  try {
    error = there == 0 ? 0 : blocks_.read(buffer, there, offset);
  } catch (const std::bad_alloc&) {
    error = -ENOMEM;
  } catch (const std::exception&) {
    error = -EIO;
  }
  error_ = error == 0 ? error_ : error;
  return error;
}

int Hdf5StoreFile::take_error() noexcept {
  return std::exchange(error_, 0);
}

}  // namespace tiermap
