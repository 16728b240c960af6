// The cube of images where threads look at it: one pixel here and there. Two kinds, with the same members, so that one
// search is compiled for each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "command_line/memory_system.hpp"
#include "median/image_directory.hpp"

namespace tiermap {

/// Native floats in one range of addresses: a FitsImageStore, paged by tiermap or all in memory.
class FloatCube {
 public:
  FloatCube(MappedBytes& mapped, const CubeShape& shape, std::uint64_t page_size_bytes)
      : mapped_(mapped),
        pixels_(mapped.as_span<const float>()),
        image_pixels_(shape.image_pixels()),
        page_size_bytes_(page_size_bytes) {}

  /// One pixel, counted row after row, or no_value.
  float pixel(std::uint64_t image, std::uint64_t index) const noexcept {
    return pixels_[image * image_pixels_ + index];
  }

  std::uint64_t page_size_bytes() const noexcept { return page_size_bytes_; }
  /// In which page a pixel is. Pages of different images may have the same number only if they are the same.
  std::uint64_t page_of(std::uint64_t image, std::uint64_t index) const noexcept {
    return (image * image_pixels_ + index) * sizeof(float) / page_size_bytes_;
  }
  /// These pages, ascending, in which pixels of this image are, will be touched soon.
  void prefetch(std::uint64_t image, std::span<const std::uint64_t> pages) const;

 private:
  MappedBytes& mapped_;
  std::span<const float> pixels_;
  std::uint64_t image_pixels_;
  std::uint64_t page_size_bytes_;
};

/// The files as they are, each mapped by mmap(): a pixel is converted when somebody looks at it.
class RawCube {
 public:
  /// Throws StoreError if a file cannot be mapped.
  RawCube(const FitsDirectory& directory, Advice advice);
  ~RawCube();
  RawCube(const RawCube&) = delete;
  RawCube& operator=(const RawCube&) = delete;

  float pixel(std::uint64_t image, std::uint64_t index) const noexcept {
    const Image& from = images_[image];
    return decode_pixel(from.pixels + index * from.format.bytes(), from.format);
  }

  static constexpr std::uint64_t page_size_bytes() noexcept { return kernel_page; }
  std::uint64_t page_of(std::uint64_t image, std::uint64_t index) const noexcept {
    const Image& from = images_[image];
    return (from.data_at + index * from.format.bytes()) / kernel_page;
  }
  void prefetch(std::uint64_t image, std::span<const std::uint64_t> pages) const;

 private:
  static constexpr std::uint64_t kernel_page = 4096;
  struct Image {
    std::byte* file = nullptr;
    const std::byte* pixels = nullptr;
    std::uint64_t file_bytes = 0;
    std::uint64_t data_at = 0;
    PixelFormat format;
  };

  void map(const FitsImage& image, Advice advice);
  void unmap() noexcept;

  std::vector<Image> images_;
};

}  // namespace tiermap
