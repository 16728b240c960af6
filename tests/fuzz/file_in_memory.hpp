// A fuzzer's input as a file: its first bytes are the file's header, the others what follows the header's page.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "command_line/memory_system.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

class FileInMemory final : public Store {
 public:
  FileInMemory(const std::uint8_t* data, std::size_t size, std::size_t header_bytes, std::size_t page_bytes) {
    const std::size_t head = std::min(size, header_bytes);
    words_.resize(size == 0 ? 0 : (page_bytes + size - head + 7) / 8);
    if (size > 0) {
      std::memcpy(words_.data(), data, head);
      std::memcpy(bytes() + page_bytes, data + head, size - head);
    }
  }
  std::uint64_t size_bytes() const override { return words_.size() * 8; }
  std::int64_t read(void* buffer, std::size_t count, std::uint64_t offset) override {
    const std::uint64_t left = size_bytes() - std::min(size_bytes(), offset);
    const std::size_t got = std::min<std::uint64_t>(count, left);
    std::memcpy(buffer, bytes() + offset, got);
    return static_cast<std::int64_t>(got);
  }
  std::byte* bytes() noexcept { return reinterpret_cast<std::byte*>(words_.data()); }

 private:
  std::vector<std::uint64_t> words_;
};

class MappedFileInMemory final : public MappedBytes {
 public:
  explicit MappedFileInMemory(FileInMemory& file) {
    data_ = file.bytes();
    size_ = file.size_bytes();
  }
  void prefetch(std::span<const ByteRange>) override {}
  void advise(Advice, ByteRange) override {}
  void flush(ByteRange) override {}
  void sync() override {}
  void save() override {}
};

}  // namespace tiermap
