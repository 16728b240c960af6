// Records that are texts.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tiermap {

struct TextSerializer {
  void write(const std::string& text, std::vector<std::byte>& bytes) const {
    const auto* const first = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), first, first + text.size());
  }
  std::string read(std::span<const std::byte> bytes) const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

}  // namespace tiermap
