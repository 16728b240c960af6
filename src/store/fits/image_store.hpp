// Images in FITS files as one store of this machine's numbers: what a page of it holds is read from the files that it
// spans, and converted on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/file_open.hpp"
#include "store/fits/image.hpp"
#include "store/shared_flush.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Image after image, of fixed size. Files are read by O_DIRECT where their file system lets, in whole blocks in which
/// the pixels begin anywhere. Thread-safe: but for flushes_ nothing changes after the constructor.
class FitsImageStore final : public Store {
 public:
  /// Images of equal axes, of files or, to be read, of files in stores, each converted to `target`. `stacked`: they
  /// have one dimension more than each of them. Throws StoreError: a file that cannot be opened; when writable, pixels
  /// that cannot be written, or a file twice.
  FitsImageStore(const std::vector<FitsImage>& images, PixelTarget target, bool stacked, bool writable,
                 std::string name, const FileOptions& options);

  std::uint64_t size_bytes() const override { return images_.size() * image_bytes_; }
  bool writable() const override { return writable_; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// After a failure every later flush() fails alike: the kernel has dropped what it could not write.
  int flush() override;
  std::uint32_t max_reads_in_flight() const override { return options_.max_reads_in_flight; }
  std::uint32_t max_writes_in_flight() const override { return options_.max_writes_in_flight; }
  std::optional<ElementLayout> element_layout() const override { return elements_; }
  std::string name() const override { return name_; }

 private:
  struct OpenImage {
    std::shared_ptr<Store> store;  ///< That the file lies in: then there is no `file`.
    OpenedFile file;
    PixelConversion conversion;
    std::uint64_t data_at = 0;
  };

  void refuse_same_files() const;
  /// Pixels of one image. They return 0 or a negative errno value.
  int read_pixels(const OpenImage& image, std::uint64_t first, std::uint64_t count, std::byte* pixels) const;
  int read_pixels_of_store(const OpenImage& image, std::uint64_t first, std::uint64_t count, std::byte* pixels) const;
  int write_pixels(const OpenImage& image, std::uint64_t first, std::uint64_t count, const std::byte* pixels) const;
  /// A part of one pixel, `skipped` bytes from its beginning.
  int read_part(const OpenImage& image, std::uint64_t pixel, std::uint64_t skipped, std::uint64_t bytes,
                std::byte* part) const;
  int write_part(const OpenImage& image, std::uint64_t pixel, std::uint64_t skipped, std::uint64_t bytes,
                 const std::byte* part) const;
  /// Calls `whole(image, first, count, done)` for runs of pixels and `part(image, pixel, skipped, bytes, done)` for
  /// what is none, until one fails. Returns how many bytes were done, or the error of the first one.
  template <typename Whole, typename Part>
  std::int64_t for_each_run(std::uint64_t bytes, std::uint64_t offset, Whole&& whole, Part&& part) const;

  const std::string name_;
  const bool writable_;
  const FileOptions options_;
  ElementLayout elements_;
  std::uint64_t image_bytes_ = 0;
  std::vector<OpenImage> images_;
  SharedFlush flushes_;
};

}  // namespace tiermap
