#include "platform/present_pages.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string>

#include "platform/own_descriptor.hpp"
#include "platform/page_sizes.hpp"
#include "platform/userfaultfd_abi.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

// Bits of a page's categories in PAGEMAP_SCAN.
constexpr std::uint64_t scan_of_file = std::uint64_t{1} << 2;
constexpr std::uint64_t scan_present = std::uint64_t{1} << 3;
// Bits of a word of pagemap.
constexpr std::uint64_t word_present = std::uint64_t{1} << 63;
constexpr std::uint64_t word_of_file = std::uint64_t{1} << 61;

void append(std::vector<PageRun>& runs, std::size_t first, std::uint64_t offset, std::uint64_t bytes) {
  if (runs.size() > first && runs.back().offset + runs.back().bytes == offset) {
    runs.back().bytes += bytes;
  } else {
    runs.push_back({offset, bytes});
  }
}

}  // namespace

PresentPages::PresentPages(bool may_scan)
    : file_descriptor_(above_standard_streams(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC))) {
  if (file_descriptor_ < 0) {
    const int error = errno;
    throw PlatformError(
        error, std::string("cannot open /proc/self/pagemap, by which fault mode kernel keeps its budget: ") +
                   (error == EMFILE || error == ENFILE ? "raise the limit of open files (ulimit -n)" : "mount /proc"));
  }
  page_region found{};
  pm_scan_arg probe{};
  probe.size = sizeof probe;
  probe.vec = reinterpret_cast<std::uint64_t>(&found);
  probe.vec_len = 1;
  probe.category_mask = scan_present;
  probe.return_mask = scan_present;
  can_scan_ = may_scan && ::ioctl(file_descriptor_, PAGEMAP_SCAN, &probe) >= 0;
}

PresentPages::~PresentPages() {
  ::close(file_descriptor_);
}

std::uint64_t PresentPages::find(const std::byte* memory, std::uint64_t bytes, std::uint64_t most_bytes,
                                 bool written_too, std::vector<PageRun>& runs) const {
  return can_scan_ ? scan(memory, bytes, most_bytes, written_too, runs)
                   : read_words(memory, bytes, most_bytes, written_too, runs);
}

std::uint64_t PresentPages::scan(const std::byte* memory, std::uint64_t bytes, std::uint64_t most_bytes,
                                 bool written_too, std::vector<PageRun>& runs) const {
  const auto base = reinterpret_cast<std::uint64_t>(memory);
  const std::size_t first = runs.size();
  std::uint64_t position = 0;
  std::uint64_t found = 0;
  while (position < bytes && found < most_bytes) {
    std::array<page_region, 128> regions;
    pm_scan_arg request{};
    request.size = sizeof request;
    request.start = base + position;
    request.end = base + bytes;
    request.vec = reinterpret_cast<std::uint64_t>(regions.data());
    request.vec_len = regions.size();
    request.max_pages = (most_bytes - found + kernel_page_bytes - 1) / kernel_page_bytes;
    request.category_mask = scan_present | (written_too ? 0 : scan_of_file);
    request.return_mask = scan_present;
    const int filled = ::ioctl(file_descriptor_, PAGEMAP_SCAN, &request);
    if (filled < 0) {
      return position;
    }
    for (std::size_t index = 0; index < static_cast<std::size_t>(filled); ++index) {
      const page_region& region = regions[index];
      append(runs, first, region.start - base, region.end - region.start);
      found += region.end - region.start;
    }
    position = std::max<std::uint64_t>(request.walk_end - base, position + kernel_page_bytes);
  }
  return std::min(position, bytes);
}

std::uint64_t PresentPages::read_words(const std::byte* memory, std::uint64_t bytes, std::uint64_t most_bytes,
                                       bool written_too, std::vector<PageRun>& runs) const {
  const std::size_t first = runs.size();
  const std::uint64_t wanted = word_present | (written_too ? 0 : word_of_file);
  std::array<std::uint64_t, 512> words;
  std::uint64_t found = 0;
  for (std::uint64_t position = 0; position < bytes;) {
    const std::size_t count = std::min<std::size_t>(words.size(), (bytes - position) / kernel_page_bytes);
    const auto place =
        static_cast<off_t>((reinterpret_cast<std::uint64_t>(memory) + position) / kernel_page_bytes * sizeof words[0]);
    const ssize_t got = ::pread(file_descriptor_, words.data(), count * sizeof words[0], place);
    if (got <= 0) {
      return position;
    }
    const std::size_t read = static_cast<std::size_t>(got) / sizeof words[0];
    for (std::size_t index = 0; index < read; ++index, position += kernel_page_bytes) {
      if (found >= most_bytes) {
        return position;
      }
      if ((words[index] & wanted) == wanted) {
        append(runs, first, position, kernel_page_bytes);
        found += kernel_page_bytes;
      }
    }
  }
  return bytes;
}

std::uint64_t PresentPages::count(const std::byte* memory, std::uint64_t bytes, bool written_too) const {
  std::vector<PageRun> runs;
  std::uint64_t total = 0;
  constexpr std::uint64_t piece = std::uint64_t{1} << 30;
  for (std::uint64_t position = 0; position < bytes; position += piece) {
    runs.clear();
    find(memory + position, std::min(piece, bytes - position), piece, written_too, runs);
    for (const PageRun& run : runs) {
      total += run.bytes;
    }
  }
  return total;
}

std::uint64_t process_file_bytes() noexcept {
  const int descriptor = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return 0;
  }
  std::array<char, 128> text{};
  const ssize_t got = ::read(descriptor, text.data(), text.size() - 1);
  ::close(descriptor);
  unsigned long size = 0;
  unsigned long resident = 0;
  unsigned long shared = 0;
  if (got <= 0 || std::sscanf(text.data(), "%lu %lu %lu", &size, &resident, &shared) != 3) {
    return 0;
  }
  return shared * kernel_page_bytes;
}

}  // namespace tiermap
