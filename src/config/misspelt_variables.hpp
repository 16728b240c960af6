// Variables of the environment that nothing reads, and whose names are nearly those of variables that something does.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tiermap {

/// One line for each variable that begins with `prefix`, is none of `known` and is nearly one of them: its name, and
/// which may have been meant. Names that are like none of them belong to somebody else, and are left alone.
std::vector<std::string> find_misspelt_variables(std::string_view prefix, std::span<const std::string_view> known);

/// The TIERMAP_ variables that something reads, without those that `tiermap run` sets for its library.
std::vector<std::string_view> known_variables();

/// Those lines of TIERMAP_ variables on standard error, once for a process; for a program that `tiermap run` has
/// started that has done it.
void tell_of_misspelt_variables() noexcept;

}  // namespace tiermap
