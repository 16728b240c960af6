// Whatever a heap's metadata area holds, it is refused with a StoreError, or means blocks that can be: then each of
// them can be freed, others allocated, and what is saved after that is the same when it is loaded.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include <xxhash.h>

#include "heap/allocator.hpp"
#include "tiermap/error.hpp"

namespace {

constexpr std::uint64_t capacity = 2 << 20;
constexpr std::uint64_t slabs = capacity / tiermap::slab_bytes;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// As long as it has to be, zero where the input ends.
class InputArea : public tiermap::MetadataArea {
 public:
  explicit InputArea(std::span<const std::uint8_t> input) : bytes_(tiermap::Allocator::metadata_bytes(capacity)) {
    std::transform(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(std::min(input.size(), bytes_.size())),
                   bytes_.begin(), [](std::uint8_t byte) { return std::byte{byte}; });
  }
  void read_record(std::uint64_t place, std::span<std::byte> bytes) override {
    require(place <= bytes_.size() && bytes.size() <= bytes_.size() - place);
    std::memcpy(bytes.data(), &bytes_[place], bytes.size());
  }
  void write_record(std::uint64_t place, std::span<const std::byte> bytes) override {
    require(place <= bytes_.size() && bytes.size() <= bytes_.size() - place);
    std::memcpy(&bytes_[place], bytes.data(), bytes.size());
  }

  /// Puts all checksums and counts right, which no chance would find.
  void repair() {
    std::byte* const record = &bytes_[tiermap::slab_record_place(0)];
    for (std::uint64_t slab = 0; slab < slabs; ++slab) {
      std::byte* const entry = record + 16 + slab * 16;
      const auto size_class = std::to_integer<unsigned>(entry[1]);
      if (entry[0] == std::byte{1} && size_class < tiermap::size_class_count) {
        repair_span(slab, entry, tiermap::size_classes[size_class]);
      }
    }
    put(record + 8, 1);
    const std::uint64_t checksum = XXH3_64bits_withSeed(record + 8, tiermap::slab_record_bytes - 8, 0);
    put(record, checksum);
    put(&bytes_[32], checksum);
    put(&bytes_[56], XXH3_64bits(bytes_.data(), 56));
  }

 private:
  static void put(std::byte* place, std::uint64_t value) {
    for (unsigned index = 0; index < 8; ++index) {
      place[index] = static_cast<std::byte>(value >> (8 * index) & 0xff);
    }
  }
  void repair_span(std::uint64_t slab, std::byte* entry, const tiermap::SizeClass& size) {
    const bool is_inline = tiermap::has_inline_bits(size);
    const std::byte* const bits = is_inline ? entry + 8 : &bytes_[tiermap::metadata_bitmap_place(slabs, slab)];
    const std::size_t length = is_inline ? 8 : tiermap::bitmap_bytes(size);
    unsigned live = 0;
    for (std::size_t index = 0; index < length; ++index) {
      live += static_cast<unsigned>(std::popcount(std::to_integer<unsigned>(bits[index])));
    }
    for (unsigned index = 0; index < 4; ++index) {
      entry[4 + index] = static_cast<std::byte>(live >> (8 * index) & 0xff);
    }
    if (!is_inline) {
      put(entry + 8, XXH3_64bits_withSeed(bits, length, slab));
    }
  }

  std::vector<std::byte> bytes_;
};

using Blocks = std::map<std::uint64_t, std::uint64_t>;

Blocks blocks_of(tiermap::Allocator& allocator) {
  Blocks blocks;
  std::uint64_t end = tiermap::Allocator::first_offset;
  allocator.for_each_block([&](std::uint64_t offset, std::uint64_t bytes) {
    require(offset >= end && bytes > 0 && offset + bytes <= capacity);
    end = offset + bytes;
    blocks.emplace(offset, bytes);
  });
  return blocks;
}

void load(InputArea& area) {
  try {
    tiermap::Allocator allocator(area, capacity, tiermap::Allocator::Content::saved);
    const Blocks blocks = blocks_of(allocator);
    require(allocator.statistics().live_blocks == blocks.size());
    bool freed = true;
    for (const auto& [offset, bytes] : blocks) {
      require(allocator.block_bytes(offset) == bytes);
      if (freed) {
        allocator.deallocate(offset);
      }
      freed = !freed;
    }
    for (const std::uint64_t bytes : {8U, 100U, 3000U, 50000U, 600000U}) {
      const std::uint64_t block = allocator.allocate(bytes);
      require(block == tiermap::Allocator::no_block || block + bytes <= capacity);
    }
    allocator.save();
    const Blocks now = blocks_of(allocator);
    tiermap::Allocator again(area, capacity, tiermap::Allocator::Content::saved);
    require(blocks_of(again) == now);
    again.give_back(tiermap::GiveBack::free_now, [&](std::uint64_t offset, std::uint64_t bytes) {
      require(offset + bytes <= capacity && !now.contains(offset));
    });
  } catch (const tiermap::StoreError& error) {
    require(std::strchr(error.what(), '\n') == nullptr && *error.what() != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  InputArea area(std::span(data, size));
  load(area);
  InputArea repaired(std::span(data, size));
  repaired.repair();
  load(repaired);
  return 0;
}
