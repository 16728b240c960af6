// An HDF5 file that lies in a store, for libhdf5 to read: a driver of its virtual file layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "store/block_reader.hpp"
#include "store/hdf5/library.hpp"

namespace tiermap {

/// libhdf5 reads a few bytes at a time, here and there: they come from blocks of the store that are kept.
///
/// Everything here is for who holds an Hdf5Call. The store must never wait for one.
class Hdf5StoreFile {
 public:
  explicit Hdf5StoreFile(std::shared_ptr<Store> store);
  Hdf5StoreFile(const Hdf5StoreFile&) = delete;
  Hdf5StoreFile& operator=(const Hdf5StoreFile&) = delete;

  /// What is opened by this list of properties, under the store's name and no other, is read from here: this must
  /// stay where it is for as long.
  void use_for(const Hdf5Call& hdf5, hid_t access);

  const std::string& name() const noexcept { return name_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// 0, or a negative errno value that is remembered. Behind the end there are zeros, as in a file that libhdf5 opens.
  int read(void* buffer, std::size_t bytes, std::uint64_t offset) noexcept;
  bool has_error() const noexcept { return error_ != 0; }
  /// Why a read has failed since the last call: 0 or a negative errno value.
  int take_error() noexcept;

 private:
  BlockReader blocks_;
  const std::string name_;
  const std::uint64_t bytes_;
  int error_ = 0;
};

}  // namespace tiermap
