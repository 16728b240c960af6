// What open_store() says of a URL that it refuses.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "store/refusal.hpp"
#include "tiermap/error.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// The message, which has to be one line with this error number.
inline std::string refusal_of_opening(const std::string& url, int error_number, OpenMode mode = OpenMode::read_only,
                                      std::uint64_t create_bytes = 0) {
  SCOPED_TRACE(url);
  return refusal_of_call<StoreError>(error_number, [&] { open_store(url, mode, create_bytes); });
}

}  // namespace tiermap
