#include "median/cube.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Calls `work` with the first page of each run of pages, and how many it has.
template <typename Work>
void for_each_run(std::span<const std::uint64_t> pages, Work&& work) {
  for (std::size_t begin = 0; begin < pages.size();) {
    std::size_t end = begin + 1;
    while (end < pages.size() && pages[end] == pages[begin] + (end - begin)) {
      ++end;
    }
    work(pages[begin], end - begin);
    begin = end;
  }
}

}  // namespace

void FloatCube::prefetch(std::uint64_t, std::span<const std::uint64_t> pages) const {
  std::vector<ByteRange> ranges;
  for_each_run(pages, [&](std::uint64_t first, std::uint64_t count) {
    const std::uint64_t offset = first * page_size_bytes_;
    ranges.push_back({offset, std::min(count * page_size_bytes_, mapped_.size() - offset)});
  });
  mapped_.prefetch(ranges);
}

RawCube::RawCube(const FitsDirectory& directory, Advice advice) {
  try {
    for (const FitsImage& image : directory.images) {
      map(image, advice);
    }
  } catch (...) {
    unmap();
    throw;
  }
}

RawCube::~RawCube() {
  unmap();
}

void RawCube::map(const FitsImage& image, Advice advice) {
  const int descriptor = ::open(image.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    throw StoreError(errno, fmt::format("{} cannot be opened: {}", image.path, std::generic_category().message(errno)));
  }
  const std::uint64_t bytes = image.data_at + image.data_bytes();
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  const int number = errno;
  ::close(descriptor);
  if (memory == MAP_FAILED) {
    throw StoreError(number, fmt::format("{} cannot be mapped: {}: choose --system tiermap", image.path,
                                         std::generic_category().message(number)));
  }
  auto* const file = static_cast<std::byte*>(memory);
  images_.push_back({file, file + image.data_at, bytes, image.data_at, image.format});
  if (advice != Advice::normal) {
    ::madvise(memory, bytes, advice == Advice::random ? MADV_RANDOM : MADV_SEQUENTIAL);
  }
}

void RawCube::unmap() noexcept {
  for (const Image& image : images_) {
    ::munmap(image.file, image.file_bytes);
  }
  images_.clear();
}

void RawCube::prefetch(std::uint64_t image, std::span<const std::uint64_t> pages) const {
  for_each_run(pages, [&](std::uint64_t first, std::uint64_t count) {
    ::madvise(images_[image].file + first * kernel_page, count * kernel_page, MADV_WILLNEED);
  });
}

}  // namespace tiermap
