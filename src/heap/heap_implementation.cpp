// Making, opening and using; heap_saving.cpp saves.
#include "heap/heap_implementation.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "config/resolve.hpp"
#include "config/size.hpp"
#include "heap/journal.hpp"
#include "heap/metadata_records.hpp"
#include "heap/open_heaps.hpp"
#include "heap/saved_heap.hpp"
#include "store/file_open.hpp"
#include "store/unwritten_tail_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t most_alignment = 4096;

std::uint64_t random_identity() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

/// What tools show of the cache: names there are short and printable, and paths need not be.
std::string cache_name(const std::string& path) {
  constexpr std::size_t most_shown = 50;
  std::string shown = path.size() <= most_shown ? path : "..." + path.substr(path.size() - most_shown);
  std::ranges::replace_if(
      shown, [](char letter) { return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f; }, '?');
  return "heap " + shown;
}

CacheOptions own_cache_options(const std::string& path, const HeapOptions& options) {
  CacheOptions wanted;
  wanted.budget_bytes = options.budget_bytes;
  wanted.name = cache_name(path);
  return wanted;
}

std::unique_ptr<Cache> own_cache(const std::string& path, const HeapOptions& options) {
  return options.cache == nullptr ? std::make_unique<Cache>(own_cache_options(path, options)) : nullptr;
}

/// Throws OptionError where the kernel writes to the data when it likes.
void require_checkpoints(const std::string& path, const Cache& cache) {
  if (cache.fault_mode() == FaultMode::kernel) {
    throw OptionError("heap " + path +
                          " cannot have checkpoints in fault mode kernel, where the kernel writes to its data when it "
                          "likes: choose another fault mode, or do without checkpoints (" +
                          cache.fault_mode_reason() + ")",
                      ENOTSUP);
  }
}

/// The superblock is written last: without it this is no heap.
void write_empty_heap(Store& data, const HeapSuperblock& superblock, bool has_journal, const std::string& path) {
  StoreMetadataArea area(data, HeapLayout::metadata_offset);
  Allocator(area, superblock.capacity_bytes, Allocator::Content::nothing).save();
  HeapBlock block;
  encode_state({HeapState::closed, 0, 0, heap_checksum({}), has_journal}, block);
  write_bytes(data, HeapLayout::state_offset, block);
  int result = data.flush();
  encode_superblock(superblock, block);
  write_bytes(data, HeapLayout::superblock_offset, block);
  result = result == 0 ? data.flush() : result;
  if (result != 0) {
    throw_file_error(-result, "heap " + path, "cannot be made");
  }
}

}  // namespace

std::unique_ptr<HeapImplementation> HeapImplementation::create(const std::string& path, const HeapOptions& options) {
  const std::uint64_t capacity = heap_capacity(options.capacity_bytes, path);
  RegionOptions region;
  region.page_size_bytes = options.page_size_bytes;
  region.advice = options.advice;  // Which the default depends on.
  const HeapSuperblock superblock{random_identity(), capacity, resolve(region).page_size_bytes};
  // Before anything is made: a program that lets the error end it takes nothing away.
  std::unique_ptr<Cache> cache = own_cache(path, options);
  if (options.checkpoints) {
    require_checkpoints(path, options.cache != nullptr ? *options.cache : *cache);
  }
  HeapInTheMaking making(path);
  HeapFiles files = making.create_files(options.backing, HeapLayout(capacity));
  if (options.checkpoints) {
    // Before the heap is one: it says that it has it.
    const Journal made(files.journal, superblock.identity, files.data->size_bytes(), true);
  }
  write_empty_heap(*files.data, superblock, options.checkpoints, path);
  auto made = std::make_unique<HeapImplementation>(path, options, true, std::move(files), std::move(cache));
  making.keep();
  return made;
}

HeapImplementation::HeapImplementation(std::string path, const HeapOptions& options, bool writable)
    : HeapImplementation(path, options, writable, open_heap_files(path, writable), nullptr) {}

HeapImplementation::HeapImplementation(std::string path, const HeapOptions& options, bool writable, HeapFiles files,
                                       std::unique_ptr<Cache> cache)
    : path_(std::move(path)),
      writable_(writable),
      process_(::getpid()),
      files_(std::move(files)),
      cache_(std::move(cache)) {
  superblock_ = read_superblock(*files_.data, path_);
  layout_ = std::make_unique<HeapLayout>(superblock_.capacity_bytes);
  open_store(options);
  state_ = read_state(*store_, *layout_, path_);
  require_saved(state_, path_);
  metadata_ = std::make_unique<StoreMetadataArea>(*store_, HeapLayout::metadata_offset);
  naming_heap(path_, [&] {
    allocator_ = std::make_unique<Allocator>(*metadata_, superblock_.capacity_bytes, Allocator::Content::saved);
  });
  names_ = read_names(*store_, *layout_, state_, path_);
  map(options);
  if (writable_ && checkpointed_ == nullptr) {
    begin_writing_directly();
  } else if (writable_ && !state_.has_journal) {
    note_journal();
  }
  checkpoints_ = state_.generation;
  data_ = region_.data();
  add_open_heap(data_, *this);
}

void HeapImplementation::open_store(const HeapOptions& options) {
  if (!writable_) {
    const SavedData data = saved_data(files_, superblock_, path_);
    checkpointed_ = data.journal;
    store_ = data.store;
    return;
  }
  require_journal(files_, superblock_, path_);
  // Without checkpoints too: a journal that was used may have something to finish.
  if (options.checkpoints || files_.journal->size_bytes() != 0) {
    checkpointed_ =
        std::make_shared<CheckpointedStore>(files_.data, files_.journal, superblock_.identity, true, layout_->end);
  }
  if (options.checkpoints) {
    store_ = checkpointed_;
    return;
  }
  if (checkpointed_ != nullptr) {
    checkpointed_->leave_open(false);  // The state block will say so.
    checkpointed_.reset();
  }
  guarded_ = std::make_shared<GuardedStore>(files_.data);
  store_ = guarded_;
}

void HeapImplementation::map(const HeapOptions& options) {
  if (cache_ == nullptr) {
    cache_ = own_cache(path_, options);
  }
  Cache& cache = options.cache != nullptr ? *options.cache : *cache_;
  if (checkpointed_ != nullptr) {
    require_checkpoints(path_, cache);
  }
  kernel_pages_ = cache.fault_mode() == FaultMode::kernel;
  RegionOptions region;
  region.access = writable_ ? Access::read_write : Access::read_only;
  region.offset = layout_->data_offset;
  region.length = superblock_.capacity_bytes;
  region.advice = options.advice;
  region.page_size_bytes = options.page_size_bytes.value_or(superblock_.page_size_bytes);
  // The kernel maps files, and nothing around them.
  const std::shared_ptr<Store> plain = guarded_ != nullptr ? files_.data : store_;
  region_ = cache.map(kernel_pages_ ? plain : mapped_store(), region);
}

/// Pages that no block was ever in need not be read.
std::shared_ptr<Store> HeapImplementation::mapped_store() const {
  return std::make_shared<UnwrittenTailStore>(store_, layout_->data_offset + allocator_->used_end_bytes());
}

HeapImplementation::~HeapImplementation() {
  if (in_child()) {
    leave_to_parent();
    return;
  }
  try {
    close();
  } catch (...) {  // Who wants to know calls close().
    if (checkpointed_ != nullptr) {
      checkpointed_->leave_open(true);
    }
  }
  if (data_ != nullptr) {
    remove_open_heap(data_);
  }
}

bool HeapImplementation::consistent(const std::string& path) {
  const HeapFiles files = open_heap_files(path, false);
  const HeapSuperblock superblock = read_superblock(*files.data, path);
  const SavedData data = saved_data(files, superblock, path);
  return read_state(*data.store, HeapLayout(superblock.capacity_bytes), path).state == HeapState::closed &&
         !data.left_open;
}

bool HeapImplementation::in_child() const noexcept {
  return ::getpid() != process_;
}

/// A forked child must not write to the files: they go on being the parent's, and their lock too.
void HeapImplementation::leave_to_parent() noexcept {
  static_cast<void>(new HeapFiles(std::move(files_)));
  static_cast<void>(new std::shared_ptr<CheckpointedStore>(std::move(checkpointed_)));
  static_cast<void>(new std::shared_ptr<Store>(std::move(store_)));
}

void HeapImplementation::require_own_process() const {
  if (in_child()) {
    throw OptionError("heap " + path_ + " was opened before fork(), and is the parent's: open it after that", ECHILD);
  }
}

void HeapImplementation::require_open() const {
  if (data_ == nullptr) {
    throw OptionError("heap " + path_ + " is closed: open it again", EBADF);
  }
}

void HeapImplementation::require_writable() const {
  require_open();
  if (!writable_) {
    throw OptionError("heap " + path_ + " is open only for reading: open it for writing", EROFS);
  }
}

void* HeapImplementation::allocate(std::uint64_t bytes, std::uint64_t alignment) {
  require_writable();
  if (!std::has_single_bit(alignment) || alignment > most_alignment) {
    throw OptionError("heap " + path_ + ": a block cannot be aligned to " + std::to_string(alignment) +
                      " bytes: choose a power of two, 4096 or less");
  }
  const std::uint64_t offset = naming_heap(path_, [&] { return allocator_->allocate(bytes, alignment); });
  if (offset == Allocator::no_block) {
    throw HeapFullError("heap " + path_ + ": no room for " + std::to_string(bytes) + " bytes in its capacity of " +
                        format_size(superblock_.capacity_bytes) + ": free something, or make a larger heap");
  }
  return data_ + offset;
}

/// Calls that with the block's offset. Throws OptionError if the heap is not writable or the block not within it.
template <typename Call>
void HeapImplementation::with_offset(const void* block, Call&& call) const {
  require_writable();
  const auto* const first = static_cast<const std::byte*>(block);
  if (std::less<>()(first, data_) || !std::less<>()(first, data_ + superblock_.capacity_bytes)) {
    throw OptionError("heap " + path_ + ": a block that is not of this heap cannot be freed: free it where it is from");
  }
  try {
    naming_heap(path_, [&] { call(static_cast<std::uint64_t>(first - data_)); });
  } catch (const OptionError& error) {
    throw OptionError("heap " + path_ + ": " + error.what());
  }
}

void HeapImplementation::deallocate(void* block) {
  if (block != nullptr) {
    with_offset(block, [this](std::uint64_t offset) {
      names_->require_nameless(offset);
      allocator_->deallocate(offset);
    });
  }
}

void HeapImplementation::require_block(const void* block) const {
  with_offset(block, [this](std::uint64_t offset) {
    names_->require_nameless(offset);
    (void)allocator_->block_bytes(offset);
  });
}

ObjectNames& HeapImplementation::names() const {
  require_open();
  return *names_;
}

ObjectNames& HeapImplementation::writable_names() const {
  require_writable();
  return *names_;
}

}  // namespace tiermap
