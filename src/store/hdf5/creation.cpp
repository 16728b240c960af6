#include "store/hdf5/creation.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "store/file_open.hpp"
#include "store/hdf5/hyperslab.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

[[noreturn]] void refuse_form(const StoreUrl& url, const std::string& problem, int error_number = EINVAL) {
  throw StoreError(error_number, "store '" + url.text + "': " + problem);
}

const Hdf5Number* number_of(const std::string& type) {
  const auto* const found = std::find_if(std::begin(hdf5_numbers), std::end(hdf5_numbers),
                                         [&](const Hdf5Number& number) { return type == number.name; });
  return found == std::end(hdf5_numbers) ? nullptr : found;
}

std::string number_names() {
  std::string names;
  for (const Hdf5Number& number : hdf5_numbers) {
    names += (names.empty() ? "" : ", ") + std::string(number.name);
  }
  return names;
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const std::uint64_t extent : shape) {
    text += (text.empty() ? "" : ",") + std::to_string(extent);
  }
  return text;
}

std::vector<std::uint64_t> parse_shape(const std::string& text, const StoreUrl& url) {
  std::vector<std::uint64_t> shape;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::uint64_t extent = 0;
    const auto result = std::from_chars(text.data() + begin, text.data() + end, extent);
    if (result.ec != std::errc() || result.ptr != text.data() + end || extent == 0 || shape.size() == most_dimensions) {
      refuse_form(url, "shape '" + in_one_line(text) + "' is not up to " + std::to_string(most_dimensions) +
                           " extents of 1 and more: write shape=64,64,64");
    }
    shape.push_back(extent);
    begin = end + 1;
  }
  return shape;
}

/// How large it is to be: what the shape takes, and the shape if there is none.
std::uint64_t take_size(Hdf5Form& form, std::uint64_t bytes, const StoreUrl& url) {
  const std::uint64_t element = number_of(form.type)->bytes;
  if (form.shape.empty() && (bytes == 0 || bytes % element != 0)) {
    refuse_form(url, "a dataset of " + std::to_string(bytes) + " bytes is no whole number of elements of type " +
                         form.type + ": say how many there are to be, shape=64,64,64");
  }
  if (form.shape.empty()) {
    form.shape = {bytes / element};
  }
  std::uint64_t size = element;
  for (const std::uint64_t extent : form.shape) {
    if (__builtin_mul_overflow(size, extent, &size) || size > largest_file_bytes) {
      refuse_form(url, "shape " + shape_text(form.shape) + " is larger than any file: choose less", EFBIG);
    }
  }
  if (bytes != 0 && bytes != size) {
    refuse_form(url, "shape " + shape_text(form.shape) + " of " + form.type + " takes " + std::to_string(size) +
                         " bytes, and it is to be made with " + std::to_string(bytes) + ": say the same twice");
  }
  return size;
}

/// What the dataset will be, with a shape, of so many bytes in all.
ElementLayout layout_of(const Hdf5Form& form, std::uint64_t bytes) {
  ElementLayout layout;
  layout.bytes = number_of(form.type)->bytes;
  layout.row_bytes = form.shape.size() > 1 ? bytes / form.shape.front() : layout.bytes;
  layout.kind = form.type[0];  // float, int, uint: as numpy's kinds.
  layout.type = form.type;
  layout.shape = form.shape;
  return layout;
}

/// A file that is made here is gone again unless all went well.
class NewFile {
 public:
  NewFile(const Hdf5Call& hdf5, const std::string& path) {
    if (path_exists(path)) {
      return;
    }
    create_file(path, 0, false);
    path_ = path;
    try {
      Hdf5File::make(hdf5, path);
    } catch (...) {
      remove();
      throw;
    }
  }
  ~NewFile() { remove(); }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  void keep() { path_.clear(); }

 private:
  void remove() {
    if (!path_.empty()) {
      ::unlink(path_.c_str());
    }
  }

  std::string path_;
};

bool has_object(const Hdf5Call& hdf5, const Hdf5File& file, const std::string& name) {
  return Hdf5Id(hdf5, hdf5->H5Oopen(file.id(), name.c_str(), H5P_DEFAULT)).valid();
}

/// Groups on the way are made, too.
void add_dataset(const Hdf5Call& hdf5, const Hdf5File& file, const std::string& name, const Hdf5Form& form) {
  const Hdf5Id links(hdf5, hdf5->H5Pcreate(hdf5->link_creation));
  hdf5->H5Pset_create_intermediate_group(links.get(), 1);
  const Hdf5Id properties(hdf5, hdf5->H5Pcreate(hdf5->dataset_creation));
  hdf5->H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY);
  hdf5->H5Pset_obj_track_times(properties.get(), false);  // The same file whenever it is made.
  const std::vector<hsize_t> extents(form.shape.begin(), form.shape.end());
  const Hdf5Id space(hdf5, hdf5->H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
  const hid_t type = hdf5->numbers[static_cast<std::size_t>(number_of(form.type) - std::begin(hdf5_numbers))];
  const Hdf5Id dataset(
      hdf5, hdf5->H5Dcreate2(file.id(), name.c_str(), type, space.get(), links.get(), properties.get(), H5P_DEFAULT));
  if (!dataset.valid()) {
    throw StoreError(EINVAL, file.path() + ": dataset " + in_one_line(name) + " cannot be made (" +
                                 hdf5.failure().text + "): choose another name, or another file");
  }
}

/// Room that the file had before, and nobody used any more, may have anything in it.
void clear_old_room(const std::string& path, std::uint64_t offset, std::uint64_t bytes, std::uint64_t file_bytes) {
  if (offset >= file_bytes) {
    return;
  }
  const OpenedFile opened = open_file(path, true, false);
  if (::fallocate(opened.file.buffered(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes)) != 0) {
    throw_file_error(errno, path, "cannot be cleared where the dataset is to be");
  }
}

}  // namespace

Hdf5Form parse_hdf5_form(UrlOptions& options, const StoreUrl& url) {
  Hdf5Form form;
  form.type = options.text("type");
  form.shape = parse_shape(options.text("shape"), url);
  if (!form.type.empty() && number_of(form.type) == nullptr) {
    refuse_form(url, "type '" + form.type + "' is unknown: choose among " + number_names());
  }
  return form;
}

void require_hdf5_form(const Hdf5Form& form, const Hdf5Dataset& dataset, const StoreUrl& url) {
  const ElementLayout& there = dataset.elements;
  if (!form.shape.empty() && form.shape != dataset.shape) {
    refuse_form(url, "the dataset has the shape " + shape_text(dataset.shape) + ", not " + shape_text(form.shape) +
                         ": leave out the shape, or name another dataset");
  }
  if (form.type.empty()) {
    return;
  }
  const char kind = form.type[0];  // float, int, uint: as numpy's kinds.
  if (there.kind != kind || there.swapped || there.bytes != number_of(form.type)->bytes) {
    refuse_form(url, "the dataset has elements of type " + there.type + ", not " + form.type +
                         ": leave out the type, or name another dataset");
  }
}

bool has_hdf5_dataset(const DatasetPlace& place, const StoreUrl& url) {
  if (place.dataset.empty() || !path_exists(place.file)) {
    return false;
  }
  const OpenedFile opened = open_file(place.file, false, false);
  load_hdf5(url.text);
  const Hdf5Call hdf5;
  return has_object(hdf5, *Hdf5File::open(hdf5, place.file, opened), place.dataset);
}

void create_hdf5_dataset(const DatasetPlace& place, Hdf5Form form, const NewStore& made, const StoreUrl& url) {
  if (place.dataset.empty() || place.dataset.ends_with('/')) {
    refuse_form(url, "there is no name of a dataset behind a colon: write hdf5:///directory/file.h5:/group/dataset");
  }
  if (form.type.empty()) {
    refuse_form(url,
                "nothing says what type of numbers is to be made: write ?type=float32&shape=64,64,64, with one of " +
                    number_names());
  }
  made.check_elements(layout_of(form, take_size(form, made.bytes(), url)));
  load_hdf5(url.text);
  const Hdf5Call hdf5;
  NewFile file_made(hdf5, place.file);
  const OpenedFile opened = open_file(place.file, true, false);
  std::shared_ptr<Hdf5File> file = Hdf5File::open(hdf5, place.file, opened);
  if (has_object(hdf5, *file, place.dataset)) {
    throw StoreError(EEXIST, place.file + ": dataset " + in_one_line(place.dataset) +
                                 " is there: open it instead of creating it, or choose another name");
  }
  file->make_writable(hdf5);
  add_dataset(hdf5, *file, place.dataset, form);
  if (const int result = file->write_out(hdf5); result != 0) {
    throw_file_error(-result, place.file, "cannot take the dataset");
  }
  const Hdf5Dataset dataset = describe_hdf5_dataset(hdf5, *file, place.dataset, true);
  clear_old_room(place.file, dataset.offset.value_or(opened.bytes), dataset.bytes, opened.bytes);
  file_made.keep();
}

}  // namespace tiermap
