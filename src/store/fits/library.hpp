// cfitsio, loaded when the first fits: URL is opened: who opens none need not have it, and nothing is linked to it. It
// reads headers and nothing else, while a store is opened.
#pragma once

#include <fitsio.h>

#include <mutex>
#include <string>

namespace tiermap {

// What is called of it, by its long names, which are macros for the short ones that it exports.
#define TIERMAP_FITS_FUNCTIONS(function)                                                                               \
  function(fits_clear_errmsg) function(fits_close_file) function(fits_get_errstatus) function(fits_get_hduaddrll)      \
      function(fits_get_img_dim) function(fits_get_img_sizell) function(fits_get_img_type) function(fits_get_num_hdus) \
          function(fits_is_compressed_image) function(fits_movabs_hdu) function(fits_open_diskfile)                    \
              function(fits_read_card) function(fits_read_key)

struct FitsFunctions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): it is the member's name.
#define TIERMAP_FITS_MEMBER(name) decltype(&::name) name = nullptr;
  TIERMAP_FITS_FUNCTIONS(TIERMAP_FITS_MEMBER)
#undef TIERMAP_FITS_MEMBER
};

/// Held by whoever calls cfitsio, which has one list of errors for all: one thread at a time, and a thread once.
class FitsCall {
 public:
  /// Loads the library if it is not there yet. Throws StoreError that names `path`, which needs it, and the remedy.
  explicit FitsCall(const std::string& path);

  const FitsFunctions* operator->() const noexcept { return functions_; }

 private:
  std::unique_lock<std::mutex> lock_;
  const FitsFunctions* functions_ = nullptr;
};

}  // namespace tiermap
