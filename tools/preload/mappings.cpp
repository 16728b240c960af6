// Which mappings are served, and how they come to be.
#include "preload/mappings.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <new>

#include "config/resolve.hpp"
#include "platform/memory_limits.hpp"
#include "platform/page_sizes.hpp"
#include "platform/signals_blocked.hpp"
#include "platform/userfaultfd.hpp"
#include "preload/kernel_calls.hpp"
#include "preload/locking.hpp"
#include "preload/mapped_by_kernel.hpp"
#include "preload/program_threads.hpp"
#include "preload/reasons.hpp"
#include "run/go_program.hpp"
#include "store/file_descriptor.hpp"
#include "tiermap/error.hpp"

#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace tiermap::preload {
namespace {

constexpr const char* mapped_twice = "the kernel maps the file as well, and one of the mappings can be written";
constexpr const char* parts_locked =
    "the program locks parts of the file for writing, as others may do with parts beside them";
constexpr const char* logged =
    "it belongs to a database of SQLite's with a write-ahead log: other processes may change it without a lock on it";
/// What SQLite calls the file through which the processes that use such a database tell each other of the log.
constexpr std::string_view log_index_ending = "-shm";
/// It is mapped by multiples of this. Of windows of a page that a program maps anew and anew the name is not looked up.
constexpr std::uint64_t log_index_piece_bytes = 32 << 10;
constexpr int type_mask = MAP_SHARED | MAP_PRIVATE;
constexpr int understood_flags = MAP_SHARED | MAP_PRIVATE | MAP_SHARED_VALIDATE | MAP_FIXED | MAP_FIXED_NOREPLACE |
                                 MAP_POPULATE | MAP_NONBLOCK | MAP_NORESERVE | MAP_DENYWRITE | MAP_EXECUTABLE |
                                 MAP_STACK | MAP_FILE;

std::string path_of(int descriptor) {
  char target[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  return length < 0 ? link : std::string(target, static_cast<std::size_t>(length));
}

/// Whether the kernel takes all of that but the address, which is tried elsewhere. Sets errno if not.
bool kernel_would_map(const MapRequest& request) noexcept {
  if (reinterpret_cast<std::uintptr_t>(request.address) % kernel_page_bytes != 0) {
    errno = EINVAL;
    return false;
  }
  void* const tried = kernel::map(nullptr, request.length, request.protection,
                                  request.flags & ~MAP_FIXED & ~MAP_POPULATE, request.descriptor, request.offset);
  return tried != MAP_FAILED && kernel::unmap(tried, request.length) == 0;
}

/// The program keeps at least the other half.
int most_descriptors() noexcept {
  rlimit limit = {};
  const bool bounded = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < INT_MAX;
  return bounded ? static_cast<int>(limit.rlim_max / 2) : INT_MAX;
}

/// What the engine keeps in reserve, more than there is memory, would take what the program is to have.
bool addresses_are_limited() noexcept {
  return address_limit_bytes() != MachineMemory::unlimited;
}

/// What such a program stores would be lost at its end, of which no library is told.
bool written_in_go() {
  static const bool go = is_go_program(FileDescriptor(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)).get());
  return go;
}

int access_mode(int descriptor) noexcept {
  return ::fcntl(descriptor, F_GETFL) & O_ACCMODE;
}

/// Of the file. A mapping that can be written, and the file behind a descriptor that can, may be made as large as the
/// program likes (nothing is returned then); of other files no more can come into memory than there is.
std::optional<std::uint64_t> most_in_memory(const MapRequest& request, const struct stat& status) {
  const auto offset = static_cast<std::uint64_t>(request.offset);
  if ((request.protection & PROT_WRITE) != 0 || request.length > INT64_MAX - offset) {
    return std::nullopt;
  }
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  return access_mode(request.descriptor) != O_RDONLY ? std::max(bytes, offset + request.length) : bytes;
}

bool is_fixed(const MapRequest& request) noexcept {
  return (request.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
}

bool replaces(const MapRequest& request) noexcept {
  return (request.flags & MAP_FIXED) != 0 && (request.flags & MAP_FIXED_NOREPLACE) != MAP_FIXED_NOREPLACE;
}

/// To serve a place it is closed for a moment, which the kernel never does: whoever touched it then would get a signal.
bool others_may_touch(const MapRequest& request) {
  return can_be_touched(request.address, kernel::round_up(request.length)) && other_threads_run(::gettid());
}

}  // namespace

int& Inside::depth() noexcept {
  static thread_local int depth [[gnu::tls_model("initial-exec")]] = 0;
  return depth;
}

bool MapRequest::stores() const noexcept {
  return (protection & PROT_WRITE) != 0 && (flags & type_mask) != MAP_PRIVATE;
}

bool MapRequest::may_store_later() const noexcept {
  return (flags & MAP_ANONYMOUS) == 0 && (flags & type_mask) != MAP_PRIVATE && !stores() &&
         access_mode(descriptor) == O_RDWR;
}

bool Mapping::is_private() const noexcept {
  return (request.flags & type_mask) == MAP_PRIVATE;
}

bool Mapping::shared_and_writable() const noexcept {
  return request.stores();
}

Mappings::Mappings(Settings settings) : settings_(std::move(settings)), outcome_(settings_), owner_(::getpid()) {
  if (settings_.report == "-") {
    own_descriptors_.add(outcome_.keep_standard_error());
  }
}

bool Mappings::owned_by_caller() const noexcept {
  return ::getpid() == owner_;
}

void* Mappings::map(const MapRequest& request) {
  // By what is the kernel's, and made writable or changed by calls later, of which nobody is told.
  const bool stores_later = request.may_store_later();
  const bool is_small = request.length < settings_.minimum_bytes;
  const MappingTable::Entered entered = enter(request, request.stores() || (stores_later && is_small));
  void* const memory = map_entered(request, entered);
  if (memory != MAP_FAILED && stores_later && !is_small && !served_.overlap(memory, request.length)) {
    static_cast<void>(enter(request, true));
  }
  return memory;
}

void* Mappings::map_entered(const MapRequest& request, const MappingTable::Entered& entered) {
  const Changing changing(lock_);
  struct stat status = {};
  const bool is_file = (request.flags & MAP_ANONYMOUS) == 0 && kernel::status(request.descriptor, &status) == 0 &&
                       S_ISREG(status.st_mode);
  if (replaces(request) && served_.overlap(request.address, kernel::round_up(request.length))) {
    if (!kernel_would_map(request)) {
      return MAP_FAILED;
    }
    if (const int error = make_way(static_cast<std::byte*>(request.address), kernel::round_up(request.length))) {
      errno = error;
      return MAP_FAILED;
    }
  }
  if (is_file && (request.flags & MAP_SHARED) != 0 && request.length % log_index_piece_bytes == 0) {
    leave_logged_database(request.descriptor, FileIdentity::of(status));
  }
  // A length that is rounded up to nothing is for the kernel to refuse.
  if (!is_file || kernel::round_up(request.length) == 0) {
    return map_by_kernel(request, is_file ? &status : nullptr);
  }
  if (request.length < settings_.minimum_bytes) {
    pass_over_small(request, FileIdentity::of(status));
    return map_by_kernel(request, &status);
  }
  try {
    const std::string path = path_of(request.descriptor);
    const char* const unchosen = why_not_chosen(settings_, path, (request.flags & type_mask) == MAP_PRIVATE);
    const char* reason = unchosen != nullptr ? unchosen : why_not(request);
    reason = reason != nullptr ? reason : why_not_beside_others(request, entered);
    const FileIdentity file = FileIdentity::of(status);
    // Of what nobody reports or serves it need not be known.
    const bool asked = reason == nullptr || (unchosen != nullptr && outcome_.wanted());
    const std::optional<std::uint64_t> most = asked ? most_in_memory(request, status) : std::nullopt;
    if (reason == nullptr && most.has_value() && fitting().admit(file, *most)) {
      reason = reasons::fits;
    }
    if (reason != nullptr) {
      const bool advised = unchosen != nullptr && most.has_value();
      outcome_.left_to_kernel(path, reason, advised && fitting().has_room(file, *most));
    } else if (const std::optional<void*> served = try_serve(request, status, path)) {
      return *served;
    }
  } catch (const std::exception& error) {  // The kernel can do without memory of ours.
  }
  return map_by_kernel(request, &status);
}

void Mappings::pass_over_small(const MapRequest& request, FileIdentity file) noexcept {
  if (!outcome_.wanted()) {
    return;
  }
  try {
    const std::string path = path_of(request.descriptor);
    const bool is_private = (request.flags & type_mask) == MAP_PRIVATE;
    const char* const reason = why_small_not_chosen(settings_, path, is_private);
    const auto known = histories_.find(file);
    const char* const in_any_size = known != histories_.end() && known->second.logged ? logged : why_not(request);
    if (reason == reasons::small && in_any_size != nullptr) {
      outcome_.left_to_kernel(path, in_any_size);
    } else {
      outcome_.passed_over(path, reason, request.length);
    }
  } catch (const std::exception&) {  // A report without it.
  }
}

// A mapping by the kernel and a region of the same file are two copies of its bytes: while one of them can be written,
// both must be the kernel's. A mapping that is only read is made writable behind our back where its descriptor allows
// that; a private one shows what others write as long as it has not been written to itself.
void Mappings::note_kernel_mapping(FileIdentity file, bool may_write) {
  if (histories_.size() >= most_histories_) {
    forget_unmapped_files();
  }
  histories_[file].note_kernel_mapping(may_write);
  if (may_write && table_ != nullptr) {
    table_->note_writing(file);
  }
  if (served_.hold(file, !may_write)) {
    convert_file(file, mapped_twice, !may_write);
  }
}

// Who moves what is in the log to the database says so in the index alone: no lock on the database ends, and no call of
// ours sees it.
void Mappings::leave_logged_database(int descriptor, FileIdentity index) noexcept {
  try {
    const std::string path = path_of(descriptor);
    struct stat status = {};
    if (!path.ends_with(log_index_ending) ||
        ::stat(path.substr(0, path.size() - log_index_ending.size()).c_str(), &status) != 0 ||
        !S_ISREG(status.st_mode)) {
      return;
    }
    const FileIdentity database = FileIdentity::of(status);
    for (const FileIdentity file : {database, index}) {
      histories_[file].logged = true;
      if (served_.hold(file, false)) {
        convert_file(file, logged, false);
      }
    }
  } catch (const std::exception& error) {
    Outcome::complain(error.what());
  }
}

// What is written back is whole blocks: what another process has stored beside a part that is locked would be lost.
void Mappings::note_lock_of_part(FileIdentity file) {
  const Changing changing(lock_);
  histories_[file].parts_locked = true;
  if (served_.hold(file, true)) {
    convert_file(file, parts_locked, true);
  }
}

void* Mappings::map_by_kernel(const MapRequest& request, const struct stat* status) {
  void* const memory = kernel::map(request.address, request.length, request.protection, request.flags,
                                   request.descriptor, request.offset);
  if (memory != MAP_FAILED && status != nullptr) {
    const bool is_shared = (request.flags & type_mask) != MAP_PRIVATE;
    note_kernel_mapping(FileIdentity::of(*status), is_shared && access_mode(request.descriptor) == O_RDWR);
  }
  return memory;
}

const char* Mappings::why_not(const MapRequest& request) const {
  if (const char* reason = refuse_all_.load()) {
    return reason;
  }
  if (written_in_go()) {
    return "the program is written in Go, and calls the kernel itself";
  }
  if (cache_ == nullptr && addresses_are_limited()) {
    return "the program's addresses are limited (ulimit -v or -d)";
  }
  const bool writes = (request.protection & PROT_WRITE) != 0;
  const bool is_private = (request.flags & type_mask) == MAP_PRIVATE;
  if ((request.flags & type_mask) == 0) {
    return "it is neither shared nor private";
  }
  if ((request.protection & PROT_EXEC) != 0) {
    return "it is to be executed";
  }
  if ((request.protection & PROT_READ) == 0) {
    return "it is not to be read";
  }
  if ((request.flags & ~understood_flags) != 0) {
    return "a flag asks for what only the kernel has (locked, huge or growing memory, direct access)";
  }
  const int mode = ::fcntl(request.descriptor, F_GETFL);
  if (mode < 0 || (mode & O_PATH) != 0 || (mode & O_ACCMODE) == O_WRONLY ||
      (writes && !is_private && (mode & O_ACCMODE) != O_RDWR)) {
    return "the descriptor does not allow it";
  }
  if (request.offset < 0 || request.offset % static_cast<off_t>(kernel::page_bytes) != 0) {
    return "the offset is none";
  }
  if (lies_in_memory(request.descriptor)) {
    return "it lies in memory already";
  }
  if (settings_.read_only && writes && !is_private) {
    return reasons::only_reading;
  }
  if (replaces(request) && others_may_touch(request)) {
    return "it takes the place of memory that other threads may be using";
  }
  return nullptr;
}

// With the other mappings of the same file, and with what cannot be seen of it.
const char* Mappings::why_not_shared(const MapRequest& request, FileIdentity file) {
  const bool writes = request.stores();
  const auto known = histories_.find(file);
  if (known != histories_.end()) {
    FileHistory& history = known->second;
    if (history.logged) {
      return logged;
    }
    if (history.kernel_writes || (history.kernel_maps && writes)) {
      if (mapped_by_kernel(file)) {
        return mapped_twice;
      }
      history.kernel_maps = history.kernel_writes = false;
    }
    if (history.parts_locked && writes) {
      return parts_locked;
    }
    if (history.writing_streams > 0 || (history.streams > 0 && writes)) {
      return "a stream of stdio is open on the file";
    }
  }
  if (served_.hold(file, !writes)) {
    convert_file(file, "the file is mapped twice, and one of the mappings can be written", !writes);
    return "the file is mapped twice, and one of the mappings can be written";
  }
  return nullptr;
}

bool Mappings::start_cache() {
  if (cache_ != nullptr || cache_refused_) {
    return cache_ != nullptr;
  }
  cache_refused_ = true;
  try {
    const UserfaultfdProbe probe = probe_userfaultfd();
    if (probe.available && probe.user_mode_only) {
      throw PlatformError(
          EPERM, "system calls that are handed absent pages cannot be served: " + probe.attempts.front().remedy);
    }
    const OwnDescriptors::Watch watch(own_descriptors_);
    CacheOptions options;
    options.fault_mode = FaultMode::notify;
    options.budget_bytes = fitting().close(read_mapped_numbers("self"));
    cache_ = new Cache(options);
    cache_refused_ = false;
    share_memory();
  } catch (const std::exception& error) {
    cache_problem_ = error.what();
  }
  return cache_ != nullptr;
}

std::optional<void*> Mappings::try_serve(const MapRequest& request, const struct stat& status,
                                         const std::string& path) {
  note_earlier_mappings();
  if (const char* reason = why_not_shared(request, FileIdentity::of(status)); reason != nullptr) {
    outcome_.left_to_kernel(path, reason);
    return std::nullopt;
  }
  const bool starts = cache_ == nullptr;
  if (!start_cache()) {
    outcome_.left_to_kernel(path, cache_problem_);
    return std::nullopt;
  }
  if (table_ != nullptr && !table_->serve(FileIdentity::of(status))) {
    convert_file(FileIdentity::of(status), reasons::mapped_by_others, false);
    outcome_.left_to_kernel(path, reasons::mapped_by_others);
    return std::nullopt;
  }
  RegionOptions options;
  options.length = kernel::round_up(request.length);
  options.address = request.address;
  options.replacement = replaces(request) ? Replacement::mapping : Replacement::none;
  try {
    std::unique_ptr<Mapping> mapping;
    try {
      mapping = make_mapping(request, status, path, options);
    } catch (const Error&) {
      if (request.address == nullptr || is_fixed(request)) {
        throw;
      }
      options.address = nullptr;  // It was a wish only.
      mapping = make_mapping(request, status, path, options);
    }
    std::byte* start = mapping->start;
    if ((request.flags & MAP_POPULATE) != 0) {
      mapping->region.advise(Advice::will_need);
    }
    prepare_end(mapping->shared_and_writable());
    outcome_.served(path, mapping->bytes);
    mappings_.insert(std::ranges::upper_bound(mappings_, start, {}, [](const auto& other) { return other->start; }),
                     std::move(mapping));
    return start;
  } catch (const Error& error) {
    outcome_.left_to_kernel(path, error.what());
    tell_others_of_end(FileIdentity::of(status));
    if (starts && error.code().value() == EMFILE) {
      give_up_cache(error.what());
    }
    return std::nullopt;
  }
}

// An engine that serves nothing has some seven descriptors, of a program that may have few more.
void Mappings::give_up_cache(const char* problem) {
  cache_problem_ = problem;
  cache_refused_ = end_cache(problem);
}

std::unique_ptr<Mapping> Mappings::make_mapping(const MapRequest& request, const struct stat& status,
                                                const std::string& path, const RegionOptions& wanted) {
  if (served_.full()) {
    throw Error(ENOMEM, "1,024 mappings are served already");
  }
  auto mapping = std::make_unique<Mapping>();
  const bool is_private = (request.flags & type_mask) == MAP_PRIVATE;
  const bool writes = (request.protection & PROT_WRITE) != 0;
  const bool store_writes = !is_private && (::fcntl(request.descriptor, F_GETFL) & O_ACCMODE) == O_RDWR;
  RegionOptions options = wanted;
  options.access = writes ? Access::read_write : Access::read_only;
  const ResolvedRegionOptions resolved = resolve(options);
  page_bytes_ = resolved.page_size_follows_access ? 0 : resolved.page_size_bytes;
  if (options.address != nullptr) {
    // Smaller pages, where the address asks for that.
    const std::uint64_t alignment = std::uint64_t{1}
                                    << std::countr_zero(reinterpret_cast<std::uintptr_t>(options.address));
    if (alignment < std::min(resolved.page_size_bytes, std::uint64_t{2} << 20)) {
      page_bytes_ = alignment;
      options.page_size_bytes = alignment;
    }
  }
  options.offset = static_cast<std::uint64_t>(request.offset);
  mapping->store = std::make_shared<MappedFileStore>(request.descriptor, path);
  try {
    mapping->store->open(path, store_writes);
    std::shared_ptr<Store> store = mapping->store;
    if (is_private && writes) {
      mapping->overlay = std::make_shared<OverlayStore>(mapping->store, options.offset + options.length);
      store = mapping->overlay;
    }
    if (std::ranges::max(mapping->descriptors()) > most_descriptors()) {
      throw Error(EMFILE, "half of the descriptors that the program may have are in use");
    }
    mapping->region = cache_->map(std::move(store), options);
  } catch (...) {
    retire_if_locked(FileIdentity::of(status), mapping->store);
    throw;
  }
  mapping->request = request;
  mapping->start = mapping->region.data();
  mapping->bytes = options.length;
  mapping->file = FileIdentity::of(status);
  mapping->path = path;
  mapping->changed = settled(changed_at(status));
  mapping->slot = served_.add(mapping->start, mapping->bytes, mapping->file, mapping->shared_and_writable());
  own_descriptors_.add_all(mapping->descriptors());
  if (!changes_under_way_.wait_until_ended(mapping->file)) {
    served_.remove(mapping->slot);
    mapping->region.unmap();
    if (!retire_if_locked(mapping->file, mapping->store)) {
      own_descriptors_.remove_all(mapping->descriptors());
    }
    throw Error(EBUSY, "a call that began before is changing the file");
  }
  return mapping;
}

}  // namespace tiermap::preload
