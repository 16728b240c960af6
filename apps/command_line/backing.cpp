#include "command_line/backing.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cluster/schemes.hpp"
#include "config/size.hpp"
#include "store/file_open.hpp"
#include "store/store_url.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Whether it is a data set that others find on its server as soon as it is made, and that stays there.
bool is_lasting_data_set(const std::string& url) {
  const StoreUrl parsed = parse_store_url(url);
  const std::pair<std::string, std::string> temporary{"temporary", "true"};
  return parsed.scheme == "remote" &&
         std::find(parsed.options.begin(), parsed.options.end(), temporary) == parsed.options.end();
}

/// Whether it is a data set that a memory server has, or that opening will say more about: one that is in use, or whose
/// server is not there. What is temporary is always new.
bool is_served(const std::string& url) {
  if (!url.starts_with("remote:") || !is_lasting_data_set(url)) {
    return false;
  }
  try {
    open_store(url, OpenMode::read_only);
    return true;
  } catch (const StoreError& error) {
    if (error.code().value() != ENOENT && error.code().value() != EBUSY) {
      throw;
    }
    return error.code().value() == EBUSY;
  }
}

/// Where on disk a store that is to be made will be: itself, the file that an array in HDF5 or Parquet is in, or what
/// is behind tiers. Empty if there is no such place, or something is there already that is not this store's alone.
std::string path_to_make(const std::string& url) {
  const StoreUrl parsed = parse_store_url(url);
  if (const std::string path = path_on_disk(parsed); !path.empty()) {
    return path;
  }
  std::string path;
  if (parsed.scheme == "hdf5") {
    path = parse_dataset_place(parsed).file;
  } else if (parsed.scheme == "parquet") {
    path = percent_decode(local_path(parsed, "parquet:///directory/file.parquet"), url);
  } else if (parsed.scheme == "tiered") {
    for (const auto& [name, value] : parsed.options) {
      path = name == "store" ? path_to_make(value) : path;
    }
  }
  return path.empty() || path_exists(path) ? std::string() : path;
}

/// For what could not be written.
const char* remedy_for(int number) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return full ? "make room there, or name a file elsewhere" : "see to its disk";
}

bool is_regular_file(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

std::string path_of_store(const std::string& url) {
  try {
    return path_on_disk(parse_store_url(url));
  } catch (const StoreError&) {
    return {};
  }
}

void check_room_for(const std::string& path, std::uint64_t bytes) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  struct statvfs room{};
  if (::statvfs(folder.c_str(), &room) != 0) {
    return;  // Opening will say better what is wrong with the path.
  }
  const std::uint64_t free_bytes = std::uint64_t{room.f_bavail} * room.f_frsize;
  if (free_bytes < bytes) {
    throw OptionError(
        fmt::format("{} has room for {}, not for {}: make room there, choose another folder, or have less made", folder,
                    format_size_rounded(free_bytes), format_size_rounded(bytes)),
        ENOSPC);
  }
}

Backing::Backing(std::string url, std::shared_ptr<Store> store) : url_(std::move(url)), store_(std::move(store)) {
  const std::string path = path_of_store(url_);
  if (!path.empty() && is_regular_file(path)) {
    plain_path_ = path;
  }
}

Backing Backing::open(const std::string& url, bool writable) {
  return {url, open_store(url, writable ? OpenMode::read_write : OpenMode::read_only)};
}

Backing Backing::create(const std::string& url, std::uint64_t bytes) {
  if (is_lasting_data_set(url)) {
    Backing backing(url, create_unkept_data_set(url, bytes));
    backing.is_unkept_ = true;
    return backing;
  }
  if (const std::string path = path_of_store(url); !path.empty()) {
    check_room_for(path, bytes);
  }
  const std::string path = path_to_make(url);
  return make_uninterrupted(path, [&] {
    Backing backing(url, open_store(url, OpenMode::create, bytes));
    backing.made_path_ = path;
    return backing;
  });
}

Backing Backing::create_unfinished(const std::string& url, std::uint64_t bytes) {
  const std::string path = path_of_store(url);
  if (path.empty()) {
    return create(url, bytes);
  }
  if (path.ends_with('/') && names_one_file(url)) {
    throw OptionError(fmt::format("{} is a folder's name, by the slash at its end: name a file", url));
  }
  refuse_left_behind(partial_path(path));
  // The options of a URL are behind the name.
  const std::size_t name_end = is_plain_path(url) ? url.size() : std::min(url.find('?'), url.size());
  Backing backing = create(partial_path(url.substr(0, name_end)) + url.substr(name_end), bytes);
  backing.final_path_ = path;
  backing.final_url_ = url;
  return backing;
}

Backing Backing::around(std::shared_ptr<Store> store) {
  std::string name = store->name();
  return {std::move(name), std::move(store)};
}

Backing::Backing(Backing&& other) noexcept
    : url_(std::move(other.url_)),
      plain_path_(std::move(other.plain_path_)),
      made_path_(std::exchange(other.made_path_, {})),
      final_path_(std::move(other.final_path_)),
      final_url_(std::move(other.final_url_)),
      is_unkept_(std::exchange(other.is_unkept_, false)),
      store_(std::move(other.store_)) {}

Backing& Backing::operator=(Backing&& other) noexcept {
  std::swap(url_, other.url_);
  std::swap(plain_path_, other.plain_path_);
  std::swap(made_path_, other.made_path_);
  std::swap(final_path_, other.final_path_);
  std::swap(final_url_, other.final_url_);
  std::swap(is_unkept_, other.is_unkept_);
  std::swap(store_, other.store_);
  return *this;
}

Backing::~Backing() {
  remove();
}

void Backing::keep() {
  if (const int result = is_unkept_ ? keep_data_set(*store_) : 0; result != 0) {
    throw StoreError(-result, fmt::format("{} cannot be kept on all its servers ({}): see to them, and make it again",
                                          url_, std::generic_category().message(-result)));
  }
  is_unkept_ = false;
  forget();
}

void Backing::forget() noexcept {
  keep_if_interrupted(made_path_);
  made_path_.clear();
}

void Backing::remove() noexcept {
  store_.reset();
  if (!made_path_.empty()) {
    remove_made(made_path_);
    forget();
  }
}

void Backing::finish() {
  if (final_path_.empty()) {
    return;
  }
  store_.reset();
  rename_made(made_path_, final_path_);
  made_path_ = std::exchange(final_path_, {});
  url_ = std::move(final_url_);
  plain_path_ = plain_path_.empty() ? std::string() : made_path_;
  store_ = open_store(url_, OpenMode::read_write);
}

void Backing::require_size(std::uint64_t bytes, std::string_view whose) const {
  if (size_bytes() != bytes) {
    throw OptionError(fmt::format("{} has {}, not the {} of {}: name a file that is not there yet", url_,
                                  format_size(size_bytes()), format_size(bytes), whose));
  }
}

void Backing::make_cold() {
  if (const int result = store_->flush(); result < 0) {
    throw StoreError(-result, fmt::format("{} cannot be made durable ({}): {}, and run it again", url_,
                                          std::generic_category().message(-result), remedy_for(-result)));
  }
  if (plain_path_.empty()) {
    return;
  }
  const int descriptor = ::open(plain_path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fdatasync(descriptor);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
  }
}

void Backing::reopen_read_only() {
  if (!path_of_store(url_).empty()) {
    store_.reset();
    store_ = open_store(url_, OpenMode::read_only);
  }
}

bool backing_exists(const std::string& url) {
  const std::string path = path_of_store(url);
  if (path.empty()) {
    return is_served(url);
  }
  const bool exists = path_exists(path);
  if (struct stat status{}; !exists && ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
    throw OptionError(fmt::format("{} is a link that leads nowhere: name what it is to lead to, or remove it", path));
  }
  return exists;
}

void refuse_left_behind(const std::string& path) {
  if (path_exists(path)) {
    throw OptionError(fmt::format(
        "{} is there: a run that was killed has left it, or one goes on: remove it, or name another file", path));
  }
}

bool is_plain_path(const std::string& url) {
  return parse_store_url(url).scheme.empty();
}

bool names_one_file(const std::string& url) {
  const StoreUrl parsed = parse_store_url(url);
  return parsed.scheme.empty() || (parsed.scheme == "file" && !has_wildcard(parsed.path));
}

std::string scratch_path(const std::string& program, const std::string& what) {
  const char* folder = std::getenv("TMPDIR");
  if (folder != nullptr && *folder != '\0' && !std::filesystem::is_directory(folder)) {
    throw OptionError(fmt::format("TMPDIR is {}, which is no directory: set it to one, or name a --file", folder));
  }
  // Not /tmp: on many machines it is memory, and what is measured here is what does not fit in memory.
  return fmt::format("{}/{}.{}.{}", folder != nullptr && *folder != '\0' ? folder : "/var/tmp", program, ::getpid(),
                     what);
}

void read_fully(Store& store, void* buffer, std::uint64_t bytes, std::uint64_t offset) {
  for (std::uint64_t done = 0; done < bytes;) {
    const std::int64_t result = store.read(static_cast<std::byte*>(buffer) + done, bytes - done, offset + done);
    if (result <= 0) {
      const int number = result < 0 ? static_cast<int>(-result) : EIO;
      throw StoreError(number,
                       fmt::format("{} cannot be read at byte {} ({}): see to the file and its disk, and run it "
                                   "again",
                                   store.name(), offset + done,
                                   result == 0 ? "it ends there" : std::generic_category().message(number)));
    }
    done += static_cast<std::uint64_t>(result);
  }
}

void write_fully(Store& store, const void* buffer, std::uint64_t bytes, std::uint64_t offset) {
  for (std::uint64_t done = 0; done < bytes;) {
    const std::int64_t result = store.write(static_cast<const std::byte*>(buffer) + done, bytes - done, offset + done);
    if (result <= 0) {
      const int number = result < 0 ? static_cast<int>(-result) : EIO;
      throw StoreError(number, fmt::format("{} cannot be written at byte {} ({}): {}, and run it again", store.name(),
                                           offset + done, std::generic_category().message(number), remedy_for(number)));
    }
    done += static_cast<std::uint64_t>(result);
  }
}

AlignedBuffer::AlignedBuffer(std::uint64_t bytes) : bytes_(bytes) {
  const std::size_t rounded = (static_cast<std::size_t>(bytes) + 4095) / 4096 * 4096;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, std::max<std::size_t>(rounded, 4096))));
  if (!memory_) {
    throw std::bad_alloc();
  }
}

void AlignedBuffer::Free::operator()(std::byte* memory) const noexcept {
  std::free(memory);
}

}  // namespace tiermap
