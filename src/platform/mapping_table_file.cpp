// The file of a table: who has a slot of it, and who is gone.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "platform/file_size_limit.hpp"
#include "platform/mapping_table.hpp"
#include "platform/mapping_table_layout.hpp"
#include "platform/own_descriptor.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// 0 where /proc is there for another namespace, as in some sandboxes: its numbers are other processes'.
std::uint64_t own_process_namespace() noexcept {
  char number[16] = {};
  if (::readlink("/proc/self", number, sizeof number - 1) <= 0 || std::to_string(::getpid()) != number) {
    return 0;
  }
  struct stat status = {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

struct flock slots(std::size_t first, std::size_t count) noexcept {
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(first);
  range.l_len = static_cast<off_t>(count);
  return range;
}

/// A full file system would turn the first write to a page into a SIGBUS. Sets errno if there is no room.
bool reserve(int descriptor, off_t has_bytes, off_t bytes) noexcept {
  if (has_bytes < bytes && !file_may_have(static_cast<std::uint64_t>(bytes))) {
    errno = EFBIG;
    return false;
  }
  int result = 0;
  do {
    result = ::fallocate(descriptor, 0, 0, bytes);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

}  // namespace

/// Of the table's file, for a moment.
class MappingTable::Descriptor {
 public:
  Descriptor(const std::string& path, int flags) noexcept
      : number_(
            above_standard_streams(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, S_IRUSR | S_IWUSR))) {}
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const noexcept { return number_; }

  bool is(FileIdentity file) const noexcept {
    struct stat opened = {};
    return ::fstat(number_, &opened) == 0 && FileIdentity::of(opened) == file;
  }
  bool is_named(const std::string& path) const noexcept {
    struct stat named = {};
    return ::stat(path.c_str(), &named) == 0 && is(FileIdentity::of(named));
  }
  /// False if somebody else, by another opening, has one of the slots.
  bool lock(std::size_t first, std::size_t count) const noexcept {
    struct flock range = slots(first, count);
    return count == 0 || ::fcntl(number_, F_OFD_SETLK, &range) == 0;
  }
  /// By another opening. As long as nobody can tell it is.
  bool is_locked(std::size_t slot) const noexcept {
    struct flock range = slots(slot, 1);
    return ::fcntl(number_, F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
  }

 private:
  int number_;
};

std::string MappingTable::path_of_user() {
  return "/dev/shm/tiermap-mappings." + std::to_string(::geteuid());
}

MappingTable::MappingTable(GiveBack give_back, ShareOut share_out, std::string path)
    : path_(std::move(path)),
      give_back_(std::move(give_back)),
      share_out_(std::move(share_out)),
      process_namespace_(own_process_namespace()) {
  constexpr int attempts = 200;  // The last process may be removing it, which does not take long.
  for (int attempt = 0; attempt < attempts; ++attempt) {
    if (join()) {
      return;
    }
    unmap();
    std::this_thread::sleep_for(std::chrono::milliseconds(attempt / 10));
  }
  throw PlatformError(EAGAIN, path_ + " has no room for another process: end some of the " +
                                  std::to_string(Layout::most_processes) + " that map files by Tiermap");
}

// False if there is no slot, or the file has been removed in between. Throws PlatformError.
bool MappingTable::join() {
  {
    const Descriptor file(path_, O_CREAT);
    if (!map(file) || !take_slot(file) || !file.is_named(path_)) {
      return false;
    }
  }
  const Descriptor another(path_, 0);
  if (another.number() >= 0 && !another.is_locked(Layout::slot_of(me_))) {
    unmap();
    throw PlatformError(ENOTSUP, "locks of mapped files do not last here: " + path_ + " is of no use");
  }
  return true;
}

// False if it was another version's, and is gone now. Throws PlatformError, and nothing is mapped then.
bool MappingTable::map(const Descriptor& file) {
  struct stat status = {};
  if (file.number() < 0 || ::fstat(file.number(), &status) != 0) {
    throw PlatformError(errno, path_ +
                                   ", where processes tell each other what they map, cannot be opened: make "
                                   "/dev/shm a file system in memory that can be written");
  }
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) {
    throw PlatformError(EPERM, path_ + " is not this user's: remove it");
  }
  const bool reserved = reserve(file.number(), status.st_size, sizeof(Layout));
  void* const memory =
      reserved ? ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0) : MAP_FAILED;
  if (memory == MAP_FAILED) {
    throw PlatformError(
        errno, path_ + " cannot have its " + std::to_string(sizeof(Layout) >> 10U) + " KiB: make room in /dev/shm");
  }
  layout_ = static_cast<Layout*>(memory);
  std::uint64_t found = 0;
  const bool known =
      layout_->magic.compare_exchange_strong(found, Layout::magic_and_version) || found == Layout::magic_and_version;
  // A child of fork() would hold the lock as well.
  if (!known || ::madvise(memory, sizeof(Layout), MADV_DONTFORK) != 0) {
    unmap();
    // What was killed, or became another program, has left it.
    if ((found & Layout::magic_mask) == (Layout::magic_and_version & Layout::magic_mask) &&
        file.lock(0, sizeof(Layout)) && file.is_named(path_) && ::unlink(path_.c_str()) == 0) {
      return false;
    }
    throw PlatformError(EPROTO, path_ + " is of another version of Tiermap: end the programs that use that");
  }
  file_ = FileIdentity::of(status);
  return true;
}

void MappingTable::unmap() noexcept {
  if (layout_ != nullptr) {
    ::munmap(layout_, sizeof(Layout));
    layout_ = nullptr;
  }
}

bool MappingTable::take_slot(const Descriptor& file) noexcept {
  for (std::size_t number = 0; number < Layout::most_processes; ++number) {
    if (!file.lock(number, 1)) {
      continue;
    }
    Layout::Slot& slot = layout_->slots[number];
    const std::uint32_t next = (slot.generation.load() + 1) & Layout::generation_mask;
    const std::uint32_t generation = next == 0 ? 1 : next;
    slot.process.store(static_cast<std::uint64_t>(::getpid()));
    slot.process_namespace.store(process_namespace_);
    slot.sharing.store(0);
    slot.taking.store(0);
    slot.generation.store(generation);
    me_ = static_cast<std::uint32_t>(number << Layout::generation_bits) | generation;
    return true;
  }
  return false;
}

bool MappingTable::is_alive(std::uint32_t owner) const noexcept {
  const std::size_t slot = Layout::slot_of(owner);
  if (layout_->slots[slot].generation.load() != (owner & Layout::generation_mask)) {
    return false;
  }
  const Descriptor file(path_, 0);
  return !file.is(file_) || file.is_locked(slot);
}

void MappingTable::leave() noexcept {
  const Descriptor file(path_, 0);
  const std::size_t mine = Layout::slot_of(me_);
  // Nobody can join meanwhile.
  if (file.is(file_) && file.lock(0, mine) && file.lock(mine + 1, Layout::most_processes - mine - 1)) {
    ::unlink(path_.c_str());
  }
}

}  // namespace tiermap
