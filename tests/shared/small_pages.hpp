// Options of shared vectors that tests fill in no time.
#pragma once

#include "tiermap/shared_vector.hpp"

namespace tiermap {

inline SharedVectorOptions small_pages() {
  SharedVectorOptions options;
  options.page_size_bytes = 4096;
  options.budget_bytes = 4 << 20;
  return options;
}

}  // namespace tiermap
