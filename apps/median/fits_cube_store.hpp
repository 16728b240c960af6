// Images in FITS files as one store of native floats: what a page of it holds is read from the files that it spans, and
// converted on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "median/fits_image.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Image after image, row after row. For reading only. The files are read by O_DIRECT where their file system lets,
/// because the pages of the region are all the memory that they should take.
class FitsCubeStore final : public Store {
 public:
  /// Throws StoreError if a file cannot be opened.
  explicit FitsCubeStore(const FitsDirectory& directory);

  std::uint64_t size_bytes() const override { return shape_.bytes(); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::string name() const override { return name_; }

 private:
  struct Image {
    std::shared_ptr<Store> file;
    PixelFormat format;
    std::uint64_t data_at = 0;
  };

  /// Pixels of one image. Returns 0 or a negative errno value.
  static int read_pixels(const Image& image, std::uint64_t first, std::uint64_t count, std::byte* pixels);

  std::string name_;
  CubeShape shape_;
  std::vector<Image> images_;
};

}  // namespace tiermap
