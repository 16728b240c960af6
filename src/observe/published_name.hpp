// Names in memory that another process reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "platform/control_characters.hpp"

namespace tiermap {

/// As much of it as there is room for, with zeros behind.
inline void copy_name(std::span<char> destination, std::string_view source) noexcept {
  const std::size_t length = std::min(source.size(), destination.size() - 1);
  std::memcpy(destination.data(), source.data(), length);
  std::memset(destination.data() + length, 0, destination.size() - length);
}

/// Whatever is there, made fit for a screen.
inline std::string read_name(std::span<const char> text) {
  std::string name(text.begin(), std::find(text.begin(), text.end(), '\0'));
  hide_control_characters(name);
  return name;
}

}  // namespace tiermap
