// What a FITS file says of one of its images, checked before a store is made of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/fits/file.hpp"
#include "store/fits/pixel_format.hpp"

namespace tiermap {

struct FitsImage {
  std::string path;
  std::shared_ptr<Store> store;     ///< That the file lies in, under the name of `path`; nothing if it is a file.
  int part = 0;                     ///< Of the file's HDUs, from 0.
  std::vector<std::uint64_t> axes;  ///< NAXIS1, of which the pixels are next to each other, comes first.
  PixelFormat format;
  std::uint64_t data_at = 0;  ///< Where in the file the pixels begin.

  std::uint64_t pixels() const noexcept;
  std::uint64_t data_bytes() const noexcept { return pixels() * format.bytes(); }
  /// "512 x 300", as FITS has it.
  std::string axes_text() const;
};

/// The image that `part` names: by its number from 0 on, by EXTNAME, or EXTNAME,EXTVER; the first one of the file if it
/// is empty. The file is gone to it. Throws StoreError with the remedy: for what is not there or is none, naming the
/// images that are there; for one that is compressed or cut off, or has no pixels or none of a value.
FitsImage find_fits_image(FitsFile& file, const std::string& part);

}  // namespace tiermap
