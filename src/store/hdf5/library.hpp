// libhdf5, loaded when the first hdf5: URL is opened: who opens none need not have it, and nothing is linked to it.
#pragma once

#include <hdf5.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <string>

#include "store/file_open.hpp"

namespace tiermap {

// What is called of it, by HDF5's own names.
#define TIERMAP_HDF5_FUNCTIONS(function)                                                                               \
  function(H5Dclose) function(H5Dcreate2) function(H5Dget_create_plist) function(H5Dget_offset) function(H5Dget_space) \
      function(H5Dget_storage_size) function(H5Dget_type) function(H5Dopen2) function(H5Dread) function(H5Dwrite)      \
          function(H5Eget_auto2) function(H5Eset_auto2) function(H5Ewalk2) function(H5FDregister) function(H5Fclose)   \
              function(H5Fcreate) function(H5Fflush) function(H5Fget_name) function(H5Fopen) function(H5Gget_info)     \
                  function(H5Gget_objinfo) function(H5Idec_ref) function(H5Iget_type) function(H5Lget_info)            \
                      function(H5Lget_name_by_idx) function(H5Oopen) function(H5Pcreate) function(H5Pget_chunk)        \
                          function(H5Pget_driver_info) function(H5Pget_external) function(H5Pget_external_count)       \
                              function(H5Pget_filter2) function(H5Pget_layout) function(H5Pget_nfilters)               \
                                  function(H5Pset_alignment) function(H5Pset_alloc_time) function(H5Pset_chunk_cache)  \
                                      function(H5Pset_create_intermediate_group) function(H5Pset_driver)               \
                                          function(H5Pset_obj_track_times) function(H5Screate_simple)                  \
                                              function(H5Sget_simple_extent_dims) function(H5Sget_simple_extent_ndims) \
                                                  function(H5Sget_simple_extent_type) function(H5Sselect_hyperslab)    \
                                                      function(H5Tcopy) function(H5Tget_array_dims2) function(         \
                                                          H5Tget_array_ndims) function(H5Tget_class)                   \
                                                          function(H5Tget_ebias) function(H5Tget_fields) function(     \
                                                              H5Tget_member_name) function(H5Tget_member_type)         \
                                                              function(H5Tget_member_value) function(H5Tget_nmembers)  \
                                                                  function(H5Tget_offset) function(H5Tget_order)       \
                                                                      function(H5Tget_precision) function(H5Tget_sign) \
                                                                          function(H5Tget_size) function(H5Tget_super) \
                                                                              function(H5Tis_variable_str)             \
                                                                                  function(H5Zfilter_avail)            \
                                                                                      function(H5Zget_filter_info)     \
                                                                                          function(H5free_memory)      \
                                                                                              function(H5open)

/// A type of numbers by numpy's name, and by the name of the variable that has it there.
struct Hdf5Number {
  const char* name;
  const char* variable;
  std::uint64_t bytes;
};
inline constexpr Hdf5Number hdf5_numbers[] = {{"float32", "H5T_IEEE_F32LE_g", 4}, {"float64", "H5T_IEEE_F64LE_g", 8},
                                              {"int8", "H5T_STD_I8LE_g", 1},      {"int16", "H5T_STD_I16LE_g", 2},
                                              {"int32", "H5T_STD_I32LE_g", 4},    {"int64", "H5T_STD_I64LE_g", 8},
                                              {"uint8", "H5T_STD_U8LE_g", 1},     {"uint16", "H5T_STD_U16LE_g", 2},
                                              {"uint32", "H5T_STD_U32LE_g", 4},   {"uint64", "H5T_STD_U64LE_g", 8}};

struct Hdf5Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): it is the member's name.
#define TIERMAP_HDF5_MEMBER(name) decltype(&::name) name = nullptr;
  TIERMAP_HDF5_FUNCTIONS(TIERMAP_HDF5_MEMBER)
#undef TIERMAP_HDF5_MEMBER
  // Classes of property lists, and types of numbers: variables there.
  hid_t dataset_access = H5I_INVALID_HID;
  hid_t dataset_creation = H5I_INVALID_HID;
  hid_t file_access = H5I_INVALID_HID;
  hid_t link_creation = H5I_INVALID_HID;
  std::array<hid_t, std::size(hdf5_numbers)> numbers = {};  ///< In the order of hdf5_numbers.
};

/// Why a call failed.
struct Hdf5Failure {
  std::string text;           ///< The innermost cause, in one line.
  int error_number = 0;       ///< The system's if there was one, or EIO.
  bool lost_a_write = false;  ///< Of what earlier calls gave it to write something could not be written.
};

/// Loads the library. Throws StoreError that names `url` and the remedy. Thread-safe.
void load_hdf5(const std::string& url);

/// Held by whoever calls libhdf5, and handed on to functions that do: one thread at a time, since few builds of it take
/// more, and those let only one in. The calling thread's errors are not printed meanwhile. load_hdf5() comes first.
///
/// Nothing of the caller's may be read or written while it is held: that may be a page which only a store can bring,
/// and that store may wait for this.
class Hdf5Call {
 public:
  Hdf5Call() noexcept;
  ~Hdf5Call();
  Hdf5Call(const Hdf5Call&) = delete;
  Hdf5Call& operator=(const Hdf5Call&) = delete;

  const Hdf5Functions* operator->() const noexcept { return functions_; }
  /// Why the last call failed.
  Hdf5Failure failure() const;

 private:
  const std::lock_guard<std::mutex> lock_;
  const Hdf5Functions* const functions_;
  H5E_auto2_t printer_ = nullptr;
  void* printer_data_ = nullptr;
};

/// An object of libhdf5 for as long as the block that has it; negative if there is none.
class Hdf5Id {
 public:
  Hdf5Id(const Hdf5Call& hdf5, hid_t id) noexcept : hdf5_(hdf5), id_(id) {}
  ~Hdf5Id() {
    if (id_ >= 0) {
      hdf5_->H5Idec_ref(id_);
    }
  }
  Hdf5Id(const Hdf5Id&) = delete;
  Hdf5Id& operator=(const Hdf5Id&) = delete;

  hid_t get() const noexcept { return id_; }
  bool valid() const noexcept { return id_ >= 0; }

 private:
  const Hdf5Call& hdf5_;
  const hid_t id_;
};

}  // namespace tiermap
