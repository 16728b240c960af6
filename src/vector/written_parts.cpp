#include "vector/written_parts.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <mutex>

#include "config/size.hpp"
#include "store/matching_files.hpp"
#include "store/store_url.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

struct Part {
  const WrittenParts* owner = nullptr;
  std::string path;
  std::string name;  ///< Of a dataset or an image; empty where the file is one thing.
  std::uint64_t begin = 0;
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
  dev_t device = 0;
  ino_t inode = 0;

  bool overlaps(const Part& other) const {
    return device == other.device && inode == other.inode && name == other.name && begin < other.end &&
           other.begin < end;
  }
};

std::mutex parts_mutex;
/// Guarded by it. Of vectors that are open for writing.
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

/// HDF5 takes "/a", "//a/" and "/./a" for one name.
std::string plain_name(const std::string& dataset) {
  std::string plain;
  for (std::size_t begin = 0; begin < dataset.size();) {
    const std::size_t end = std::min(dataset.find('/', begin), dataset.size());
    const std::string piece = dataset.substr(begin, end - begin);
    plain += piece.empty() || piece == "." ? "" : "/" + piece;
    begin = end + 1;
  }
  return plain;
}

void add_concat(std::vector<Part>& parts, const StoreUrl& url) {
  for (const ConcatPiece& piece : parse_concat_pieces(url)) {
    Part part;
    part.begin = piece.offset;
    part.end = piece.has_bytes ? piece.offset + piece.bytes : part.end;
    add_files(parts, files_of(piece.encoded_path, url), part);
  }
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
    const DatasetPlace place = parse_dataset_place(url);
    part.name = plain_name(place.dataset);
    add_files(parts, {place.file}, part);
  } else if (url.scheme == "fits") {
    const FilePart place = split_at_colon(url, "fits:///directory/image.fits");
    part.name = place.part;
    add_files(parts, files_of(place.file, url), part);
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
                                  (part.name.empty() ? "" : ":" + part.name) +
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
