// Heap's public members: offsets to pointers, and on to the implementation.
#include "tiermap/heap.hpp"

#include <cerrno>
#include <utility>

#include "heap/block_check.hpp"
#include "heap/heap_directory.hpp"
#include "heap/heap_implementation.hpp"
#include "heap/heap_removal.hpp"
#include "heap/open_heaps.hpp"
#include "heap/unfinished_creation.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr int most_attempts_to_open = 20;

/// Not null, which is how a HeapFallbackAllocator says that it means the program's own memory.
constexpr char base_of_closed_heaps = 0;

}  // namespace

Heap::Heap(std::unique_ptr<HeapImplementation> implementation) noexcept : implementation_(std::move(implementation)) {}
Heap::Heap(Heap&&) noexcept = default;
Heap& Heap::operator=(Heap&&) noexcept = default;
Heap::~Heap() = default;

Heap Heap::create(const std::string& path, const HeapOptions& options) {
  return Heap(HeapImplementation::create(path, options));
}

Heap Heap::open(const std::string& path, const HeapOptions& options) {
  return Heap(std::make_unique<HeapImplementation>(path, options, true));
}

Heap Heap::open_read_only(const std::string& path, const HeapOptions& options) {
  return Heap(std::make_unique<HeapImplementation>(path, options, false));
}

Heap Heap::open_or_create(const std::string& path, const HeapOptions& options) {
  for (int attempt = 1;; ++attempt) {
    const HeapPresence presence = heap_presence(path);
    const bool missing =
        presence == HeapPresence::nothing || presence == HeapPresence::empty_directory || is_unfinished_creation(path);
    try {
      return missing ? create(path, options) : open(path, options);
    } catch (const StoreError& error) {
      // Somebody else may have made it by now, or removed it.
      if (error.code().value() != (missing ? EEXIST : ENOENT) || attempt == most_attempts_to_open) {
        throw;
      }
    }
  }
}

bool Heap::remove(const std::string& path) {
  return remove_heap_files(path);
}

bool Heap::consistent(const std::string& path) {
  return HeapImplementation::consistent(path);
}

HeapCheck Heap::check(const std::string& path, const HeapProgress& progress) {
  return check_heap(path, progress);
}

void Heap::close() {
  implementation_->close();
}

void Heap::checkpoint() {
  implementation_->checkpoint();
}

void Heap::snapshot(const std::string& path, const std::function<void()>& checkpointed) {
  implementation_->snapshot(path, checkpointed);
}

std::uint64_t Heap::update_snapshot(const std::string& path, const std::function<void()>& checkpointed) {
  return implementation_->update_snapshot(path, checkpointed);
}

void* Heap::allocate(std::size_t bytes, std::size_t alignment) {
  return implementation_->allocate(bytes, alignment);
}

void Heap::deallocate(void* block) {
  implementation_->deallocate(block);
}

void Heap::require_block(const void* block) const {
  implementation_->require_block(block);
}

void* Heap::begin_object(const HeapObjectKey& key, const HeapType& type, std::size_t count, bool or_find, bool& found) {
  ObjectNames& names = implementation_->writable_names();
  std::byte* const data = implementation_->data();
  void* block = nullptr;
  try {
    const ObjectNames::Found there = names.begin(key, type, count, or_find, [&] {
      block = allocate(count * type.size_bytes, type.alignment);
      return static_cast<std::uint64_t>(static_cast<std::byte*>(block) - data);
    });
    found = there.count != 0;
    return found ? data + there.offset : block;
  } catch (...) {
    deallocate(block);  // No memory for the name.
    throw;
  }
}

void Heap::end_object(const HeapObjectKey& key, const HeapType& type, bool made) noexcept {
  const std::uint64_t offset = implementation_->names().end(key, type, made);
  if (!made) {
    deallocate(implementation_->data() + offset);
  }
}

HeapBlockOfObjects Heap::find_object(const HeapObjectKey& key, const HeapType& type) const {
  const ObjectNames::Found found = implementation_->names().find(key, type);
  return {found.count != 0 ? implementation_->data() + found.offset : nullptr, found.count};
}

HeapBlockOfObjects Heap::take_object(const HeapObjectKey& key, const HeapType& type) {
  const ObjectNames::Found found = implementation_->writable_names().take(key, type);
  return {found.count != 0 ? implementation_->data() + found.offset : nullptr, found.count};
}

std::vector<HeapObject> Heap::objects() const {
  return implementation_->names().list();
}

std::optional<HeapObject> Heap::attributes_of_key(const HeapObjectKey& key, const HeapType& type) const {
  return implementation_->names().attributes(key, type);
}

std::optional<HeapObject> Heap::attributes_at(const void* address) const {
  const auto from = reinterpret_cast<std::uintptr_t>(address);
  const auto begin = reinterpret_cast<std::uintptr_t>(implementation_->data());
  return from >= begin ? implementation_->names().attributes_at(from - begin) : std::nullopt;
}

void Heap::describe_key(const HeapObjectKey& key, const HeapType& type, std::string_view description) {
  implementation_->writable_names().describe(key, type, description);
}

std::vector<std::string> Heap::warnings() const {
  return implementation_->names().warnings();
}

HeapStatistics Heap::statistics() const {
  return implementation_->statistics();
}

const std::string& Heap::path() const noexcept {
  return implementation_->path();
}

bool Heap::writable() const noexcept {
  return implementation_->writable();
}

std::byte* Heap::data() const noexcept {
  return implementation_->data();
}

const void* base_of(const Heap& heap) noexcept {
  return heap.data() != nullptr ? static_cast<const void*>(heap.data()) : &base_of_closed_heaps;
}

void* allocate_in_heap(const void* base, std::size_t bytes, std::size_t alignment) {
  return open_heap_at(base).allocate(bytes, alignment);
}

void deallocate_in_heap(const void* base, void* block) {
  open_heap_at(base).deallocate(block);
}

}  // namespace tiermap
