// The words of a database: where they are mapped, or read from the store itself to check what is mapped. And a writer
// that puts words one after another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "command_line/backing.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Words by their place in the file, where it is mapped.
class MappedWords {
 public:
  explicit MappedWords(const std::byte* data) : words_(reinterpret_cast<const std::uint64_t*>(data)) {}
  std::uint64_t operator[](std::uint64_t index) const noexcept { return words_[index]; }

 private:
  const std::uint64_t* words_;
};

/// The same read past any mapping, a block at a time. For one thread.
class StoreWords {
 public:
  explicit StoreWords(std::shared_ptr<Store> store) : store_(std::move(store)), buffer_(block_bytes) {}
  std::uint64_t operator[](std::uint64_t index) {
    const std::uint64_t block = index / block_words;
    if (block != held_) {
      const std::uint64_t begin = block * block_bytes;
      read_fully(*store_, buffer_.data(), std::min(block_bytes, store_->size_bytes() - begin), begin);
      held_ = block;
    }
    return buffer_.as_span<std::uint64_t>()[index % block_words];
  }

 private:
  static constexpr std::uint64_t block_bytes = 4096;
  static constexpr std::uint64_t block_words = block_bytes / sizeof(std::uint64_t);
  std::shared_ptr<Store> store_;
  AlignedBuffer buffer_;
  std::uint64_t held_ = ~std::uint64_t{0};
};

/// Words written one after another, in large pieces.
class WordWriter {
 public:
  WordWriter(Store& store, std::uint64_t offset) : store_(store), offset_(offset), buffer_(buffer_bytes) {}
  void write(std::uint64_t word) {
    words_[used_++] = word;
    ++written_;
    if (used_ == words_.size()) {
      flush();
    }
  }
  void flush() {
    write_fully(store_, words_.data(), used_ * sizeof(std::uint64_t), offset_);
    offset_ += used_ * sizeof(std::uint64_t);
    used_ = 0;
  }
  std::uint64_t written() const noexcept { return written_; }

 private:
  static constexpr std::uint64_t buffer_bytes = std::uint64_t{1} << 20U;
  Store& store_;
  std::uint64_t offset_;
  AlignedBuffer buffer_;
  std::span<std::uint64_t> words_ = buffer_.as_span<std::uint64_t>();
  std::uint64_t used_ = 0;
  std::uint64_t written_ = 0;
};

}  // namespace tiermap
