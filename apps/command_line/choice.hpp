// Options whose value is one of a few words.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "tiermap/error.hpp"

namespace tiermap {

/// The words, and what each stands for.
template <typename T, std::size_t count>
using Names = std::array<std::pair<const char*, T>, count>;

/// What the word `text` stands for. Throws OptionError that lists the words; `option` is what it calls the option.
template <typename T, std::size_t count>
T choose(const Names<T, count>& names, const std::string& text, const char* option) {
  std::string listed;
  for (const auto& [name, value] : names) {
    if (text == name) {
      return value;
    }
    listed += (listed.empty() ? "" : ", ") + std::string(name);
  }
  throw OptionError(fmt::format("{} {} is unknown: choose one of {}", option, text, listed));
}

}  // namespace tiermap
