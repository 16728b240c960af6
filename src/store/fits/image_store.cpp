#include "store/fits/image_store.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <utility>

#include "store/block_reader.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 4096;
/// What is read or written at once.
constexpr std::uint64_t piece_bytes = std::uint64_t{256} << 10U;
constexpr std::uint64_t largest_pixel_bytes = 8;

struct FreeBlocks {
  void operator()(std::byte* memory) const noexcept { ::operator delete[](memory, std::align_val_t{block_bytes}); }
};

/// What a thread has of a file as it is: so much it keeps for itself, outside the budget.
std::byte* raw_blocks() {
  thread_local const std::unique_ptr<std::byte[], FreeBlocks> memory(new (std::align_val_t{block_bytes})
                                                                         std::byte[piece_bytes + 2 * block_bytes]);
  return memory.get();
}

ElementLayout layout_of_images(const std::vector<FitsImage>& images, PixelType type, bool stacked) {
  ElementLayout layout;
  layout.bytes = type.bytes;
  layout.kind = type.kind;
  layout.type = type.name();
  layout.shape.assign(images.front().axes.rbegin(), images.front().axes.rend());
  if (stacked) {
    layout.shape.insert(layout.shape.begin(), images.size());
  }
  layout.row_bytes = type.bytes;
  for (std::size_t index = 1; index < layout.shape.size(); ++index) {
    layout.row_bytes *= layout.shape[index];
  }
  return layout;
}

}  // namespace

FitsImageStore::FitsImageStore(const std::vector<FitsImage>& images, PixelTarget target, bool stacked, bool writable,
                               std::string name, const FileOptions& options)
    : name_(std::move(name)),
      writable_(writable),
      options_(options),
      elements_(layout_of_images(images, target.type, stacked)),
      image_bytes_(images.front().pixels() * target.type.bytes) {
  for (const FitsImage& image : images) {
    images_.push_back({image.store,
                       image.store ? OpenedFile() : open_file(image.path, writable, options.direct),
                       {image.format, target},
                       image.data_at});
    if (writable && !images_.back().conversion.exact()) {
      throw StoreError(ENOTSUP, image.path + " has pixels that are calculated (BITPIX " +
                                    std::to_string(image.format.bits) + " as " + target.type.name() +
                                    "), which cannot be written back: open it read-only");
    }
  }
  if (writable) {
    refuse_same_files();
  }
}

void FitsImageStore::refuse_same_files() const {
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (const OpenImage& image : images_) {
    if (!seen.emplace(image.file.device, image.file.inode).second) {
      throw StoreError(EINVAL, name_ + ": two of the names are one file: open it read-only, or leave one out");
    }
  }
}

template <typename Whole, typename Part>
std::int64_t FitsImageStore::for_each_run(std::uint64_t bytes, std::uint64_t offset, Whole&& whole, Part&& part) const {
  const std::uint64_t wanted = std::min(bytes, size_bytes() - std::min(size_bytes(), offset));
  for (std::uint64_t done = 0; done < wanted;) {
    const OpenImage& image = images_[(offset + done) / image_bytes_];
    const std::uint64_t within = (offset + done) % image_bytes_;
    const std::uint64_t skipped = within % elements_.bytes;
    std::uint64_t run = std::min(wanted - done, image_bytes_ - within) / elements_.bytes * elements_.bytes;
    int error = 0;
    if (skipped == 0 && run != 0) {
      error = whole(image, within / elements_.bytes, run / elements_.bytes, done);
    } else {
      run = std::min(elements_.bytes - skipped, wanted - done);
      error = part(image, within / elements_.bytes, skipped, run, done);
    }
    if (error != 0) {
      return done != 0 ? static_cast<std::int64_t>(done) : error;
    }
    done += run;
  }
  return static_cast<std::int64_t>(wanted);
}

std::int64_t FitsImageStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  auto* const out = static_cast<std::byte*>(buffer);
  return for_each_run(
      bytes, offset,
      [&](const OpenImage& image, std::uint64_t first, std::uint64_t count, std::uint64_t done) {
        return read_pixels(image, first, count, out + done);
      },
      [&](const OpenImage& image, std::uint64_t pixel, std::uint64_t skipped, std::uint64_t run, std::uint64_t done) {
        return read_part(image, pixel, skipped, run, out + done);
      });
}

std::int64_t FitsImageStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (!writable_) {
    return -EROFS;
  }
  if (offset >= size_bytes() && bytes > 0) {
    return -ENOSPC;
  }
  const auto* const in = static_cast<const std::byte*>(buffer);
  return for_each_run(
      bytes, offset,
      [&](const OpenImage& image, std::uint64_t first, std::uint64_t count, std::uint64_t done) {
        return write_pixels(image, first, count, in + done);
      },
      [&](const OpenImage& image, std::uint64_t pixel, std::uint64_t skipped, std::uint64_t run, std::uint64_t done) {
        return write_part(image, pixel, skipped, run, in + done);
      });
}

int FitsImageStore::read_pixels(const OpenImage& image, std::uint64_t first, std::uint64_t count,
                                std::byte* pixels) const {
  if (image.store) {
    return read_pixels_of_store(image, first, count, pixels);
  }
  std::byte* const raw = raw_blocks();
  const std::uint64_t pixel_bytes = image.conversion.file_bytes();
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t some = std::min(count - done, piece_bytes / pixel_bytes);
    const std::uint64_t begin = image.data_at + (first + done) * pixel_bytes;
    const std::uint64_t first_block = begin / block_bytes * block_bytes;
    const std::uint64_t needed = begin - first_block + some * pixel_bytes;
    const std::uint64_t asked = (needed + block_bytes - 1) / block_bytes * block_bytes;
    std::uint64_t got = 0;
    while (got < needed) {
      const std::int64_t more = image.file.file.read(raw + got, asked - got, first_block + got);
      if (more <= 0) {
        return more < 0 ? static_cast<int>(more) : -EIO;  // It has been cut off since its header was read.
      }
      got += static_cast<std::uint64_t>(more);
    }
    image.conversion.decode(raw + (begin - first_block), some, pixels + done * elements_.bytes);
    done += some;
  }
  return 0;
}

/// In one request, as each may take long: to where the pixels will be, at the end of that, if they are no smaller than
/// in the file. No pixel then overwrites one that comes later.
int FitsImageStore::read_pixels_of_store(const OpenImage& image, std::uint64_t first, std::uint64_t count,
                                         std::byte* pixels) const {
  const std::uint64_t file_bytes = image.conversion.file_bytes();
  const bool in_place = file_bytes <= elements_.bytes;
  const std::uint64_t most = in_place ? count : piece_bytes / file_bytes;
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t some = std::min(count - done, most);
    std::byte* const to = pixels + done * elements_.bytes;
    std::byte* const raw = in_place ? to + some * (elements_.bytes - file_bytes) : raw_blocks();
    const int error = read_all_of(*image.store, raw, some * file_bytes, image.data_at + (first + done) * file_bytes);
    if (error != 0) {
      return error;
    }
    image.conversion.decode(raw, some, to);
    done += some;
  }
  return 0;
}

int FitsImageStore::write_pixels(const OpenImage& image, std::uint64_t first, std::uint64_t count,
                                 const std::byte* pixels) const {
  const std::uint64_t pixel_bytes = elements_.bytes;
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t some = std::min(count - done, piece_bytes / pixel_bytes);
    const std::uint64_t at = image.data_at + (first + done) * pixel_bytes;
    // As far into a block as in the file: direct output takes those that are whole.
    std::byte* const raw = raw_blocks() + at % block_bytes;
    image.conversion.encode(pixels + done * pixel_bytes, some, raw);
    for (std::uint64_t put = 0; put < some * pixel_bytes;) {
      const std::int64_t more = image.file.file.write(raw + put, some * pixel_bytes - put, at + put);
      if (more <= 0) {
        return more < 0 ? static_cast<int>(more) : -EIO;
      }
      put += static_cast<std::uint64_t>(more);
    }
    done += some;
  }
  return 0;
}

int FitsImageStore::read_part(const OpenImage& image, std::uint64_t pixel, std::uint64_t skipped, std::uint64_t bytes,
                              std::byte* part) const {
  std::array<std::byte, largest_pixel_bytes> whole{};
  const int error = read_pixels(image, pixel, 1, whole.data());
  std::memcpy(part, whole.data() + skipped, bytes);
  return error;
}

// Each byte of a pixel is one byte of the file: the others, which somebody else may be writing, are left alone.
int FitsImageStore::write_part(const OpenImage& image, std::uint64_t pixel, std::uint64_t skipped, std::uint64_t bytes,
                               const std::byte* part) const {
  std::array<std::byte, largest_pixel_bytes> whole{};
  std::array<std::byte, largest_pixel_bytes> raw{};
  std::memcpy(whole.data() + skipped, part, bytes);
  image.conversion.encode(whole.data(), 1, raw.data());
  const bool turned = std::endian::native == std::endian::little;
  const std::uint64_t begin = turned ? elements_.bytes - skipped - bytes : skipped;
  const std::int64_t put =
      image.file.file.write(raw.data() + begin, bytes, image.data_at + pixel * elements_.bytes + begin);
  return put < 0 ? static_cast<int>(put) : static_cast<std::uint64_t>(put) < bytes ? -EIO : 0;
}

int FitsImageStore::flush() {
  if (!writable_) {
    return 0;
  }
  return flushes_.run([this] {
    int result = 0;
    for (const OpenImage& image : images_) {
      const int one = synchronise(image.file.file.buffered(), false);
      result = result == 0 ? one : result;
    }
    return result;
  });
}

}  // namespace tiermap
