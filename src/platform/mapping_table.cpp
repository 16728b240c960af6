#include "platform/mapping_table.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "platform/engine_thread.hpp"
#include "platform/futex.hpp"
#include "platform/own_descriptor.hpp"
#include "platform/process_maps.hpp"
#include "platform/signals_blocked.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t magic_and_version = 0x3130'5041'4D52'5449;  // "ITRMAP01" in memory.
constexpr std::size_t most_processes = 1024;
constexpr std::size_t most_entries = 4096;
constexpr std::uint32_t generation_bits = 22;
constexpr std::uint32_t generation_mask = (1U << generation_bits) - 1;

// The state of an entry, below its owner's 32 bits. Above these bits it counts the calls that are about to map the file.
constexpr std::uint32_t made = 1;  ///< Its file stands there.
constexpr std::uint32_t writing = 2;
constexpr std::uint32_t serving = 4;
constexpr std::uint32_t asked = 8;       ///< To give back what is served.
constexpr std::uint32_t answering = 16;  ///< It is being given back.
constexpr std::uint32_t one_coming = 32;

constexpr std::uint32_t owner_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32U);
}
constexpr std::uint32_t state_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word);
}
constexpr std::uint64_t word_of(std::uint32_t owner, std::uint32_t state) noexcept {
  return (std::uint64_t{owner} << 32U) | state;
}
constexpr std::size_t slot_of(std::uint32_t owner) noexcept {
  return owner >> generation_bits;
}

std::uint64_t own_process_namespace() noexcept {
  struct stat status = {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

/// For the bytes of `count` slots; false if another process has one of them.
bool lock_slots(int descriptor, std::size_t first, std::size_t count) noexcept {
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(first);
  range.l_len = static_cast<off_t>(count);
  return ::fcntl(descriptor, F_OFD_SETLK, &range) == 0;
}

/// By another process, or by a child of this one that has not closed it.
bool slot_is_locked(int descriptor, std::size_t slot) noexcept {
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(slot);
  range.l_len = 1;
  return ::fcntl(descriptor, F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

}  // namespace

struct MappingTable::Layout {
  struct Slot {
    std::atomic<std::uint32_t> generation;  ///< Of those who have had the slot.
    std::atomic<std::uint32_t> bell;        ///< Goes up when somebody asks for something.
    std::atomic<std::uint64_t> process;
    std::atomic<std::uint64_t> process_namespace;
  };

  struct Entry {
    std::atomic<std::uint64_t> word;  ///< 0 if it is free.
    std::atomic<std::uint64_t> device;
    std::atomic<std::uint64_t> inode;
    FileIdentity file() const noexcept { return {device.load(), inode.load()}; }
  };

  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> used;  ///< No entry from here on was ever taken.
  std::array<Slot, most_processes> slots;
  std::array<Entry, most_entries> entries;
};

MappingTable::Entry::~Entry() {
  if (table_ != nullptr) {
    table_->change_mine(index_, [](std::uint32_t state) { return state - one_coming; });
  }
}

std::string MappingTable::path_of_user() {
  return "/dev/shm/tiermap-mappings." + std::to_string(::geteuid());
}

MappingTable::MappingTable(GiveBack give_back, std::string path)
    : path_(std::move(path)), give_back_(std::move(give_back)) {
  constexpr int attempts = 200;  // The last process may be removing it, which does not take long.
  for (int attempt = 0; attempt < attempts; ++attempt) {
    if (join()) {
      return;
    }
    close();
    std::this_thread::sleep_for(std::chrono::milliseconds(attempt / 10));
  }
  throw PlatformError(EAGAIN, path_ + " has no room for another process: end some of the " +
                                  std::to_string(most_processes) + " that map files by Tiermap");
}

MappingTable::~MappingTable() {
  stop_answering();
  leave();
  for (std::size_t index = 0; index < used(); ++index) {
    change_mine(index, [](std::uint32_t) { return 0U; });
  }
  close();
}

// False if there is no slot, or the file has been removed in between. Throws PlatformError.
bool MappingTable::join() {
  descriptor_ =
      above_standard_streams(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  struct stat status = {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
    throw PlatformError(errno, path_ +
                                   ", where processes tell each other what they map, cannot be opened: make "
                                   "/dev/shm a file system in memory that can be written");
  }
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) {
    close();
    throw PlatformError(EPERM, path_ + " is not this user's: remove it");
  }
  // Reserved, since a full file system would turn the first write to a page into a SIGBUS.
  int result = 0;
  do {
    result = ::fallocate(descriptor_, 0, 0, sizeof(Layout));
  } while (result != 0 && errno == EINTR);
  void* const memory =
      result != 0 ? MAP_FAILED : ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) {
    const int error_number = errno;
    close();
    throw PlatformError(error_number, path_ + " cannot have its " + std::to_string(sizeof(Layout) >> 10U) +
                                          " KiB: make room in /dev/shm");
  }
  layout_ = static_cast<Layout*>(memory);
  std::uint64_t found = 0;
  if (!layout_->magic.compare_exchange_strong(found, magic_and_version) && found != magic_and_version) {
    close();
    throw PlatformError(EPROTO, path_ + " is of another version of Tiermap: end the programs that use that");
  }
  return take_slot() && is_named_file();
}

void MappingTable::close() noexcept {
  if (layout_ != nullptr) {
    ::munmap(layout_, sizeof(Layout));
    layout_ = nullptr;
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

bool MappingTable::is_named_file() const noexcept {
  struct stat named = {};
  struct stat opened = {};
  return ::stat(path_.c_str(), &named) == 0 && ::fstat(descriptor_, &opened) == 0 &&
         FileIdentity::of(named) == FileIdentity::of(opened);
}

bool MappingTable::take_slot() noexcept {
  for (std::size_t number = 0; number < most_processes; ++number) {
    if (!lock_slots(descriptor_, number, 1)) {
      continue;
    }
    Layout::Slot& slot = layout_->slots[number];
    const std::uint32_t next = (slot.generation.load() + 1) & generation_mask;
    const std::uint32_t generation = next == 0 ? 1 : next;
    slot.process.store(static_cast<std::uint64_t>(::getpid()));
    slot.process_namespace.store(own_process_namespace());
    slot.generation.store(generation);
    me_ = static_cast<std::uint32_t>(number << generation_bits) | generation;
    return true;
  }
  return false;
}

bool MappingTable::is_alive(std::uint32_t owner) const noexcept {
  const std::size_t slot = slot_of(owner);
  return layout_->slots[slot].generation.load() == (owner & generation_mask) && slot_is_locked(descriptor_, slot);
}

// As long as nobody can tell it does.
bool MappingTable::still_maps(std::uint32_t owner, FileIdentity file) const {
  const Layout::Slot& slot = layout_->slots[slot_of(owner)];
  if (slot.process_namespace.load() != own_process_namespace()) {
    return true;
  }
  bool found = false;
  const bool told = visit_kernel_mappings(std::to_string(slot.process.load()), [&](const KernelMapping& mapping) {
    found = mapping.inode == file.inode;
    return found;
  });
  return found || !told;
}

// Whether an entry of another process says nothing any more.
bool MappingTable::is_over(std::uint64_t word, FileIdentity file) const {
  const std::uint32_t state = state_of(word);
  if (!is_alive(owner_of(word))) {
    return true;
  }
  const bool by_kernel = state < one_coming && (state & (made | serving)) == made;
  return by_kernel && !still_maps(owner_of(word), file);
}

std::size_t MappingTable::used() const noexcept {
  return layout_ == nullptr ? 0 : std::min<std::size_t>(layout_->used.load(), most_entries);
}

std::optional<std::size_t> MappingTable::find_mine(FileIdentity file) const noexcept {
  const std::size_t end = used();
  for (std::size_t index = 0; index < end; ++index) {
    const Layout::Entry& entry = layout_->entries[index];
    if (owner_of(entry.word.load()) == me_ && entry.file() == file) {
      return index;
    }
  }
  return std::nullopt;
}

// No state at all: the entry is free. Others may ask, and take away what is over, at any time.
template <typename Change>
bool MappingTable::change_mine(std::size_t index, const Change& change) noexcept {
  std::atomic<std::uint64_t>& entry = layout_->entries[index].word;
  std::uint64_t word = entry.load();
  while (owner_of(word) == me_) {
    const std::uint32_t state = change(state_of(word));
    if (entry.compare_exchange_weak(word, state == 0 ? 0 : word_of(me_, state))) {
      return true;
    }
  }
  return false;
}

// Nothing if the table is full. A signal's handler may map files too.
std::optional<std::size_t> MappingTable::begin(FileIdentity file, bool writes, std::uint32_t coming) {
  const SignalsBlocked quiet;
  const std::lock_guard held(mine_);
  const std::uint32_t bits = made | (writes ? writing : 0);
  if (const auto known = find_mine(file)) {
    if (change_mine(*known, [&](std::uint32_t state) { return (state | bits) + coming; })) {
      return known;
    }
  }
  std::optional<std::size_t> claimed = claim(file, bits + coming);
  if (!claimed.has_value()) {
    clear_away();
    claimed = claim(file, bits + coming);
  }
  return claimed;
}

std::optional<std::size_t> MappingTable::claim(FileIdentity file, std::uint32_t state) noexcept {
  for (std::size_t index = 0; index < most_entries; ++index) {
    Layout::Entry& entry = layout_->entries[index];
    std::uint64_t free = 0;
    if (entry.word.load() != 0 || !entry.word.compare_exchange_strong(free, word_of(me_, 0))) {
      continue;
    }
    entry.device.store(file.device);
    entry.inode.store(file.inode);
    std::uint64_t known = layout_->used.load();
    while (known <= index && !layout_->used.compare_exchange_weak(known, index + 1)) {
    }
    entry.word.store(word_of(me_, state));
    return index;
  }
  return std::nullopt;
}

void MappingTable::clear_away() {
  for (Layout::Entry& entry : layout_->entries) {
    std::uint64_t word = entry.word.load();
    const FileIdentity file = entry.file();
    if (word != 0 && is_over(word, file)) {
      entry.word.compare_exchange_strong(word, 0);
    }
  }
}

MappingTable::Entered MappingTable::enter(FileIdentity file, bool writes) {
  const CancellationHeld held;  // What maps is no place where a thread is cancelled.
  const std::optional<std::size_t> index = begin(file, writes, one_coming);
  if (!index.has_value()) {
    return {Entry(), true};
  }
  Entered entered{Entry(*this, *index), false};
  if (look(file, writes, true) >= Other::asked) {
    wait_for_others(file, writes);
  }
  entered.by_others = look(file, writes, false) != Other::none;
  return entered;
}

bool MappingTable::serve(FileIdentity file) {
  start_answering();
  const auto index = find_mine(file);
  bool writes = false;
  const bool entered = index.has_value() && change_mine(*index, [&](std::uint32_t state) {
                         writes = (state & writing) != 0;
                         return state | serving;
                       });
  if (entered && look(file, writes, false) == Other::none) {
    return true;
  }
  stop_serving(file);
  return false;
}

void MappingTable::stop_serving(FileIdentity file) noexcept {
  if (const auto index = find_mine(file)) {
    change_mine(*index, [](std::uint32_t state) { return state & ~(serving | asked | answering); });
  }
}

void MappingTable::inherit(FileIdentity file, bool writes) {
  static_cast<void>(begin(file, writes, 0));
}

void MappingTable::forget(FileIdentity file) noexcept {
  if (const auto index = find_mine(file)) {
    change_mine(*index, [](std::uint32_t state) { return state < one_coming && (state & serving) == 0 ? 0 : state; });
  }
}

// What the others do with the file, where that and this are not to be had together: the most of it.
MappingTable::Other MappingTable::look(FileIdentity file, bool writes, bool ask) {
  Other most = Other::none;
  const std::size_t end = used();
  for (std::size_t index = 0; index < end; ++index) {
    most = std::max(most, look_at(index, file, writes, ask));
  }
  return most;
}

MappingTable::Other MappingTable::look_at(std::size_t index, FileIdentity file, bool writes, bool ask) {
  Layout::Entry& entry = layout_->entries[index];
  for (std::uint64_t word = entry.word.load();;) {
    const std::uint32_t owner = owner_of(word);
    const std::uint32_t state = state_of(word);
    // Who is making an entry looks for others after that.
    if (owner == 0 || owner == me_ || (state & made) == 0 || entry.file() != file ||
        (!writes && (state & writing) == 0)) {
      return Other::none;
    }
    const bool over = is_over(word, file);
    const bool newly_asked = !over && ask && (state & (serving | asked)) == serving;
    const std::uint64_t wanted = over ? 0 : newly_asked ? word | asked : word;
    if (!entry.word.compare_exchange_strong(word, wanted)) {
      continue;  // Its owner has changed it meanwhile, or it has another.
    }
    if (newly_asked) {
      ring(owner);
    }
    return over                                  ? Other::none
           : (state_of(wanted) & answering) != 0 ? Other::answers
           : (state_of(wanted) & asked) != 0     ? Other::asked
                                                 : Other::maps;
  }
}

void MappingTable::ring(std::uint32_t owner) noexcept {
  std::atomic<std::uint32_t>& bell = layout_->slots[slot_of(owner)].bell;
  bell.fetch_add(1);
  shared_futex_wake_all(&bell);
}

// It may be stopped, and then nobody may hang; or have much to write.
void MappingTable::wait_for_others(FileIdentity file, bool writes) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds until_it_begins{10};
  constexpr std::chrono::seconds until_it_ends{600};
  const Clock::time_point begun = Clock::now();
  std::chrono::microseconds pause{100};
  for (;;) {
    const Other other = look(file, writes, false);
    if (other < Other::asked || Clock::now() - begun > (other == Other::answers ? until_it_ends : until_it_begins)) {
      return;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(5000));
  }
}

void MappingTable::start_answering() {
  const std::lock_guard held(answering_);
  if (!thread_.joinable()) {
    stopping_ = false;
    thread_ = start_engine_thread("tiermap-gives", [this] { answer(); });
  }
}

void MappingTable::stop_answering() noexcept {
  const std::lock_guard held(answering_);
  if (thread_.joinable()) {
    stopping_ = true;
    ring(me_);
    thread_.join();
    thread_ = std::thread();
  }
}

void MappingTable::answer() {
  const std::atomic<std::uint32_t>& bell = layout_->slots[slot_of(me_)].bell;
  while (!stopping_) {
    const std::uint32_t rung = bell.load();
    bool all = true;
    for (std::size_t index = 0; index < used(); ++index) {
      all = answer_at(index) && all;
    }
    if (all && !stopping_) {
      shared_futex_wait(&bell, rung);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

// False if it cannot be answered now.
bool MappingTable::answer_at(std::size_t index) {
  const Layout::Entry& entry = layout_->entries[index];
  const std::uint64_t word = entry.word.load();
  if (owner_of(word) != me_ || (state_of(word) & asked) == 0) {
    return true;
  }
  change_mine(index, [](std::uint32_t state) { return (state & asked) != 0 ? state | answering : state; });
  const bool done = give_back_(entry.file());
  if (done) {
    change_mine(index, [](std::uint32_t state) { return state & ~(asked | answering); });
  }
  return done;
}

void MappingTable::leave() noexcept {
  if (lock_slots(descriptor_, 0, most_processes) && is_named_file()) {
    ::unlink(path_.c_str());
  }
}

void MappingTable::forget_parents() noexcept {
  close();
}

}  // namespace tiermap
