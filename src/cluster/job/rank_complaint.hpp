// What ranks say to each other where one of them may have to say that it cannot go on.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

/// In front of a complaint, so that it is nothing else.
inline constexpr char complaint_mark = '!';

struct RankRemedy {
  int error_number;
  const char* text;
};

/// Throws what the first rank that has a complaint says, and what to do.
inline void require_no_complaint(const std::string& job, const std::vector<std::string>& texts,
                                 const RankRemedy& remedy) {
  const auto found =
      std::ranges::find_if(texts, [](const std::string& text) { return text.starts_with(complaint_mark); });
  if (found != texts.end()) {
    throw StoreError(remedy.error_number, "job " + quote_value(job) + ": rank " +
                                              std::to_string(found - texts.begin()) + found->substr(1) + ": " +
                                              remedy.text);
  }
}

}  // namespace tiermap
