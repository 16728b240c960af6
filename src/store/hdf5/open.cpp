#include "store/hdf5/open.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "config/size.hpp"
#include "store/concat_store.hpp"
#include "store/forwarding_store.hpp"
#include "store/hdf5/creation.hpp"
#include "store/hdf5/dataset_store.hpp"
#include "store/nested_url.hpp"
#include "store/part_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t most_decoded_bytes = 64 << 20;  // Unless the URL says otherwise.
constexpr std::uint64_t fewest_chunks = 8;              // As many threads may be at work in as many places.

/// A dataset that lies in the file as it is: libhdf5 has only locked the file.
class Hdf5PartStore final : public ForwardingStore {
 public:
  Hdf5PartStore(std::shared_ptr<Hdf5File> file, std::shared_ptr<Store> part)
      : ForwardingStore(std::move(part)), file_(std::move(file)) {}
  ~Hdf5PartStore() override {
    const Hdf5Call hdf5;
    file_.reset();
  }

 private:
  std::shared_ptr<Hdf5File> file_;
};

/// Chunks of several rows are needed again for the next row: were there no room for them all, each would be decoded
/// once a row.
std::uint64_t decoded_bytes(const Hdf5Dataset& dataset, std::uint64_t asked, const StoreUrl& url) {
  const std::uint64_t chunk = dataset.chunk_bytes();
  if (asked != 0 && asked < chunk) {
    throw StoreError(EINVAL, "store '" + url.text + "': decoded " + format_size(asked) +
                                 " is less than a chunk of the dataset: choose at least " + format_size(chunk));
  }
  if (asked != 0 || chunk == 0) {
    return asked;
  }
  const std::uint64_t chunks = std::max(dataset.chunks_in_a_row(), fewest_chunks);
  return std::max(chunk, chunks > most_decoded_bytes / chunk ? most_decoded_bytes : chunks * chunk);
}

[[noreturn]] void refuse_no_dataset(const Hdf5Call& hdf5, const Hdf5File& file, const StoreUrl& url) {
  throw StoreError(EINVAL, "store '" + url.text + "' names no dataset, behind a colon: choose " +
                               list_hdf5_datasets(hdf5, file.id(), "/"));
}

void require_within(const Hdf5Dataset& dataset, std::uint64_t file_bytes, const std::string& path) {
  if (*dataset.offset > file_bytes || dataset.bytes > file_bytes - *dataset.offset) {
    throw StoreError(EINVAL, path + ": dataset " + in_one_line(dataset.name) + " reaches past the file's end, " +
                                 std::to_string(file_bytes) + ": the file was cut, copy or make it again");
  }
}

/// What the file says of the dataset, or why the store that it lies in could not say it.
Hdf5Dataset describe_in(const Hdf5Call& hdf5, const Hdf5File& file, const std::string& name, const StoreUrl& url) {
  try {
    if (name.empty()) {
      refuse_no_dataset(hdf5, file, url);
    }
    return describe_hdf5_dataset(hdf5, file, name, false);
  } catch (const StoreError&) {
    file.refuse_unread();
    throw;
  }
}

/// hdf5:s3://bucket/file.h5:/group/dataset. A contiguous dataset is a part of that store, others are libhdf5's to read.
std::unique_ptr<Store> open_hdf5_in(const NestedUrl& nested, OpenMode mode) {
  const StoreUrl& url = nested.format;
  UrlOptions options(url);
  const std::uint64_t decoded = options.size("decoded", 0);
  const Hdf5Form form = parse_hdf5_form(options, url);
  options.finish();
  const std::string name = decode_dataset_name(nested.part, url.text);
  if (leads_to_scheme(nested.store, "hdf5")) {  // Which would wait for libhdf5 while that waits for it.
    throw StoreError(
        ENOTSUP, "store '" + url.text + "': an HDF5 file in a dataset of another cannot be read: copy it to a file");
  }
  std::shared_ptr<Store> store = open_nested(nested, mode, "HDF5 files");
  load_hdf5(url.text);
  const Hdf5Call hdf5;
  std::shared_ptr<Hdf5File> file = Hdf5File::open_in(hdf5, store);
  Hdf5Dataset dataset = describe_in(hdf5, *file, name, url);
  require_hdf5_form(form, dataset, url);
  if (dataset.offset) {
    require_within(dataset, store->size_bytes(), file->path());
    return std::make_unique<PartStore>(std::move(store), *dataset.offset, dataset.bytes, url.text,
                                       std::move(dataset.elements));
  }
  const std::uint64_t decoded_most = decoded_bytes(dataset, decoded, url);
  return std::make_unique<Hdf5DatasetStore>(hdf5, std::move(file), DirectFile(), std::move(dataset), false,
                                            decoded_most, url.text, FileOptions());
}

}  // namespace

std::unique_ptr<Store> open_hdf5(const StoreUrl& url, OpenMode mode, const NewStore& made) {
  if (const auto nested = parse_nested_url(url, {"decoded", "type", "shape"}, true)) {
    return open_hdf5_in(*nested, mode);
  }
  UrlOptions options(url);
  const FileOptions file_options = options.file_options();
  const std::uint64_t decoded = options.size("decoded", 0);
  const Hdf5Form form = parse_hdf5_form(options, url);
  options.finish();
  const DatasetPlace place = parse_dataset_place(url);
  if (mode == OpenMode::create ||
      (mode == OpenMode::open_or_create && !form.type.empty() && !has_hdf5_dataset(place, url))) {
    create_hdf5_dataset(place, form, made, url);
  }
  const bool writable = mode != OpenMode::read_only;
  OpenedFile opened = open_file(place.file, writable, false);
  load_hdf5(url.text);
  const Hdf5Call hdf5;
  std::shared_ptr<Hdf5File> file = Hdf5File::open(hdf5, place.file, opened);
  if (place.dataset.empty()) {
    refuse_no_dataset(hdf5, *file, url);
  }
  Hdf5Dataset dataset = describe_hdf5_dataset(hdf5, *file, place.dataset, writable);
  require_hdf5_form(form, dataset, url);
  if (dataset.offset) {
    require_within(dataset, opened.bytes, place.file);
    const std::vector<ConcatStore::Part> parts{{place.file, *dataset.offset, true, dataset.bytes}};
    auto part = std::make_unique<ConcatStore>(parts, writable, url.text, file_options);
    part->describe_elements(std::move(dataset.elements));
    return std::make_unique<Hdf5PartStore>(std::move(file), std::move(part));
  }
  const std::uint64_t decoded_most = decoded_bytes(dataset, decoded, url);
  if (writable) {
    file->make_writable(hdf5);
  }
  return std::make_unique<Hdf5DatasetStore>(hdf5, std::move(file), std::move(opened.file), std::move(dataset), writable,
                                            decoded_most, url.text, file_options);
}

Hdf5Location locate_hdf5_dataset(const StoreUrl& url) {
  const DatasetPlace place = parse_dataset_place(url);
  const OpenedFile opened = open_file(place.file, false, false);
  load_hdf5(url.text);
  const Hdf5Call hdf5;
  const std::shared_ptr<Hdf5File> file = Hdf5File::open(hdf5, place.file, opened);
  const Hdf5Dataset dataset = describe_hdf5_dataset(hdf5, *file, place.dataset, false);
  return {hdf5_header_address(hdf5, *file, place.dataset), dataset.offset, dataset.bytes};
}

}  // namespace tiermap
