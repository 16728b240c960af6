// What a call says when it refuses.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace tiermap {

/// The message of the exception of that type, which has to be one line with this error number; a failure if there is
/// none.
template <typename Expected, typename Call>
std::string refusal_of_call(int error_number, Call&& call) {
  try {
    call();
  } catch (const Expected& error) {
    EXPECT_EQ(error.code().value(), error_number) << error.what();
    EXPECT_EQ(std::string(error.what()).find_first_of("\n\r"), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no exception";
  return "";
}

inline void expect_said(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
  }
}

}  // namespace tiermap
