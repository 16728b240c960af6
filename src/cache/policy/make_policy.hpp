// The names of all policies, for messages, tests and tools. make_eviction_policy() is declared in
// cache/eviction_policy.hpp.
#pragma once

#include <span>
#include <string_view>

namespace tiermap {

/// Every name that make_eviction_policy() knows, in the order of docs/policies.md.
std::span<const std::string_view> policy_names();

}  // namespace tiermap
