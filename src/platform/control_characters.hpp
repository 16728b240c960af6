// Characters that a line for people must not have: they would break it, or move the cursor.
#pragma once

#include <algorithm>
#include <span>

namespace tiermap {

constexpr bool is_control_character(char character) noexcept {
  return static_cast<unsigned char>(character) < 0x20 || character == 0x7F;
}

/// Puts '?' in the place of each. Safe in signal handlers.
inline void hide_control_characters(std::span<char> text) noexcept {
  std::ranges::replace_if(text, is_control_character, '?');
}

}  // namespace tiermap
