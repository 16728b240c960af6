#include "store/hdf5/dataset_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "platform/write_unless_closed.hpp"
#include "store/hdf5/hyperslab.hpp"

namespace tiermap {
namespace {

/// Of one call's buffer.
constexpr std::uint64_t most_transfer_bytes = 256 << 10;

/// Its own: a type that has a name in the file would keep that open, which could not be opened again for writing then.
hid_t type_of(const Hdf5Call& hdf5, hid_t dataset) {
  const Hdf5Id type(hdf5, hdf5->H5Dget_type(dataset));
  return hdf5->H5Tcopy(type.get());
}

}  // namespace

Hdf5DatasetStore::Hdf5DatasetStore(const Hdf5Call& hdf5, std::shared_ptr<Hdf5File> file, DirectFile synchronised,
                                   Hdf5Dataset dataset, bool writable, std::uint64_t decoded_bytes, std::string name,
                                   const FileOptions& options)
    : file_(std::move(file)),
      synchronised_(std::move(synchronised)),
      dataset_(std::move(dataset)),
      writable_(writable),
      name_(std::move(name)),
      options_(options),
      open_(&file_->open_dataset(hdf5, dataset_.name, decoded_bytes)),
      space_(hdf5->H5Dget_space(open_->id)),
      type_(type_of(hdf5, open_->id)) {}

Hdf5DatasetStore::~Hdf5DatasetStore() {
  const Hdf5Call hdf5;
  hdf5->H5Idec_ref(space_);
  hdf5->H5Idec_ref(type_);
  file_->close_dataset(hdf5, *open_);
  file_.reset();
}

/// A program that touches them gets a signal, which cannot say what is damaged. What fails in a store behind the file
/// is that one's to say.
void Hdf5DatasetStore::say_unread(const Hdf5Failure& failure, std::uint64_t first, std::uint64_t count) {
  constexpr std::size_t most_told = 8;
  if (told_.size() < most_told && told_.insert(first).second) {
    tell_unless_closed("tiermap: " + name_ + ": among the elements from " + std::to_string(first) + " on, " +
                       std::to_string(count) + " in all, are some that cannot be read: " + failure.text + "\n");
  }
}

/// Also a read may have to bring a chunk to the file for which it needs the room.
void Hdf5DatasetStore::say_lost(const Hdf5Failure& failure) {
  tell_unless_closed("tiermap: " + name_ + ": chunks that were changed cannot be written (" + failure.text +
                     "): make room, open it again, and write once more what was written since it was synchronised\n");
}

int Hdf5DatasetStore::transfer(const Hdf5Call& hdf5, char* items, std::uint64_t first, std::uint64_t count,
                               bool writing) {
  if (file_->lost() != 0) {
    return file_->lost();
  }
  while (count > 0) {
    const Hyperslab box = first_hyperslab(dataset_.shape, first, count);
    // Of the same shape: for another one libhdf5 goes from element to element.
    const int dimensions = static_cast<int>(dataset_.shape.size());
    const Hdf5Id memory(hdf5, hdf5->H5Screate_simple(dimensions, box.count.data(), nullptr));
    // A single item has no dimensions to choose from.
    const bool chosen = dataset_.shape.empty() || hdf5->H5Sselect_hyperslab(space_, H5S_SELECT_SET, box.start.data(),
                                                                            nullptr, box.count.data(), nullptr) >= 0;
    const herr_t result = !chosen   ? -1
                          : writing ? hdf5->H5Dwrite(open_->id, type_, memory.get(), space_, H5P_DEFAULT, items)
                                    : hdf5->H5Dread(open_->id, type_, memory.get(), space_, H5P_DEFAULT, items);
    if (result < 0) {
      const Hdf5Failure failure = hdf5.failure();
      const bool behind = file_->failed_behind();
      const int error = file_->failed(hdf5);
      if (file_->lost() != 0) {
        say_lost(failure);
      } else if (!writing && !behind) {
        say_unread(failure, first, box.elements);
      }
      return error;
    }
    items += box.elements * dataset_.item_bytes;
    first += box.elements;
    count -= box.elements;
  }
  return 0;
}

std::int64_t Hdf5DatasetStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t end = offset + std::min<std::uint64_t>(bytes, dataset_.bytes - std::min(offset, dataset_.bytes));
  std::vector<char> items;
  std::uint64_t at = offset;
  while (at < end) {
    const std::uint64_t take = std::min(end - at, most_transfer_bytes);
    const std::uint64_t first = at / dataset_.item_bytes;
    const std::uint64_t behind = (at + take - 1) / dataset_.item_bytes + 1;
    items.resize((behind - first) * dataset_.item_bytes);
    const int result = [&] {
      const Hdf5Call hdf5;
      return transfer(hdf5, items.data(), first, behind - first, false);
    }();
    if (result != 0) {
      return at > offset ? static_cast<std::int64_t>(at - offset) : result;
    }
    std::memcpy(static_cast<char*>(buffer) + (at - offset), items.data() + (at - first * dataset_.item_bytes), take);
    at += take;
  }
  return static_cast<std::int64_t>(at - offset);
}

/// `bytes` bytes that are in place among the items, behind `skip`: of the first and the last item the rest is fetched.
int Hdf5DatasetStore::write_items(char* items, std::uint64_t first, std::uint64_t count, std::uint64_t skip,
                                  std::uint64_t bytes) {
  const std::uint64_t item_bytes = dataset_.item_bytes;
  const std::uint64_t rest = count * item_bytes - skip - bytes;
  const Hdf5Call hdf5;
  std::vector<char> item(skip > 0 || rest > 0 ? item_bytes : 0);
  if (skip > 0) {
    if (const int result = transfer(hdf5, item.data(), first, 1, false); result != 0) {
      return result;
    }
    std::memcpy(items, item.data(), skip);
  }
  if (rest > 0) {
    if (const int result = transfer(hdf5, item.data(), first + count - 1, 1, false); result != 0) {
      return result;
    }
    std::memcpy(items + skip + bytes, item.data() + item_bytes - rest, rest);
  }
  return transfer(hdf5, items, first, count, true);
}

std::int64_t Hdf5DatasetStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (!writable_) {
    return -EROFS;
  }
  if (offset >= dataset_.bytes && bytes > 0) {
    return -ENOSPC;
  }
  const std::uint64_t end = offset + std::min<std::uint64_t>(bytes, dataset_.bytes - std::min(offset, dataset_.bytes));
  std::vector<char> items;
  std::uint64_t at = offset;
  while (at < end) {
    const std::uint64_t take = std::min(end - at, most_transfer_bytes);
    const std::uint64_t first = at / dataset_.item_bytes;
    const std::uint64_t behind = (at + take - 1) / dataset_.item_bytes + 1;
    const std::uint64_t skip = at - first * dataset_.item_bytes;
    items.resize((behind - first) * dataset_.item_bytes);
    std::memcpy(items.data() + skip, static_cast<const char*>(buffer) + (at - offset), take);
    if (const int result = write_items(items.data(), first, behind - first, skip, take); result != 0) {
      return at > offset ? static_cast<std::int64_t>(at - offset) : result;
    }
    at += take;
  }
  return static_cast<std::int64_t>(at - offset);
}

int Hdf5DatasetStore::settle() {
  if (!writable_) {
    return 0;
  }
  const Hdf5Call hdf5;
  return file_->write_out(hdf5);
}

int Hdf5DatasetStore::flush() {
  if (!writable_) {
    return 0;
  }
  const Hdf5Call hdf5;
  if (file_->write_out(hdf5) == 0) {
    file_->set_lost(synchronise(synchronised_.buffered(), true));
  }
  return file_->lost();
}

}  // namespace tiermap
