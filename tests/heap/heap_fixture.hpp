// A directory for heaps of a test, and options that make them small.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "store/temporary_directory.hpp"
#include "tiermap/heap.hpp"
#include "tiermap/heap_containers.hpp"

namespace tiermap {

class HeapTest : public testing::Test {
 protected:
  static HeapOptions small() {
    HeapOptions options;
    options.capacity_bytes = 64 << 20;
    options.budget_bytes = 8 << 20;
    return options;
  }

  /// What the exception of that type says; a failure if there is none.
  template <typename Expected, typename Call>
  static std::string refusal(Call&& call) {
    try {
      call();
    } catch (const Expected& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      return text;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "another exception: " << error.what();
      return "";
    }
    ADD_FAILURE() << "no exception";
    return "";
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "heap";
};

/// Whether `text` has `part` in it.
inline testing::AssertionResult says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos ? testing::AssertionSuccess()
                                              : testing::AssertionFailure() << text << " does not say " << part;
}

}  // namespace tiermap
