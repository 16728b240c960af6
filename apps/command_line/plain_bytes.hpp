// Memory as MappedBytes, of no store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "command_line/memory_system.hpp"

namespace tiermap {

class PlainBytes final : public MappedBytes {
 public:
  explicit PlainBytes(std::uint64_t bytes) : words_((bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t)) {
    data_ = reinterpret_cast<std::byte*>(words_.data());
    size_ = bytes;
  }
  std::span<const std::uint64_t> words() const noexcept { return words_; }
  void prefetch(std::span<const ByteRange>) override {}
  void advise(Advice, ByteRange) override {}
  void flush(ByteRange) override {}
  void sync() override {}
  void save() override {}

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace tiermap
