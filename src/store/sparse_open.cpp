// How a sparse store comes to be, is opened again, and is put right after a crash.
#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "store/sparse_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t default_segment_bytes = 256ULL << 20;

std::uint64_t segments_of(std::uint64_t capacity, std::uint64_t segment) {
  return capacity / segment + (capacity % segment != 0 ? 1 : 0);
}

std::size_t table_entries() {
  return static_cast<std::size_t>(open_files_limit());
}

/// Every segment stays open while the store is, so the capacity is bounded by the limit of open files. Of a store that
/// is there the segments are as they are.
void require_open_files(const std::string& path, std::uint64_t capacity, std::uint64_t segment, bool is_new) {
  const std::uint64_t segments = segments_of(capacity, segment);
  if (allow_open_files(segments)) {
    return;
  }
  const auto needed = [capacity](std::uint64_t size) { return segments_of(capacity, size) + spare_descriptors; };
  std::uint64_t enough = segment;
  while (needed(enough) > open_files_limit() && enough < largest_sparse_bytes / 2) {
    enough *= 2;
  }
  const bool helps = is_new && needed(enough) <= open_files_limit();
  throw StoreError(EMFILE, "sparse store " + path + ": " + std::to_string(segments) + " segments of " +
                               std::to_string(segment) + " bytes, and " + std::to_string(spare_descriptors) +
                               " files for the rest of the program, are more than the limit of " +
                               std::to_string(open_files_limit()) + " open files: " +
                               (helps ? "choose segments of " + std::to_string(enough) + " bytes or " : "") +
                               "raise the limit (ulimit -Hn)");
}

SparseMetadata metadata_for_new(const std::string& path, std::optional<std::uint64_t> create_bytes,
                                const SparseOptions& options) {
  const std::string store = "sparse store " + path;
  SparseMetadata metadata;
  metadata.segment_bytes = options.segment_bytes == 0 ? default_segment_bytes : options.segment_bytes;
  metadata.capacity_bytes = options.capacity_bytes == 0 ? create_bytes.value_or(0) : options.capacity_bytes;
  metadata.size_bytes = create_bytes.value_or(metadata.capacity_bytes);
  if (metadata.segment_bytes % least_segment_bytes != 0 || metadata.segment_bytes > largest_sparse_bytes) {
    throw StoreError(EINVAL, store + ": segment of " + std::to_string(metadata.segment_bytes) +
                                 " bytes is not a multiple of 4KiB up to 4EiB: choose one such as 256MiB");
  }
  if (metadata.capacity_bytes == 0) {
    throw StoreError(EINVAL, store + " has no size: say how large it is, or add ?capacity=1TiB");
  }
  if (metadata.capacity_bytes > largest_sparse_bytes) {
    throw StoreError(EFBIG, store + ": capacity of " + std::to_string(metadata.capacity_bytes) +
                                " bytes is too large: choose at most 4EiB");
  }
  if (metadata.size_bytes > metadata.capacity_bytes) {
    throw StoreError(EINVAL, store + ": size of " + std::to_string(metadata.size_bytes) +
                                 " bytes is above the capacity of " + std::to_string(metadata.capacity_bytes) +
                                 ": choose a larger capacity");
  }
  require_open_files(path, metadata.capacity_bytes, metadata.segment_bytes, true);
  return metadata;
}

/// What the URL says has to agree with what the store is; a larger capacity is a wish to grow.
void check_options(const std::string& path, const SparseMetadata& metadata, bool writable,
                   const SparseOptions& options) {
  const std::string store = "sparse store " + path;
  if (options.segment_bytes != 0 && options.segment_bytes != metadata.segment_bytes) {
    throw StoreError(EINVAL, store + " has segments of " + std::to_string(metadata.segment_bytes) + " bytes, not of " +
                                 std::to_string(options.segment_bytes) + ": leave the option segment out");
  }
  if (options.capacity_bytes != 0 && options.capacity_bytes < metadata.capacity_bytes) {
    throw StoreError(EINVAL, store + " has a capacity of " + std::to_string(metadata.capacity_bytes) +
                                 " bytes, which does not shrink to " + std::to_string(options.capacity_bytes) +
                                 ": leave the option capacity out");
  }
  if (options.capacity_bytes > metadata.capacity_bytes && !writable) {
    throw StoreError(EROFS, store + " cannot grow to a capacity of " + std::to_string(options.capacity_bytes) +
                                " bytes read-only: open it for writing or leave the option capacity out");
  }
  if (options.capacity_bytes > largest_sparse_bytes) {
    throw StoreError(EFBIG, store + ": capacity of " + std::to_string(options.capacity_bytes) +
                                " bytes is too large: choose at most 4EiB");
  }
}

}  // namespace

SparseStore::SparseStore(SparseDirectory directory, const SparseMetadata& metadata, bool writable,
                         const FileOptions& options)
    : directory_(std::move(directory)),
      options_(options),
      writable_(writable),
      segment_bytes_(metadata.segment_bytes),
      alignment_(options.direct ? write_block_bytes : 1),
      capacity_(metadata.capacity_bytes),
      size_(metadata.size_bytes),
      descriptors_(table_entries()),
      used_(writable ? table_entries() : 0),
      discarding_(metadata.discarding),
      saved_size_(metadata.size_bytes) {}

std::unique_ptr<SparseStore> SparseStore::open(const std::string& path, OpenMode mode,
                                               std::optional<std::uint64_t> create_bytes,
                                               const SparseOptions& options) {
  if (mode == OpenMode::create) {
    return create(path, create_bytes, options);
  }
  if (mode == OpenMode::open_or_create) {
    // Whether a store is there is asked of its metadata, which a creation writes last.
    if (::access((path + "/" + sparse_metadata_name).c_str(), F_OK) != 0 && errno == ENOENT) {
      try {
        return create(path, create_bytes, options);
      } catch (const StoreError& error) {
        if (error.code().value() != EEXIST) {
          throw;
        }
      }
    }
  }
  return open_existing(path, mode != OpenMode::read_only, options);
}

std::unique_ptr<SparseStore> SparseStore::create(const std::string& path, std::optional<std::uint64_t> create_bytes,
                                                 const SparseOptions& options) {
  const SparseMetadata metadata = metadata_for_new(path, create_bytes, options);
  SparseDirectory directory(path, true);
  const auto refuse_taken = [&] {
    if (directory.has_metadata()) {
      throw_file_error(EEXIST, "sparse store " + path, "cannot be created");
    }
    if (!directory.is_empty()) {
      throw StoreError(
          ENOTEMPTY,
          "sparse store " + path + " cannot be created: the directory holds other files: name an empty or a new one");
    }
  };
  // Before the lock file is made, so that a directory of something else is left as it was.
  refuse_taken();
  try {
    directory.lock(true);
  } catch (...) {
    if (directory.made()) {
      ::rmdir(path.c_str());  // Stays if another creation has begun in it.
    }
    throw;
  }
  // Another creation may have come between.
  refuse_taken();
  directory.remove_leftovers();
  if (const int result = store_sparse_metadata(directory.descriptor(), metadata); result != 0) {
    ::unlinkat(directory.descriptor(), sparse_metadata_name, 0);
    directory.undo_creation();
    throw_file_error(-result, "sparse store " + path, "cannot be created");
  }
  return std::unique_ptr<SparseStore>(new SparseStore(std::move(directory), metadata, true, options.file));
}

std::unique_ptr<SparseStore> SparseStore::open_existing(const std::string& path, bool writable,
                                                        const SparseOptions& options) {
  SparseDirectory directory(path, false);
  if (!directory.has_metadata()) {
    throw StoreError(
        ENOENT, "sparse store " + path + " has no metadata file: name the directory of a sparse store, or create one");
  }
  directory.lock(writable);
  const SparseMetadata metadata = load_sparse_metadata(directory.descriptor(), path);
  check_options(path, metadata, writable, options);
  const std::uint64_t capacity = std::max(metadata.capacity_bytes, options.capacity_bytes);
  require_open_files(path, capacity, metadata.segment_bytes, false);
  if (writable) {
    directory.remove_leftovers();
  }
  std::unique_ptr<SparseStore> store(new SparseStore(std::move(directory), metadata, writable, options.file));
  store->open_segments();
  if (capacity > metadata.capacity_bytes) {
    store->capacity_.store(capacity);
    if (const int result = store_sparse_metadata(store->directory_.descriptor(), store->metadata()); result != 0) {
      throw_file_error(-result, "sparse store " + path, "cannot grow");
    }
  }
  return store;
}

void SparseStore::open_segments() {
  const std::uint64_t segments = segments_of(capacity_bytes(), segment_bytes_);
  for (const FoundSegment& found : directory_.find_segments(segment_bytes_)) {
    const std::string file = name() + ": segment " + std::to_string(found.index);
    if (found.index >= segments) {
      throw StoreError(EINVAL, file + " lies past the capacity of " + std::to_string(capacity_bytes()) +
                                   " bytes: restore the metadata file that belongs to it");
    }
    const int descriptor = directory_.open_segment(found.index, writable_, options_.direct);
    if (descriptor < 0) {
      throw_file_error(-descriptor, file, "cannot be opened");
    }
    descriptors_[static_cast<std::size_t>(found.index)].store(descriptor + 1, std::memory_order_release);
    // A crash of the machine may have kept the name and not the length.
    if (writable_ && found.bytes < segment_bytes_ && ::ftruncate(descriptor, static_cast<off_t>(segment_bytes_)) != 0) {
      throw_file_error(errno, file, "cannot be given its length");
    }
  }
  if (writable_ && discarding_) {
    int result = discard_past(size_bytes());
    if (result == 0) {
      discarding_ = false;
      result = store_sparse_metadata(directory_.descriptor(), metadata());
    }
    if (result != 0) {
      throw_file_error(-result, name(), "cannot finish a cut that a crash interrupted");
    }
  }
}

}  // namespace tiermap
