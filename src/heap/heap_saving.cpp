// How an open heap is saved: checkpoints, closing, snapshots.
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "heap/data_ranges.hpp"
#include "heap/heap_copy.hpp"
#include "heap/heap_copy_files.hpp"
#include "heap/heap_data.hpp"
#include "heap/heap_implementation.hpp"
#include "heap/heap_update.hpp"
#include "heap/open_heaps.hpp"
#include "platform/page_sizes.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Those that lie in the range.
ByteRange whole_pages(ByteRange range, std::uint64_t page_bytes) {
  const std::uint64_t begin = round_up(range.offset, page_bytes);
  const std::uint64_t end = (range.offset + range.bytes) / page_bytes * page_bytes;
  return {begin, end > begin ? end - begin : 0};
}

}  // namespace

void HeapImplementation::save_state(HeapState state) {
  HeapStateBlock next = state_;
  next.state = state;
  ++next.generation;
  next.segments = segments_of(*files_.data);
  write_state(next);
}

void HeapImplementation::write_state(const HeapStateBlock& state) {
  HeapBlock block;
  encode_state(state, block);
  write_bytes(*store_, HeapLayout::state_offset, block);
  state_ = state;
  checkpoints_ = state.generation;
}

/// Those that the last commit made are known once they are there, so that no crash leaves a state that misses one.
void HeapImplementation::note_segments() {
  HeapStateBlock next = state_;
  next.segments = segments_of(*files_.data);
  if (next.segments != state_.segments) {
    write_state(next);
    make_durable();
  }
}

void HeapImplementation::save_names() {
  const std::uint64_t changes = names_->changes();
  if (changes == saved_name_changes_) {
    return;
  }
  const std::vector<std::byte> bytes = names_->save();
  write_bytes(*store_, layout_->names_offset, bytes);
  state_.names_bytes = bytes.size();
  state_.names_checksum = heap_checksum(bytes);
  saved_name_changes_ = changes;
}

/// Holes for what is free. With checkpoints they are made by the commit that follows, so that the state before it keeps
/// what it needs; without, there is no state before it.
void HeapImplementation::give_back_space() {
  allocator_->flush_caches();
  // Once after opening: blocks that are free and holes in the data were so before, and no page of them is in memory
  // changed.
  allocator_->sort_out_holes([&](std::uint64_t begin, std::uint64_t end) {
    const DataRange data = first_data(*files_.data, layout_->data_offset + begin, layout_->data_offset + end);
    return std::pair(data.begin - layout_->data_offset, data.end - layout_->data_offset);
  });
  allocator_->give_back(GiveBack::free_now, [&](std::uint64_t offset, std::uint64_t bytes) {
    const std::uint64_t end = offset + bytes;
    const ByteRange pages = whole_pages({offset, bytes}, region_.page_size_bytes());
    if (pages.bytes == 0 || kernel_pages_) {
      make_hole({offset, bytes});
      return;
    }
    // What was changed in these alone need not be written first; what was beside them may find room by them.
    region_.discard(pages);
    make_hole(pages);
    make_hole({offset, pages.offset - offset});
    make_hole({pages.offset + pages.bytes, end - pages.offset - pages.bytes});
  });
}

/// Through the region, which may have these pages, or their neighbours in one UPage, in memory and changed. The
/// kernel's own pages go with the hole, and it drops no others that are changed.
void HeapImplementation::make_hole(ByteRange range) {
  if (range.bytes == 0) {
    return;
  }
  region_.update(range, [&] {
    const int result = store_->punch(layout_->data_offset + range.offset, range.bytes);
    if (result != 0 && result != -ENOTSUP) {
      throw_file_error(-result, "heap " + path_, "cannot give back free space");
    }
  });
}

/// What the region could not write back is told of like all else: by an error that names the heap.
void HeapImplementation::write_back() {
  try {
    give_back_space();
    region_.sync();
  } catch (const StoreError&) {
    throw;
  } catch (const Error& error) {
    throw_file_error(error.code().value(), "heap " + path_, "cannot be saved");
  }
}

void HeapImplementation::save(HeapState state) {
  naming_heap(path_, [&] {
    write_back();
    allocator_->save();
  });
  save_names();
  if (checkpointed_ == nullptr) {
    make_durable();  // The state must not be on the disk before what it speaks for.
  }
  try {
    save_state(state);
    make_durable();
    note_segments();
  } catch (...) {
    if (state == HeapState::closed) {
      take_back_closed();
    }
    throw;
  }
}

void HeapImplementation::make_durable() {
  if (const int result = checkpointed_ != nullptr ? checkpointed_->commit() : store_->flush(); result != 0) {
    throw_file_error(-result, "heap " + path_, "cannot be saved");
  }
}

/// That it was closed may be on the disk, and the heap goes on: without checkpoints nothing may change before the disk
/// says otherwise.
void HeapImplementation::take_back_closed() {
  if (guarded_ == nullptr) {
    return;
  }
  HeapStateBlock open = state_;
  open.state = HeapState::written_directly;
  ++open.generation;
  HeapBlock block;
  encode_state(open, block);
  guarded_->require_first(HeapLayout::state_offset, block);
  state_ = open;
}

void HeapImplementation::begin_writing_directly() {
  const std::lock_guard lock(saving_);
  save_state(HeapState::written_directly);
  if (const int result = store_->flush(); result != 0) {
    throw_file_error(-result, "heap " + path_, "cannot be written");
  }
}

/// A snapshot, or a heap that was written without checkpoints so far: from the first commit on it is lost without its
/// journal.
void HeapImplementation::note_journal() {
  const std::lock_guard lock(saving_);
  HeapStateBlock next = state_;
  next.has_journal = true;
  write_state(next);
  make_durable();
  checkpointed_->leave_open(checkpointed_->was_left_open());
}

void HeapImplementation::checkpoint() {
  require_own_process();
  require_writable();
  require_not_in_callback();
  const std::lock_guard lock(saving_);
  save(checkpointed_ != nullptr ? HeapState::checkpoint : HeapState::written_directly);
}

void HeapImplementation::close() {
  if (data_ == nullptr || in_child()) {
    return;
  }
  require_not_in_callback();
  const std::lock_guard lock(saving_);
  if (writable_) {
    save(HeapState::closed);
  }
  remove_open_heap(data_);
  data_ = nullptr;
  region_ = Region();
  cache_.reset();
  allocator_.reset();
  metadata_.reset();
  store_.reset();
  guarded_.reset();
  checkpointed_.reset();
  files_.data.reset();  // Before the journal's lock is given up: whoever has that may have the data too.
  files_ = {};
}

/// It would wait for itself.
void HeapImplementation::require_not_in_callback() const {
  if (calling_back_ == std::this_thread::get_id()) {
    throw OptionError("heap " + path_ +
                          " cannot be saved or closed by the function that a snapshot calls: do that once the snapshot "
                          "has returned",
                      EDEADLK);
  }
}

void HeapImplementation::call_back(const std::function<void()>& checkpointed) {
  if (!checkpointed) {
    return;
  }
  calling_back_ = std::this_thread::get_id();
  try {
    checkpointed();
  } catch (...) {
    calling_back_ = std::thread::id();
    throw;
  }
  calling_back_ = std::thread::id();
}

void HeapImplementation::snapshot(const std::string& path, const std::function<void()>& checkpointed) {
  save_and_copy(
      [&](const std::function<void()>& copied) {
        HeapCopyFiles copy({files_.lasting_path(), path_}, path);
        write_closed(*copy.open_data(), superblock_, state_);
        copied();
        copy.finish();
      },
      checkpointed);
}

std::uint64_t HeapImplementation::update_snapshot(const std::string& path, const std::function<void()>& checkpointed) {
  std::uint64_t written = 0;
  save_and_copy(
      [&](const std::function<void()>& copied) {
        written = update_copy(*files_.data, path, superblock_, state_);
        copied();
      },
      checkpointed);
  return written;
}

void HeapImplementation::save_and_copy(const std::function<void(const std::function<void()>& copied)>& copy,
                                       const std::function<void()>& checkpointed) {
  require_own_process();
  require_writable();
  require_not_in_callback();
  const std::lock_guard lock(saving_);
  save(checkpointed_ != nullptr ? HeapState::checkpoint : HeapState::written_directly);
  if (checkpointed_ == nullptr) {
    copy([&] { call_back(checkpointed); });
    return;
  }
  const auto paused = checkpointed_->pause_applying();
  call_back(checkpointed);
  copy([] {});
}

HeapStatistics HeapImplementation::statistics() const {
  require_open();
  const AllocatorStatistics space = allocator_->statistics();
  HeapStatistics statistics;
  statistics.capacity_bytes = space.capacity_bytes;
  statistics.live_blocks = space.live_blocks;
  statistics.live_bytes = space.live_bytes;
  statistics.taken_bytes = space.span_bytes + space.large_run_bytes;
  statistics.free_bytes = space.free_bytes;
  statistics.largest_free_bytes = space.largest_free_run_bytes;
  statistics.used_end_bytes = space.used_end_bytes;
  statistics.journal_bytes = checkpointed_ != nullptr ? checkpointed_->journal_bytes_in_use() : 0;
  statistics.checkpoints = checkpoints_;
  return statistics;
}

}  // namespace tiermap
