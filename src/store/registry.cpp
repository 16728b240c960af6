#include "store/registry.hpp"

#include <cerrno>

#include "store/concat_store.hpp"
#include "store/csv/open.hpp"
#include "store/file_store.hpp"
#ifdef TIERMAP_FITS_LIBRARY
#include "store/fits/open.hpp"
#endif
#ifdef TIERMAP_HDF5_LIBRARY
#include "store/hdf5/open.hpp"
#endif
#include "store/matching_files.hpp"
#include "store/memory_store.hpp"
#include "store/npy_header.hpp"
#include "store/part_store.hpp"
#ifdef TIERMAP_S3_LIBRARY
#include "store/s3/open.hpp"
#endif
#include "store/sparse_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

void refuse_creating(const StoreUrl& url, OpenMode mode) {
  if (mode == OpenMode::create) {
    throw StoreError(EINVAL,
                     "store '" + url.text + "': many files cannot be created as one: create each, or use sparse://");
  }
}

std::unique_ptr<Store> open_concat(const StoreUrl& url, OpenMode mode, const NewStore&) {
  UrlOptions options(url);
  const FileOptions file_options = options.file_options();
  options.finish();
  refuse_creating(url, mode);
  std::vector<ConcatStore::Part> parts;
  for (const ConcatPiece& piece : parse_concat_pieces(url)) {
    if (has_wildcard(piece.encoded_path)) {
      for (std::string& path : matching_files(piece.encoded_path, url)) {
        parts.push_back({std::move(path), piece.offset, piece.has_bytes, piece.bytes});
      }
    } else {
      parts.push_back({percent_decode(piece.encoded_path, url.text), piece.offset, piece.has_bytes, piece.bytes});
    }
  }
  return std::make_unique<ConcatStore>(std::move(parts), mode != OpenMode::read_only, url.text, file_options);
}

std::unique_ptr<Store> open_file_url(const StoreUrl& url, OpenMode mode, const NewStore& made) {
  UrlOptions options(url);
  const FileOptions file_options = options.file_options();
  options.finish();
  const std::string& path = local_path(url, "file:///path");
  if (!has_wildcard(path)) {
    return FileStore::open(percent_decode(path, url.text), mode, made.bytes(), file_options);
  }
  refuse_creating(url, mode);
  std::vector<ConcatStore::Part> parts;
  for (std::string& match : matching_files(path, url)) {
    parts.push_back({std::move(match), 0, false, 0});
  }
  return std::make_unique<ConcatStore>(std::move(parts), mode != OpenMode::read_only, url.text, file_options);
}

std::unique_ptr<Store> open_sparse(const StoreUrl& url, OpenMode mode, const NewStore& made) {
  UrlOptions options(url);
  SparseOptions sparse;
  sparse.segment_bytes = options.size("segment", 0);
  sparse.capacity_bytes = options.size("capacity", 0);
  sparse.file = options.file_options();
  options.finish();
  const std::string& path = local_path(url, "sparse:///directory");
  return SparseStore::open(percent_decode(path, url.text), mode, made.asked_bytes, sparse);
}

std::unique_ptr<Store> open_memory(const StoreUrl& url, OpenMode mode, const NewStore& made) {
  UrlOptions(url).finish();
  const std::uint64_t bytes =
      url.path.empty() ? made.bytes() : parse_url_size(percent_decode(url.path, url.text), "memory", url.text);
  if (bytes == 0 || !url.host.empty()) {
    throw StoreError(EINVAL, "store '" + url.text + "' has no size: write memory:1GiB");
  }
  return std::make_unique<MemoryStore>(bytes, mode != OpenMode::read_only);
}

NpyHeader read_npy_header(Store& file, const std::string& name) {
  const auto first = [&](std::uint64_t bytes) {
    std::string text(bytes, '\0');
    const std::int64_t got = file.read(text.data(), text.size(), 0);
    if (got < 0) {
      throw_file_error(static_cast<int>(-got), name, "cannot be read");
    }
    text.resize(static_cast<std::size_t>(got));
    return text;
  };
  return parse_npy_header(first(npy_header_bytes(first(npy_prefix_bytes), name)), name);
}

/// What npy:s3://bucket/array.npy has behind its first colon: a store of its own, with options of its own.
std::unique_ptr<Store> open_npy_in(std::string_view behind, const StoreUrl& url, OpenMode mode) {
  std::shared_ptr<Store> file =
      open_store(behind, mode == OpenMode::open_or_create ? OpenMode::read_write : mode, NewStore());
  NpyHeader header = read_npy_header(*file, file->name());
  if (header.data_offset + header.data_bytes > file->size_bytes()) {
    throw StoreError(EINVAL, "store '" + url.text + "' has " + std::to_string(file->size_bytes()) +
                                 " bytes, less than its header says: it was cut, copy or make it again");
  }
  return std::make_unique<PartStore>(std::move(file), header.data_offset, header.data_bytes, url.text,
                                     std::move(header.elements));
}

std::unique_ptr<Store> open_npy(const StoreUrl& url, OpenMode mode, const NewStore&) {
  if (mode == OpenMode::create) {
    throw StoreError(ENOTSUP, "store '" + url.text + "': .npy files are not made here: make one with numpy.save()");
  }
  const std::string_view behind = std::string_view(url.text).substr(url.scheme.size() + 1);
  if (names_store(url.path)) {
    return open_npy_in(behind, url, mode);
  }
  UrlOptions options(url);
  const FileOptions file_options = options.file_options();
  options.finish();
  const std::string path = percent_decode(local_path(url, "npy:///array.npy"), url.text);
  NpyHeader header = read_npy_header(*FileStore::open(path, OpenMode::read_only, 0, FileOptions()), path);
  const std::vector<ConcatStore::Part> parts{{path, header.data_offset, true, header.data_bytes}};
  auto store = std::make_unique<ConcatStore>(parts, mode != OpenMode::read_only, url.text, file_options);
  store->describe_elements(std::move(header.elements));
  return store;
}

#if !defined(TIERMAP_HDF5_LIBRARY) || !defined(TIERMAP_FITS_LIBRARY) || !defined(TIERMAP_S3_LIBRARY)
[[noreturn]] void refuse_format(const StoreUrl& url, const char* format, const char* package, const char* option) {
  throw StoreError(ENOTSUP, "store '" + url.text + "': this Tiermap was built without " + format + ": install " +
                                package + " and build it with -D" + option + "=ON");
}
#endif
#ifndef TIERMAP_HDF5_LIBRARY
std::unique_ptr<Store> open_hdf5(const StoreUrl& url, OpenMode, const NewStore&) {
  refuse_format(url, "HDF5", "libhdf5-dev", "TIERMAP_HDF5");
}
#endif
#ifndef TIERMAP_FITS_LIBRARY
std::unique_ptr<Store> open_fits(const StoreUrl& url, OpenMode, const NewStore&) {
  refuse_format(url, "FITS", "libcfitsio-dev", "TIERMAP_FITS");
}
#endif
#ifndef TIERMAP_S3_LIBRARY
std::unique_ptr<Store> open_s3(const StoreUrl& url, OpenMode, const NewStore&) {
  refuse_format(url, "S3", "libcurl4-openssl-dev", "TIERMAP_S3");
}
#endif

std::unique_ptr<Store> open_plain_path(const StoreUrl& url, OpenMode mode, const NewStore& made) {
  return FileStore::open(url.path, mode, made.bytes(), FileOptions());
}

}  // namespace

void StoreRegistry::add(std::string scheme, Opener opener) {
  openers_[std::move(scheme)] = std::move(opener);
}

std::unique_ptr<Store> StoreRegistry::open(std::string_view text, OpenMode mode, const NewStore& made) const {
  const StoreUrl url = parse_store_url(text);
  const auto found = openers_.find(url.scheme);
  if (found != openers_.end()) {
    return found->second(url, mode, made);
  }
  std::string list;
  for (const auto& [scheme, opener] : openers_) {
    list += scheme.empty() ? "" : (list.empty() ? "" : ", ") + scheme;
  }
  throw StoreError(ENOTSUP, "store '" + url.text + "': scheme '" + url.scheme + "' is unknown: choose among " + list +
                                ", or write ./" + url.text + " for a file of that name");
}

StoreRegistry plain_stores() {
  StoreRegistry registry;
  registry.add("", open_plain_path);
  registry.add("file", open_file_url);
  registry.add("sparse", open_sparse);
  registry.add("concat", open_concat);
  registry.add("memory", open_memory);
  registry.add("npy", open_npy);
  registry.add("hdf5", open_hdf5);
  registry.add("fits", open_fits);
  registry.add("csv", open_csv);
  registry.add("s3", open_s3);
  return registry;
}

}  // namespace tiermap
