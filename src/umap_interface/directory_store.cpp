#include "umap_interface/directory_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "store/directory_entries.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap::umap_interface {
namespace {

constexpr std::size_t most_of_few = 128;
constexpr std::uint64_t descriptors_a_file = 2;
constexpr int not_a_file = -EINVAL;

FileDescriptor open_directory(const std::string& path) {
  FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) {
    throw_file_error(errno, "sparse directory " + path, "cannot be opened");
  }
  return directory;
}

std::optional<std::uint64_t> index_of(std::string_view name) {
  std::uint64_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole && (name.size() == 1 || name.front() != '0') ? std::optional(index) : std::nullopt;
}

/// The numbers of the data files that are there.
std::vector<std::uint64_t> files_in(int directory, const std::string& path) {
  std::vector<std::uint64_t> found;
  for (const std::string& name : names_in(directory, "sparse directory " + path)) {
    if (const auto index = index_of(name); index.has_value()) {
      found.push_back(*index);
    }
  }
  return found;
}

std::uint64_t file_count(const DirectoryMetadata& metadata) {
  return metadata.capacity_bytes / metadata.file_bytes + (metadata.capacity_bytes % metadata.file_bytes != 0 ? 1U : 0U);
}

bool takes_direct(int directory, const DirectoryMetadata& metadata) {
  const FileDescriptor file(::openat(directory, directory_metadata_name, O_RDONLY | O_CLOEXEC));
  return metadata.file_bytes % write_block_bytes == 0 && file.valid() &&
         open_direct(directory, directory_metadata_name, file.get(), false).valid();
}

void close_entry(std::atomic<int>& descriptor) noexcept {
  if (const int open = descriptor.load(); open > 0) {
    ::close(open - 1);
  }
}

}  // namespace

DirectoryStore::DirectoryStore(std::string path, FileDescriptor directory, const DirectoryMetadata& metadata,
                               bool writable)
    : path_(std::move(path)),
      directory_(std::move(directory)),
      metadata_(metadata),
      writable_(writable),
      direct_(takes_direct(directory_.get(), metadata)) {
  constexpr std::uint64_t most_entries = 1ULL << 20;
  constexpr std::uint64_t most_kept = 4096;
  const std::uint64_t files = file_count(metadata);
  if (metadata.file_bytes % write_block_bytes != 0 || files > most_entries) {
    return;
  }
  most_kept_ = std::min(files, most_kept);
  while (most_kept_ > 0 && !allow_open_files(most_kept_ * descriptors_a_file)) {
    most_kept_ /= 2;
  }
  entries_ = LazyArray<Entry>(static_cast<std::size_t>(files));
  open_existing();
}

DirectoryStore::~DirectoryStore() {
  for (std::size_t index = 0; index < entries_in_use_.load(); ++index) {
    close_entry(entries_[index].buffered);
    close_entry(entries_[index].direct);
  }
}

DirectoryMetadata DirectoryStore::metadata_of(const std::string& path) {
  const FileDescriptor directory = open_directory(path);
  const auto metadata = load_directory_metadata(directory.get(), path);
  if (!metadata.has_value()) {
    throw StoreError(ENOENT, "sparse directory " + path + " has no file " + directory_metadata_name +
                                 ": name the directory of a SparseStore, or create one");
  }
  return *metadata;
}

std::shared_ptr<DirectoryStore> DirectoryStore::open(const std::string& path, bool read_only) {
  const DirectoryMetadata metadata = metadata_of(path);
  if (!read_only && ::access(path.c_str(), W_OK) != 0) {
    throw_file_error(errno, "sparse directory " + path, "cannot be opened for writing");
  }
  return std::shared_ptr<DirectoryStore>(new DirectoryStore(path, open_directory(path), metadata, !read_only));
}

std::shared_ptr<DirectoryStore> DirectoryStore::open_or_create(const std::string& path, std::uint64_t region_bytes,
                                                               std::uint64_t page_bytes, std::uint64_t file_bytes) {
  DirectoryMetadata wanted = new_directory_metadata(path, region_bytes, page_bytes, file_bytes);
  const bool made = ::mkdir(path.c_str(), 0777) == 0;
  if (!made && errno != EEXIST) {
    throw_file_error(errno, "sparse directory " + path, "cannot be created");
  }
  try {
    FileDescriptor directory = open_directory(path);
    const auto there = load_directory_metadata(directory.get(), path);
    if (there.has_value()) {
      wanted = {there->file_bytes, std::max(there->capacity_bytes, region_bytes)};
    } else if (!files_in(directory.get(), path).empty()) {
      throw StoreError(ENOTEMPTY, "sparse directory " + path + " holds data files but no " + directory_metadata_name +
                                      ": restore that, or name an empty or a new directory");
    }
    if (there != wanted) {
      save_directory_metadata(directory.get(), path, wanted);
    }
    return std::shared_ptr<DirectoryStore>(new DirectoryStore(path, std::move(directory), wanted, true));
  } catch (...) {
    if (made) {
      ::unlink((path + "/" + directory_metadata_name).c_str());
      ::rmdir(path.c_str());
    }
    throw;
  }
}

void DirectoryStore::open_existing() {
  for (const std::uint64_t index : files_in(directory_.get(), path_)) {
    if (index >= entries_.size()) {
      continue;  // LLNL/umap ignores them as well; a larger capacity brings them back.
    }
    const int error = open_entry(index, false);
    const std::string name = path_ + "/" + std::to_string(index);
    if (error == not_a_file) {
      throw StoreError(EINVAL, name + " is not a regular file, as data files are: restore it, or move it away");
    }
    if (error < 0) {
      throw_file_error(-error, name, "cannot be opened");
    }
  }
}

// To open a FIFO, or read one, may wait for ever.
int DirectoryStore::open_file(std::uint64_t index, int flags) const noexcept {
  char name[24] = {};
  std::to_chars(name, name + sizeof name - 1, index);
  struct stat status = {};
  if (::fstatat(directory_.get(), name, &status, 0) == 0 && !S_ISREG(status.st_mode)) {
    return not_a_file;
  }
  const int descriptor = above_standard_streams(
      ::openat(directory_.get(), name, (writable_ ? O_RDWR : O_RDONLY) | O_CLOEXEC | flags, 0666));
  return descriptor < 0 ? -errno : descriptor;
}

/// Holds mutex_.
int DirectoryStore::make_file(std::uint64_t index) noexcept {
  const int descriptor = open_file(index, O_CREAT);
  if (descriptor < 0) {
    return descriptor;
  }
  directory_changed_ = true;
  struct stat status = {};
  const auto bytes = static_cast<off_t>(metadata_.file_bytes);
  if (::fstat(descriptor, &status) != 0 || (status.st_size < bytes && ::ftruncate(descriptor, bytes) != 0)) {
    const int error = -errno;
    ::close(descriptor);
    return error;
  }
  return descriptor;
}

/// Holds mutex_. Where the process has no descriptor left, the few give up theirs.
int DirectoryStore::open_or_make(std::uint64_t index, bool make) noexcept {
  const int descriptor = make ? make_file(index) : open_file(index, 0);
  if (descriptor != -EMFILE || few_.empty()) {
    return descriptor;
  }
  few_.clear();
  return make ? make_file(index) : open_file(index, 0);
}

/// Holds mutex_, or is alone. 0 or a negative errno value.
int DirectoryStore::open_entry(std::uint64_t index, bool make) noexcept {
  Entry& entry = entries_[static_cast<std::size_t>(index)];
  if (entry.buffered.load() != 0) {
    return 0;
  }
  const int buffered = open_or_make(index, make);
  if (buffered < 0) {
    return buffered;
  }
  entries_in_use_.store(std::max(entries_in_use_.load(), static_cast<std::size_t>(index) + 1));
  if (kept_ >= most_kept_) {
    ::close(buffered);
    entry.buffered.store(not_kept, std::memory_order_release);
    return 0;
  }
  ++kept_;
  if (direct_) {
    // Where this one file refuses, it is read and written without.
    entry.direct.store(std::max(open_file(index, O_DIRECT), -1) + 1, std::memory_order_release);
  }
  entry.buffered.store(buffered + 1, std::memory_order_release);
  return 0;
}

int DirectoryStore::descriptor_for(std::uint64_t index, bool make, bool aligned,
                                   std::shared_ptr<FileDescriptor>& holder) {
  if (!has_table()) {
    const std::lock_guard held(mutex_);
    return few_open(index, make, holder);
  }
  Entry& entry = entries_[static_cast<std::size_t>(index)];
  if (entry.buffered.load(std::memory_order_acquire) <= 0) {
    if (entry.buffered.load() == 0 && !make) {
      return -ENOENT;
    }
    const std::lock_guard held(mutex_);
    if (const int error = open_entry(index, make); error < 0) {
      return error;
    }
    if (entry.buffered.load() == not_kept) {
      return few_open(index, make, holder);
    }
  }
  if (make) {
    entry.written.store(true);
  }
  const int direct = entry.direct.load(std::memory_order_acquire);
  return (aligned && direct > 0 ? direct : entry.buffered.load(std::memory_order_acquire)) - 1;
}

int DirectoryStore::few_open(std::uint64_t index, bool make, std::shared_ptr<FileDescriptor>& holder) {
  auto found = few_.find(index);
  if (found == few_.end()) {
    const int descriptor = open_or_make(index, make);
    if (descriptor < 0) {
      return descriptor;
    }
    if (few_.size() >= most_of_few) {
      few_.erase(few_.begin());
    }
    found = few_.emplace(index, std::make_shared<FileDescriptor>(descriptor)).first;
  }
  if (make) {
    few_written_.insert(index);
  }
  holder = found->second;
  return holder->get();
}

std::int64_t DirectoryStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (offset >= metadata_.capacity_bytes) {
    return 0;
  }
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, metadata_.capacity_bytes - offset));
  std::size_t done = 0;
  while (done < wanted) {
    char* const at = static_cast<char*>(buffer) + done;
    const std::uint64_t within = (offset + done) % metadata_.file_bytes;
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(wanted - done, metadata_.file_bytes - within));
    const bool aligned = (reinterpret_cast<std::uintptr_t>(at) | take | within) % kernel_block_bytes == 0;
    std::shared_ptr<FileDescriptor> holder;
    const int descriptor = descriptor_for((offset + done) / metadata_.file_bytes, false, aligned, holder);
    std::int64_t got = descriptor == -ENOENT ? 0 : descriptor;
    if (descriptor >= 0) {
      got = read_fully(descriptor, at, take, within);
    }
    if (got < 0) {
      return done > 0 ? static_cast<std::int64_t>(done) : got;
    }
    if (got > 0 && static_cast<std::size_t>(got) < take) {
      done += static_cast<std::size_t>(got);  // An error follows, which the next turn brings out, or the file ends.
      continue;
    }
    if (got == 0) {
      std::memset(at, 0, take);
    }
    done += take;
  }
  return static_cast<std::int64_t>(done);
}

std::int64_t DirectoryStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (!writable_) {
    return -EROFS;
  }
  if (offset > metadata_.capacity_bytes || bytes > metadata_.capacity_bytes - offset) {
    return -ENOSPC;
  }
  std::size_t done = 0;
  while (done < bytes) {
    const char* const at = static_cast<const char*>(buffer) + done;
    const std::uint64_t within = (offset + done) % metadata_.file_bytes;
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, metadata_.file_bytes - within));
    const bool aligned = (reinterpret_cast<std::uintptr_t>(at) | take | within) % kernel_block_bytes == 0;
    std::shared_ptr<FileDescriptor> holder;
    const int descriptor = descriptor_for((offset + done) / metadata_.file_bytes, true, aligned, holder);
    const std::int64_t put = descriptor < 0 ? descriptor : write_fully(descriptor, at, take, within);
    if (put < 0) {
      return done > 0 ? static_cast<std::int64_t>(done) : put;
    }
    done += static_cast<std::size_t>(put);
    if (static_cast<std::size_t>(put) < take) {
      break;
    }
  }
  return static_cast<std::int64_t>(done);
}

bool DirectoryStore::locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept {
  if (!has_table() || bytes == 0) {
    return false;
  }
  if (offset >= metadata_.capacity_bytes) {
    extent = {-1, offset, bytes, true};
    return true;
  }
  const std::uint64_t within = offset % metadata_.file_bytes;
  std::uint64_t take = std::min({bytes, metadata_.file_bytes - within, metadata_.capacity_bytes - offset});
  const Entry& entry = entries_[static_cast<std::size_t>(offset / metadata_.file_bytes)];
  const int buffered = entry.buffered.load(std::memory_order_acquire);
  if (buffered == 0) {
    extent = {-1, offset, take, true};
    return true;
  }
  if (buffered == not_kept) {
    return false;
  }
  const int direct = entry.direct.load(std::memory_order_acquire);
  if (direct_) {
    take -= take % kernel_block_bytes;
    if (take == 0 || within % kernel_block_bytes != 0) {
      return false;
    }
  }
  extent = {(direct > 0 ? direct : buffered) - 1, within, take, false};
  return true;
}

bool DirectoryStore::locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept {
  if (!has_table() || !writable_ || offset >= metadata_.capacity_bytes) {
    return false;
  }
  const std::uint64_t within = offset % metadata_.file_bytes;
  std::uint64_t take = std::min({bytes, metadata_.file_bytes - within, metadata_.capacity_bytes - offset});
  take -= take % kernel_block_bytes;
  if (take == 0 || within % kernel_block_bytes != 0) {
    return false;
  }
  const std::uint64_t index = offset / metadata_.file_bytes;
  if (entries_[static_cast<std::size_t>(index)].buffered.load(std::memory_order_acquire) == not_kept) {
    return false;
  }
  std::shared_ptr<FileDescriptor> holder;
  const int descriptor = descriptor_for(index, true, true, holder);
  if (descriptor < 0 || holder != nullptr) {
    return false;
  }
  extent = {descriptor, within, take, false};
  return true;
}

int DirectoryStore::flush() {
  bool untried = false;
  return flushes_.run([&] { return flush_written(untried); }, untried);
}

// `untried`: a file could not be opened (the process has no descriptor left). Nothing of it is lost then, and the next
// flush looks after it.
int DirectoryStore::flush_written(bool& untried) {
  int result = 0;
  for (std::size_t index = 0; index < entries_in_use_.load() && result == 0; ++index) {
    if (entries_[index].written.load()) {
      result = synchronise(entries_[index].buffered.load() - 1, false);
    }
  }
  const std::lock_guard held(mutex_);
  result = result == 0 ? flush_few(untried) : result;
  if (result == 0 && std::exchange(directory_changed_, false)) {
    result = synchronise(directory_.get(), true);
  }
  return result;
}

int DirectoryStore::flush_few(bool& untried) {
  for (const std::uint64_t index : few_written_) {
    std::shared_ptr<FileDescriptor> holder;
    const int descriptor = few_open(index, false, holder);
    untried = descriptor < 0;
    const int result = untried ? descriptor : synchronise(descriptor, false);
    if (result != 0) {
      return result;
    }
  }
  return 0;
}

}  // namespace tiermap::umap_interface
