#include "vector/written_parts.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <mutex>

#include "config/size.hpp"
#include "platform/hold_over_forks.hpp"
#ifdef TIERMAP_FITS_LIBRARY
#include "store/fits/open.hpp"
#endif
#ifdef TIERMAP_HDF5_LIBRARY
#include "store/hdf5/open.hpp"
#endif
#include "store/matching_files.hpp"
#include "store/store_url.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

struct Part {
  const WrittenParts* owner = nullptr;
  std::string path;
  std::string name;  ///< Of a dataset that lies in pieces; empty where bytes of the file are meant.
  std::uint64_t begin = 0;
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
  dev_t device = 0;
  ino_t inode = 0;

  bool overlaps(const Part& other) const {
    return device == other.device && inode == other.inode && name == other.name && begin < other.end &&
           other.begin < end;
  }
};

constinit std::mutex parts_mutex;
/// So that a child does not find it locked by a thread that stayed with its parent.
[[maybe_unused]] const int held_over_forks = hold_over_forks<parts_mutex>();
/// Guarded by it, from its making on. Of vectors that are open for writing.
std::vector<Part>& all_parts() {
  static auto* const parts = new std::vector<Part>;  // Vectors may be closed after all destructors have run.
  return *parts;
}

std::vector<std::string> files_of(std::string_view encoded, const StoreUrl& url) {
  return has_wildcard(encoded) ? matching_files(encoded, url) : std::vector{percent_decode(encoded, url.text)};
}

void add_files(std::vector<Part>& parts, const std::vector<std::string>& paths, const Part& like) {
  for (const std::string& path : paths) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) == 0) {
      parts.push_back(like);
      parts.back().path = path;
      parts.back().device = status.st_dev;
      parts.back().inode = status.st_ino;
    }
  }
}

void add_concat(std::vector<Part>& parts, const StoreUrl& url) {
  for (const ConcatPiece& piece : parse_concat_pieces(url)) {
    Part part;
    part.begin = piece.offset;
    part.end = piece.has_bytes ? piece.offset + piece.bytes : part.end;
    add_files(parts, files_of(piece.encoded_path, url), part);
  }
}

/// A dataset may have several names in its file. Of one that the library has not given a place yet only the header
/// tells.
void add_dataset([[maybe_unused]] std::vector<Part>& parts, [[maybe_unused]] const StoreUrl& url) {
#ifdef TIERMAP_HDF5_LIBRARY
  const Hdf5Location location = locate_hdf5_dataset(url);
  const std::string file = parse_dataset_place(url).file;
  Part part;
  part.name = "dataset at " + std::to_string(location.header);
  add_files(parts, {file}, part);
  if (location.offset) {
    part.name.clear();
    part.begin = *location.offset;
    part.end = *location.offset + location.bytes;
    add_files(parts, {file}, part);
  }
#endif
}

/// An image has a number, may have a name, and the first one needs neither.
void add_images([[maybe_unused]] std::vector<Part>& parts, [[maybe_unused]] const StoreUrl& url) {
#ifdef TIERMAP_FITS_LIBRARY
  for (const FitsImage& image : find_fits_images(url)) {
    Part part;
    part.begin = image.data_at;
    part.end = image.data_at + image.data_bytes();
    add_files(parts, {image.path}, part);
  }
#endif
}

std::vector<Part> parts_of(const std::string& text) {
  const StoreUrl url = parse_store_url(text);
  std::vector<Part> parts;
  Part part;
  if (url.scheme.empty()) {
    add_files(parts, {url.path}, part);
  } else if (url.scheme == "tiered") {
    return parts_of(UrlOptions(url).text("store"));
  } else if (url.scheme == "npy" && names_store(url.path)) {  // npy:file:///array.npy
    return parts_of(text.substr(url.scheme.size() + 1));
  } else if (url.scheme == "concat") {
    add_concat(parts, url);
  } else if (url.scheme == "hdf5") {
    add_dataset(parts, url);
  } else if (url.scheme == "fits") {
    add_images(parts, url);
  } else if (url.scheme == "file" || url.scheme == "npy" || url.scheme == "sparse") {
    add_files(parts, files_of(url.path, url), part);
  }
  return parts;
}

}  // namespace

WrittenParts::WrittenParts(const std::string& url) {
  std::vector<Part> parts = parts_of(url);
  const std::lock_guard held(parts_mutex);
  for (Part& part : parts) {
    part.owner = this;
    const auto other = std::ranges::find_if(all_parts(), [&](const Part& one) { return one.overlaps(part); });
    if (other != all_parts().end()) {
      throw StoreError(EBUSY, "vector " + url + ": another one of this process writes to " + quote_value(part.path) +
                                  ": close that first, use it for both, or open this one read-only");
    }
  }
  all_parts().insert(all_parts().end(), parts.begin(), parts.end());
  claimed_ = true;
}

void WrittenParts::release() noexcept {
  if (claimed_) {
    const std::lock_guard held(parts_mutex);
    std::erase_if(all_parts(), [this](const Part& part) { return part.owner == this; });
    claimed_ = false;
  }
}

}  // namespace tiermap
