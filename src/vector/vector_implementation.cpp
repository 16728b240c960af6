#include "vector/vector_implementation.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "config/resolve.hpp"
#include "config/size.hpp"
#include "region/kernel_mapping.hpp"
#include "store/file_open.hpp"
#include "store/file_store.hpp"
#include "store/registry.hpp"
#include "store/store_url.hpp"
#include "store/unwritten_tail_store.hpp"
#include "tiermap/error.hpp"
#include "vector/element_check.hpp"

namespace tiermap {
namespace {

OpenMode mode_of(VectorStorage::How how) {
  switch (how) {
    case VectorStorage::How::create:
      return OpenMode::create;
    case VectorStorage::How::open_read_only:
      return OpenMode::read_only;
    case VectorStorage::How::open_or_create:
      return OpenMode::open_or_create;
    default:
      return OpenMode::read_write;
  }
}

/// A file without a name: gone with the last descriptor.
std::shared_ptr<Store> temporary_file(const std::string& folder, std::uint64_t bytes) {
  std::shared_ptr<Store> store = FileStore::open_nameless(folder, "a temporary vector");
  if (const int result = store->resize(bytes); result != 0) {
    throw_file_error(-result, folder, "cannot take a temporary vector of " + format_size(bytes));
  }
  return store;
}

std::string name_of(const std::shared_ptr<Store>& store) {
  if (store == nullptr) {
    throw OptionError("a vector needs a store: give one that is open");
  }
  return store->name();
}

/// The path of a store that is one file; empty for any other.
std::string file_of(const std::string& url) {
  const StoreUrl parsed = parse_store_url(url);
  const std::string path = parsed.scheme == "sparse" ? "" : path_on_disk(parsed);
  struct stat status = {};
  const bool regular = !path.empty() && ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  return regular ? std::filesystem::absolute(path).string() : "";
}

}  // namespace

VectorImplementation::VectorImplementation(VectorStorage::How how, std::string url, const ElementLayout& elements,
                                           std::uint64_t count, const VectorOptions& options)
    : url_(std::move(url)),
      element_bytes_(elements.bytes),
      writable_(how != VectorStorage::How::open_read_only),
      temporary_(how == VectorStorage::How::temporary),
      created_(how == VectorStorage::How::create) {
  const bool makes = created_ || (how == VectorStorage::How::open_or_create && file_of(url_).empty());
  capacity_bytes_ = std::max(options.capacity_bytes, element_bytes_);
  choose_memory(options);  // Before anything is made.
  if (makes && cache_of(options).fault_mode() == FaultMode::kernel) {
    refuse_new_store_unless_plain(parse_store_url(url_));
  }
  open_store(how, count, elements);
  require_elements(elements, store_->element_layout());
  require_whole_elements();
  try {
    map(options);
  } catch (...) {
    if (makes && !file_.empty()) {
      ::unlink(file_.c_str());
    }
    throw;
  }
}

VectorImplementation::VectorImplementation(std::shared_ptr<Store> store, const ElementLayout& elements,
                                           const VectorOptions& options)
    : url_(name_of(store)),
      element_bytes_(elements.bytes),
      writable_(store->writable()),
      temporary_(false),
      created_(false),
      store_(std::move(store)),
      capacity_bytes_(std::max(options.capacity_bytes, element_bytes_)) {
  measure_store();
  require_elements(elements, store_->element_layout());
  require_whole_elements();
  choose_memory(options);
  map(options);
}

VectorImplementation::~VectorImplementation() {
  try {
    close();
  } catch (...) {  // Said in the header: who wants to know calls close().
  }
}

void VectorImplementation::open_store(VectorStorage::How how, std::uint64_t count, const ElementLayout& elements) {
  if (count > most_elements()) {
    throw OptionError("vector " + url_ + " cannot have " + std::to_string(count) + " elements of " +
                      std::to_string(element_bytes_) + " bytes: choose at most " + std::to_string(most_elements()));
  }
  const std::uint64_t bytes = count * element_bytes_;
  capacity_bytes_ = std::max(capacity_bytes_, bytes);
  const NewStore made{bytes, [&](const ElementLayout& there) { require_elements(elements, there); }};
  store_ =
      temporary_ ? temporary_file(url_, bytes) : std::shared_ptr<Store>(tiermap::open_store(url_, mode_of(how), made));
  if (writable_ && !temporary_) {
    written_ = std::make_unique<WrittenParts>(url_);
  }
  file_ = temporary_ ? "" : file_of(url_);
  measure_store();
}

/// How many elements it has, and whether it can have more.
void VectorImplementation::measure_store() {
  fixed_bytes_ = store_->size_bytes();
  if (writable_ && store_->growable()) {
    capacity_bytes_ = std::max(std::min(capacity_bytes_, store_->most_bytes()), fixed_bytes_);
    growing_ = std::make_shared<GrowingStore>(store_, temporary_ ? "temporary vector in " + url_ : store_->name());
  } else {
    capacity_bytes_ = fixed_bytes_;
  }
}

void VectorImplementation::require_elements(const ElementLayout& wanted,
                                            const std::optional<ElementLayout>& there) const {
  tiermap::require_elements("vector " + url_, wanted, there, "open it as a vector of what it holds");
}

void VectorImplementation::require_whole_elements() const {
  if (fixed_bytes_ % element_bytes_ != 0) {
    throw StoreError(EINVAL, "vector " + url_ + " has " + std::to_string(fixed_bytes_) + " bytes, no whole number of " +
                                 "elements of " + std::to_string(element_bytes_) +
                                 " bytes: open it as a vector of what it holds");
  }
}

void VectorImplementation::choose_memory(const VectorOptions& options) {
  if (options.cache == nullptr) {
    CacheOptions wanted;
    wanted.budget_bytes = options.budget_bytes;
    own_cache_ = std::make_unique<Cache>(wanted);
  } else if (options.budget_bytes) {
    throw OptionError("vector " + url_ + " is given a budget and a cache, which has one: leave one of them out");
  }
  transactions_ = std::make_shared<OpenTransactions>(cache_of(options).sharers_);
  RegionOptions region;
  region.page_size_bytes = options.page_size_bytes;
  region.read_ahead_bytes = options.read_ahead_bytes;
  page_size_bytes_ = resolve(region).page_size_bytes;  // One that transactions can plan by.
}

Cache& VectorImplementation::cache_of(const VectorOptions& options) const noexcept {
  return options.cache != nullptr ? *options.cache : *own_cache_;
}

void VectorImplementation::map(const VectorOptions& options) {
  if (capacity_bytes_ == 0) {  // One that is empty, and stays so.
    return;
  }
  RegionOptions region;
  region.access = writable_ ? Access::read_write : Access::read_only;
  region.length = capacity_bytes_;
  region.advice = options.advice;
  region.page_size_bytes = page_size_bytes_;
  region.read_ahead_bytes = options.read_ahead_bytes;
  region.address = options.address;
  region.replacement = options.replacement;
  Cache& cache = cache_of(options);
  if (growing_ && cache.fault_mode() == FaultMode::kernel && capacity_bytes_ > fixed_bytes_) {
    map_by_kernel(region);
  }
  std::shared_ptr<Store> store = growing_ ? std::shared_ptr<Store>(growing_) : store_;
  // What was just made has zeros alone, and no page of it is read before it was written.
  if (created_ && !growing_ && cache.fault_mode() != FaultMode::kernel) {
    store = std::make_shared<UnwrittenTailStore>(store_, 0);
  }
  region_ = cache.map(std::move(store), region);
}

// The file has at any time what the vector has: what is mapped beyond that is not touched, and made as long as it is
// needed.
void VectorImplementation::map_by_kernel(RegionOptions& region) {
  if (!growing_->map_by_kernel()) {
    refuse_as_no_plain_file(store_->name());
  }
  mapped_by_kernel_ = true;
  region.reserve_bytes = capacity_bytes_;
  region.length = mapped_for(fixed_bytes_);
}

/// So much, that it need not be mapped further with each element.
std::uint64_t VectorImplementation::mapped_for(std::uint64_t bytes) const noexcept {
  constexpr std::uint64_t least_step = 64 << 20;
  return std::min(bytes + std::max(bytes / 4, least_step), capacity_bytes_);
}

void VectorImplementation::require_open() const {
  if (!store_) {
    throw OptionError("vector " + url_ + " is closed: open it again", EBADF);
  }
}

void VectorImplementation::require_own_process() const {
  if (::getpid() != process_) {
    throw Error(ECHILD, "vector " + url_ + " belongs to the process that forked this one: open it again in the child");
  }
}

std::uint64_t VectorImplementation::extend(std::uint64_t count) {
  require_open();
  std::uint64_t before = GrowingStore::no_room;
  if (growing_ && count <= most_elements()) {
    const std::uint64_t bytes = count * element_bytes_;
    const std::uint64_t most = capacity_bytes_ / element_bytes_ * element_bytes_;
    before = mapped_by_kernel_ ? extend_mapped(bytes, most) : growing_->extend(bytes, most);
  }
  if (before == GrowingStore::no_room) {
    throw OptionError("vector " + url_ + " has " + std::to_string(size()) + " elements and a capacity of " +
                          std::to_string(capacity()) + ", and cannot take " + std::to_string(count) +
                          " more: open it " + how_to_have_room(),
                      ENOSPC);
  }
  return before / element_bytes_;
}

std::string VectorImplementation::how_to_have_room() const {
  if (growing_ && store_->most_bytes() > capacity_bytes_) {
    return "with a larger capacity_bytes";
  }
  return std::string("for writing in a store that can grow") + (growing_ ? " further" : "") +
         " (of a sparse one ?capacity=1TiB says how far)";
}

// Whoever sees that there is an element may touch it: before that it has its place in the file.
std::uint64_t VectorImplementation::extend_mapped(std::uint64_t bytes, std::uint64_t most) {
  require_own_process();
  const std::lock_guard lock(mapped_mutex_);
  const std::uint64_t before = growing_->limit_bytes();
  if (before > most || bytes > most - before) {
    return GrowingStore::no_room;
  }
  if (before + bytes > region_.size()) {
    region_.resize(mapped_for(before + bytes));
  }
  if (const int result = growing_->lengthen_to(before + bytes); result != 0) {
    throw_file_error(-result, "vector " + url_, "cannot be made longer");
  }
  growing_->set_limit(before + bytes);
  return before;
}

void VectorImplementation::resize(std::uint64_t count) {
  require_open();
  require_own_process();
  if (count > size()) {
    extend(count - size());
  } else if (count < size()) {
    refuse_to_cut_off(count);
    shrink(count * element_bytes_);
  }
}

// What is cut off is there no more, and what a transaction would do with it is a fault, or lost without a word.
void VectorImplementation::refuse_to_cut_off(std::uint64_t count) const {
  if (const std::uint64_t until = transactions_->needed_behind(count); until != 0) {
    throw OptionError("vector " + url_ + " cannot be cut to " + std::to_string(count) +
                          " elements: a transaction is open that goes on to element " + std::to_string(until - 1) +
                          ": end it first, or have it access what is left",
                      EBUSY);
  }
}

// First what the store has, which may fail; then what is in memory of it, and on its way: that may have made the store
// longer again.
void VectorImplementation::shrink(std::uint64_t bytes) {
  if (!growing_) {
    throw OptionError("vector " + url_ + " cannot shrink: open it for writing in a store that can grow", ENOTSUP);
  }
  const std::uint64_t before = growing_->limit_bytes();
  if (const int result = growing_->cut(bytes); result != 0) {
    throw_file_error(-result, "vector " + url_, "cannot be made shorter");
  }
  if (mapped_by_kernel_) {
    return;  // Of what is cut off a file nothing is in memory.
  }
  const std::uint64_t page_bytes = region_.page_size_bytes();
  const std::uint64_t page_end = std::min((bytes + page_bytes - 1) / page_bytes * page_bytes, before);
  if (bytes < page_end) {
    std::memset(region_.data() + bytes, 0, page_end - bytes);
    region_.write_back({bytes, page_end - bytes});
  }
  if (page_end < before) {
    region_.discard({page_end, before - page_end});
  }
  if (const int result = growing_->shorten(); result != 0) {
    throw_file_error(-result, "vector " + url_, "cannot be made shorter");
  }
}

// Pages that end in the range: what comes next goes into the last one.
void VectorImplementation::leave(VectorRange range) {
  if (!region_) {
    return;
  }
  const ByteRange bytes = bytes_of(range);
  const std::uint64_t page_bytes = region_.page_size_bytes();
  const std::uint64_t first = bytes.offset / page_bytes * page_bytes;
  const std::uint64_t end = (bytes.offset + bytes.bytes) / page_bytes * page_bytes;
  if (first < end) {
    if (writable_) {
      region_.flush({first, end - first});
    }
    region_.advise(Advice::cold, {first, end - first});
  }
}

void VectorImplementation::bound_memory(std::uint64_t bytes) {
  require_open();
  if (!own_cache_) {
    throw OptionError("vector " + url_ + " has no cache of its own: change the budget of the one it was opened with");
  }
  own_cache_->set_budget_bytes(bytes);
}

void VectorImplementation::sync() {
  require_open();
  require_own_process();
  if (!region_ || !writable_) {
    return;
  }
  region_.sync({0, std::max<std::uint64_t>(size() * element_bytes_, 1)});
  if (growing_ && growing_->size_bytes() < growing_->limit_bytes()) {
    if (const int result = growing_->flush(); result != 0) {
      throw_file_error(-result, "vector " + url_, "cannot be made as long as it is");
    }
  }
}

void VectorImplementation::close() {
  if (!store_) {
    return;
  }
  require_own_process();
  if (growing_) {
    // Before the store settles: one of objects makes them then, and says whether that went well.
    if (const int result = growing_->lengthen(); result != 0) {
      throw_file_error(-result, "vector " + url_, "cannot be made as long as it is");
    }
  }
  if (region_) {
    region_.unmap();
  }
  if (growing_) {
    fixed_bytes_ = growing_->limit_bytes();
  }
  region_ = Region();
  own_cache_.reset();
  growing_.reset();
  store_.reset();
  written_.reset();
}

void VectorImplementation::require_removable() const {
  require_own_process();
  if (file_.empty() && !temporary_ && !removed_) {
    throw OptionError("vector " + url_ + " is not one plain file, and is left as it is: close it and remove its files",
                      ENOTSUP);
  }
}

// What has the file's name later is another one, which may be somebody else's.
void VectorImplementation::destroy() {
  require_removable();
  if (!file_.empty() && ::unlink(file_.c_str()) != 0) {
    throw_file_error(errno, file_, "cannot be removed");
  }
  file_.clear();
  removed_ = true;
  if (growing_) {
    growing_->set_limit(0);  // Nothing of it is written any more.
  }
  close();
  fixed_bytes_ = 0;
}

ByteRange VectorImplementation::bytes_of(VectorRange range) const {
  require_open();
  const std::uint64_t count = size();
  if (range.first > count || range.count > count - range.first) {
    throw OptionError("vector " + url_ + " has " + std::to_string(count) + " elements, not " +
                          std::to_string(range.count) + " from " + std::to_string(range.first) +
                          " on: choose a range within it",
                      ERANGE);
  }
  return {range.first * element_bytes_, range.count * element_bytes_};
}

}  // namespace tiermap
