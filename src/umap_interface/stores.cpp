// The public classes: Umap::Store and Umap::SparseStore. Nothing is thrown out of these.
#include <cerrno>
#include <new>
#include <string>
#include <typeinfo>
#include <utility>

#include "region/c_errors.hpp"
#include "tiermap/error.hpp"
#include "umap/store/SparseStore.h"
#include "umap/store/Store.hpp"
#include "umap_interface/descriptor_store.hpp"
#include "umap_interface/directory_store.hpp"
#include "umap_interface/log.hpp"
#include "umap_interface/program_store.hpp"

namespace Umap {
namespace {

using tiermap::umap_interface::DirectoryStore;

/// What `body` returns; after an exception `failure`, with errno, and the reason logged.
template <typename Result, typename Body>
Result reported(Result failure, Body&& body) noexcept {
  bool succeeded = false;
  Result result = tiermap::without_exceptions(std::move(failure), [&] {
    Result made = body();
    succeeded = true;
    return made;
  });
  if (!succeeded) {
    tiermap::umap_interface::log(tiermap::umap_interface::LogLevel::error, tiermap::kept_error());
  }
  return result;
}

}  // namespace

Store::~Store() {
  tiermap::umap_interface::ProgramStore::forget(*this);
}

int Store::engine_store(std::shared_ptr<tiermap::Store>&) const {
  return -1;
}

Store* Store::make_store(void*, std::size_t, std::size_t, int fd) {
  return reported<Store*>(nullptr, [&] {
    return new tiermap::umap_interface::DescriptorStore(tiermap::umap_interface::open_descriptor(fd));
  });
}

SparseStore::SparseStore(std::size_t region_size, std::size_t page_size, std::string directory, std::size_t file_size) {
  files_ = reported<std::shared_ptr<tiermap::Store>>(
      nullptr, [&] { return DirectoryStore::open_or_create(directory, region_size, page_size, file_size); });
  status_ = files_ == nullptr ? errno : 0;
}

SparseStore::SparseStore(std::string directory, bool read_only) {
  files_ =
      reported<std::shared_ptr<tiermap::Store>>(nullptr, [&] { return DirectoryStore::open(directory, read_only); });
  status_ = files_ == nullptr ? errno : 0;
}

SparseStore::~SparseStore() = default;

std::shared_ptr<tiermap::Store> SparseStore::open_files() const {
  const std::lock_guard<std::mutex> held(mutex_);
  return files_;
}

int SparseStore::engine_store(std::shared_ptr<tiermap::Store>& store) const {
  if (typeid(*this) != typeid(SparseStore)) {
    return -1;  // A class made of this one may do something else in its functions.
  }
  store = open_files();
  if (store != nullptr) {
    return 0;
  }
  return status_ != 0 ? status_ : EBADF;
}

ssize_t SparseStore::read_from_store(char* buf, std::size_t nb, off_t off) {
  const std::shared_ptr<tiermap::Store> files = open_files();
  if (files == nullptr) {
    errno = status_ != 0 ? status_ : EBADF;
    return -1;
  }
  return tiermap::umap_interface::read_whole(*files, buf, nb, off);
}

ssize_t SparseStore::write_to_store(char* buf, std::size_t nb, off_t off) {
  const std::shared_ptr<tiermap::Store> files = open_files();
  if (files == nullptr) {
    errno = status_ != 0 ? status_ : EBADF;
    return -1;
  }
  return tiermap::umap_interface::write_whole(*files, buf, nb, off);
}

std::size_t SparseStore::get_current_capacity() {
  const std::shared_ptr<tiermap::Store> files = open_files();
  return files == nullptr ? 0 : static_cast<std::size_t>(files->size_bytes());
}

std::size_t SparseStore::get_capacity(std::string directory) {
  return reported<std::size_t>(
      0, [&] { return static_cast<std::size_t>(DirectoryStore::metadata_of(directory).capacity_bytes); });
}

int SparseStore::close_files() {
  const std::lock_guard<std::mutex> held(mutex_);
  files_.reset();
  return 0;
}

int SparseStore::get_directory_creation_status() {
  return status_;
}

}  // namespace Umap
