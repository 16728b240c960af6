#include "cluster/job/coherent_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "config/size.hpp"
#include "store/file_open.hpp"

namespace tiermap {

std::vector<ByteRange> changed_units(std::span<const std::byte> before, std::span<const std::byte> now,
                                     std::uint64_t unit) {
  std::vector<ByteRange> changed;
  for (std::uint64_t at = 0; at < now.size(); at += unit) {
    const std::uint64_t bytes = std::min<std::uint64_t>(unit, now.size() - at);
    if (std::memcmp(before.data() + at, now.data() + at, bytes) == 0) {
      continue;
    }
    if (!changed.empty() && changed.back().offset + changed.back().bytes == at) {
      changed.back().bytes += bytes;
    } else {
      changed.push_back({at, bytes});
    }
  }
  return changed;
}

CoherentStore::CoherentStore(std::shared_ptr<HomeClient> home, std::uint64_t element_bytes,
                             std::uint64_t twin_memory_bytes, const std::string& scratch_folder)
    : home_(std::move(home)),
      unit_(home_block_bytes % element_bytes == 0 ? element_bytes : 1),
      twins_((home_->bytes() + home_block_bytes - 1) / home_block_bytes, twin_memory_bytes, scratch_folder) {}

void CoherentStore::start_tree(ByteRange range) {
  const std::unique_lock lock(tree_mutex_);
  by_tree_.push_back(range);
}

void CoherentStore::stop_tree(ByteRange range) noexcept {
  const std::unique_lock lock(tree_mutex_);
  const auto same = [&](const ByteRange& one) { return one.offset == range.offset && one.bytes == range.bytes; };
  if (const auto found = std::ranges::find_if(by_tree_, same); found != by_tree_.end()) {
    by_tree_.erase(found);
  }
}

bool CoherentStore::comes_by_tree(ByteRange range) const {
  const std::shared_lock lock(tree_mutex_);
  return std::ranges::any_of(by_tree_, [&](const ByteRange& one) {
    return range.offset < one.offset + one.bytes && one.offset < range.offset + range.bytes;
  });
}

int CoherentStore::fetch(std::span<std::byte> content, std::uint64_t offset) {
  const PlacingGate::Pass pass(home_->gate());
  if (comes_by_tree({offset, content.size()})) {
    return home_->fetch_by_tree(content, offset);
  }
  return by_node_.load(std::memory_order_acquire) ? home_->fetch_by_node(content, offset)
                                                  : home_->fetch(content, offset);
}

int CoherentStore::keep_twin(std::uint64_t block, std::span<const std::byte> bytes) {
  const int result = twins_.keep(block, bytes);
  return result == 0 ? 0 : scratch_failed(result);
}

int CoherentStore::scratch_failed(int error) {
  home_->fail_here("copies of its pages have no room in memory, and none in scratch folder " +
                   quote_value(twins_.folder()) + " (" + error_text(-error) +
                   "): choose another scratch_folder, or a larger budget_bytes");
  return error;
}

std::int64_t CoherentStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (offset >= size_bytes()) {
    return 0;
  }
  const std::span<std::byte> content(static_cast<std::byte*>(buffer),
                                     std::min<std::uint64_t>(bytes, size_bytes() - offset));
  if (const int result = fetch(content, offset); result != 0) {
    return result;
  }
  if (keeps_twins_.load(std::memory_order_acquire)) {
    if (offset % home_block_bytes != 0) {
      return -EINVAL;  // The engine reads whole pages.
    }
    for (std::uint64_t at = 0; at < content.size(); at += home_block_bytes) {
      const auto block = content.subspan(at, std::min<std::uint64_t>(home_block_bytes, content.size() - at));
      const std::uint64_t number = (offset + at) / home_block_bytes;
      if (const int result = keep_twin(number, block); result != 0) {
        twins_.forget(number, 1);
        return result;
      }
    }
  }
  return static_cast<std::int64_t>(content.size());
}

std::int64_t CoherentStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (offset >= size_bytes()) {
    return static_cast<std::int64_t>(bytes);  // Of a page that reaches beyond the last element.
  }
  const std::span<const std::byte> content(static_cast<const std::byte*>(buffer),
                                           std::min<std::uint64_t>(bytes, size_bytes() - offset));
  const PlacingGate::Pass pass(home_->gate());
  ChangeSender sender(*home_);
  for (std::uint64_t at = 0; at < content.size(); at += home_block_bytes) {
    const auto now = content.subspan(at, std::min<std::uint64_t>(home_block_bytes, content.size() - at));
    Twins::Block before;
    int error = 0;
    if (!twins_.find((offset + at) / home_block_bytes, before, error)) {
      return error != 0 ? scratch_failed(error) : -EROFS;
    }
    for (const ByteRange& range : changed_units(std::span(before).first(now.size()), now, unit_)) {
      sender.add(offset + at + range.offset, now.subspan(range.offset, range.bytes));
    }
  }
  if (const int failure = sender.finish(); failure != 0) {
    return failure;
  }
  // What is home is what a later change is told by, also where that copy has no room.
  int result = 0;
  for (std::uint64_t at = 0; at < content.size(); at += home_block_bytes) {
    const auto now = content.subspan(at, std::min<std::uint64_t>(home_block_bytes, content.size() - at));
    const int one = keep_twin((offset + at) / home_block_bytes, now);
    result = result == 0 ? one : result;
  }
  return result == 0 ? static_cast<std::int64_t>(bytes) : result;
}

void CoherentStore::score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept {
  if (offset < size_bytes()) {
    const PlacingGate::Pass pass(home_->gate());
    home_->note_score(offset, std::min(bytes, size_bytes() - offset), score, sharer);
  }
}

void CoherentStore::keep_twins(bool keep) noexcept {
  keeps_twins_.store(keep, std::memory_order_release);
  if (!keep) {
    twins_.forget_all();
  }
}

}  // namespace tiermap
