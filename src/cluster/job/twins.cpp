#include "cluster/job/twins.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "platform/drop_pages.hpp"
#include "store/file_open.hpp"

namespace tiermap {

Twins::Twins(std::uint64_t blocks, std::uint64_t memory_bytes, std::string folder)
    : folder_(std::move(folder)),
      places_(std::min(std::max<std::uint64_t>(memory_bytes / home_block_bytes, 1), blocks)),
      in_file_(blocks) {
  free_places_.reserve(places_.size());
}

int Twins::keep(std::uint64_t block, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  int result = 0;
  auto found = in_memory_.find(block);
  if (found == in_memory_.end()) {
    while (result == 0 && in_memory_.size() >= places_.size()) {
      result = spill_oldest();
    }
    found = in_memory_.emplace(block, with_room()).first;
    by_age_.emplace_back(block, found->second.age);
    in_file_[block] = false;
  }
  Block& kept = *found->second.bytes;
  std::ranges::copy(bytes, kept.begin());
  std::fill(kept.begin() + static_cast<std::ptrdiff_t>(bytes.size()), kept.end(), std::byte{0});
  if (by_age_.size() > 2 * places_.size() + 64) {
    std::erase_if(by_age_, [this](const auto& one) { return !is_there(one); });
  }
  return result;
}

Twins::Kept Twins::with_room() {
  Kept kept;
  kept.age = next_age_++;
  if (!free_places_.empty()) {
    kept.bytes = free_places_.back();
    free_places_.pop_back();
  } else if (used_places_ < places_.size()) {
    kept.bytes = &places_[used_places_++];
  } else {
    kept.beside = std::make_unique<Block>();
    kept.bytes = kept.beside.get();
  }
  return kept;
}

void Twins::erase(InMemory::iterator one) noexcept {
  if (one->second.beside == nullptr) {
    free_places_.push_back(one->second.bytes);  // There is room for all of them.
  }
  in_memory_.erase(one);
}

bool Twins::is_there(const std::pair<std::uint64_t, std::uint64_t>& block_and_age) const {
  const auto found = in_memory_.find(block_and_age.first);
  return found != in_memory_.end() && found->second.age == block_and_age.second;
}

int Twins::spill_oldest() {
  if (!is_there(by_age_.front())) {
    by_age_.pop_front();
    return 0;
  }
  const std::uint64_t block = by_age_.front().first;
  const auto found = in_memory_.find(block);
  if (!file_.valid()) {
    file_ = open_nameless_file(folder_);
    if (!file_.valid()) {
      return -errno;
    }
  }
  const ssize_t put = ::pwrite(file_.get(), found->second.bytes->data(), home_block_bytes,
                               static_cast<off_t>(block * home_block_bytes));
  if (put != static_cast<ssize_t>(home_block_bytes)) {
    return put < 0 ? -errno : -ENOSPC;
  }
  spilled_bytes_ += home_block_bytes;
  in_file_[block] = true;
  erase(found);
  by_age_.pop_front();
  return 0;
}

bool Twins::find(std::uint64_t block, Block& bytes, int& error) const {
  const std::lock_guard lock(mutex_);
  error = 0;
  if (const auto found = in_memory_.find(block); found != in_memory_.end()) {
    bytes = *found->second.bytes;
    return true;
  }
  if (!in_file_[block]) {
    return false;
  }
  const ssize_t got = ::pread(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(block * home_block_bytes));
  if (got != static_cast<ssize_t>(bytes.size())) {
    error = got < 0 ? -errno : -EIO;
    return false;
  }
  return true;
}

void Twins::forget(std::uint64_t first, std::uint64_t count) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint64_t end = std::min<std::uint64_t>(first + count, in_file_.size());
  for (std::uint64_t block = first; block < end; ++block) {
    if (const auto found = in_memory_.find(block); found != in_memory_.end()) {
      erase(found);
    }
    in_file_[block] = false;
  }
}

void Twins::forget_all() noexcept {
  forget(0, in_file_.size());
  const std::lock_guard lock(mutex_);
  if (in_memory_.empty() && used_places_ > 0) {  // Else another thread keeps one by now.
    drop_pages(places_.data(), used_places_ * sizeof(Block));
    free_places_.clear();
    used_places_ = 0;
  }
}

std::uint64_t Twins::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return in_memory_.size() * home_block_bytes;
}

std::uint64_t Twins::spilled_bytes() const {
  const std::lock_guard lock(mutex_);
  return spilled_bytes_;
}

}  // namespace tiermap
