// What open_store() says of a URL that it refuses.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>

#include "tiermap/error.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// The message, which has to be one line with this error number.
inline std::string refusal_of_opening(const std::string& url, int error_number, OpenMode mode = OpenMode::read_only,
                                      std::uint64_t create_bytes = 0) {
  try {
    open_store(url, mode, create_bytes);
  } catch (const StoreError& error) {
    EXPECT_EQ(error.code().value(), error_number) << error.what();
    EXPECT_EQ(std::string(error.what()).find_first_of("\n\r"), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no exception for " << url;
  return "";
}

inline void expect_said(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
  }
}

}  // namespace tiermap
