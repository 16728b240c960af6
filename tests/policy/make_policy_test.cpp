// Policies by name, and the messages for wrong ones.
#include "cache/policy/make_policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cache/eviction_policy.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::string message_of(std::string_view name, const PolicyOptions& options) {
  try {
    make_eviction_policy(name, options);
  } catch (const OptionError& error) {
    return error.what();
  }
  return "no error";
}

TEST(MakePolicy, KnowsEveryNameItLists) {
  EXPECT_EQ(policy_names().size(), 6U);
  for (const std::string_view name : policy_names()) {
    PolicyOptions options;
    options.max_frames = 8;
    EXPECT_EQ(make_eviction_policy(name, options)->name(), name);
  }
}

TEST(MakePolicy, SaysWhatItKnowsWhenANameIsWrong) {
  EXPECT_EQ(message_of("lfu", {}),
            "policy \"lfu\" is unknown: choose one of fifo, lru, hot-fifo, segmented-fifo, small-main, cyclic");
}

TEST(MakePolicy, RefusesSharesThatLeaveTooLittle) {
  PolicyOptions options;
  options.unmapped_share_percent = 76;
  EXPECT_EQ(message_of("lru", options), "unmapped share 76 % is too large: choose 0 to 75");
  options = {};
  options.hot_share_percent = 100;
  EXPECT_EQ(message_of("hot-fifo", options), "hot share 100 % is too large: choose 0 to 75");
}

TEST(MakePolicy, TakesTheUnmappedShareFromTheOptionsOrItsOwnDefault) {
  PolicyOptions options;
  options.max_frames = 8;
  const auto share = [&options](std::string_view name) {
    return make_eviction_policy(name, options)->unmapped_share_percent();
  };
  EXPECT_EQ(share("fifo"), 0U);
  EXPECT_EQ(share("lru"), 50U);
  EXPECT_EQ(share("segmented-fifo"), 25U);
  EXPECT_EQ(share("hot-fifo"), 25U);
  EXPECT_EQ(share("small-main"), 25U);
  EXPECT_EQ(share("cyclic"), 25U);
  options.unmapped_share_percent = 40;
  for (const std::string_view name : policy_names()) {
    EXPECT_EQ(share(name), name == "fifo" ? 0U : 40U) << name;
  }
}

}  // namespace
}  // namespace tiermap
