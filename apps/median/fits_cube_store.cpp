#include "median/fits_cube_store.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "command_line/backing.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 4096;
/// What is read at once. A thread that reads keeps so much for itself, outside the budget.
constexpr std::uint64_t piece_bytes = std::uint64_t{256} << 10U;

/// Each file takes two descriptors, and there may be thousands.
void allow_many_open_files() {
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

}  // namespace

FitsCubeStore::FitsCubeStore(const FitsDirectory& directory)
    : name_("the images in " + directory.path), shape_(directory.shape) {
  allow_many_open_files();
  for (const FitsImage& image : directory.images) {
    // A name that begins with a slash is no URL, whatever else is in it.
    const std::string path = std::filesystem::absolute(image.path).string();
    images_.push_back({open_store(path, OpenMode::read_only), image.format, image.data_at});
  }
}

std::int64_t FitsCubeStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t wanted = std::min<std::uint64_t>(bytes, size_bytes() - std::min(size_bytes(), offset));
  auto* const out = static_cast<std::byte*>(buffer);
  for (std::uint64_t done = 0; done < wanted;) {
    const std::uint64_t pixel = (offset + done) / sizeof(float);
    const std::uint64_t image = pixel / shape_.image_pixels();
    const std::uint64_t first = pixel % shape_.image_pixels();
    const std::uint64_t skipped = (offset + done) % sizeof(float);
    const std::uint64_t whole = std::min((wanted - done) / sizeof(float), shape_.image_pixels() - first);
    if (skipped == 0 && whole != 0) {
      if (const int error = read_pixels(images_[image], first, whole, out + done); error != 0) {
        return error;
      }
      done += whole * sizeof(float);
      continue;
    }
    // Whoever asks for a part of a pixel gets it.
    std::array<std::byte, sizeof(float)> one{};
    if (const int error = read_pixels(images_[image], first, 1, one.data()); error != 0) {
      return error;
    }
    const std::uint64_t part = std::min(sizeof(float) - skipped, wanted - done);
    std::memcpy(out + done, one.data() + skipped, part);
    done += part;
  }
  return static_cast<std::int64_t>(wanted);
}

int FitsCubeStore::read_pixels(const Image& image, std::uint64_t first, std::uint64_t count, std::byte* pixels) {
  // Whole blocks, in which the pixels begin and end anywhere: that is what direct input takes.
  thread_local AlignedBuffer raw(piece_bytes + block_bytes);
  const std::uint64_t pixel_bytes = image.format.bytes();
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t some = std::min(count - done, piece_bytes / pixel_bytes);
    const std::uint64_t begin = image.data_at + (first + done) * pixel_bytes;
    const std::uint64_t first_block = begin / block_bytes * block_bytes;
    const std::uint64_t needed = begin - first_block + some * pixel_bytes;
    const std::uint64_t asked = (needed + block_bytes - 1) / block_bytes * block_bytes;
    std::uint64_t got = 0;
    while (got < needed) {
      const std::int64_t more = image.file->read(raw.data() + got, asked - got, first_block + got);
      if (more <= 0) {
        return more < 0 ? static_cast<int>(more) : -EIO;  // It has been cut off since its header was read.
      }
      got += static_cast<std::uint64_t>(more);
    }
    decode_pixels(raw.data() + (begin - first_block), some, image.format, pixels + done * sizeof(float));
    done += some;
  }
  return 0;
}

}  // namespace tiermap
