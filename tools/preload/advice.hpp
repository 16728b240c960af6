// The numbers of a run in words, and the setting that would have suited the program better.
#pragma once

#include <cstdint>
#include <string>

#include "tiermap/statistics.hpp"

namespace tiermap::preload {

/// The program's file name.
std::string program_name();
/// "1 mapping", "2 mappings".
std::string counted(std::uint64_t number, const std::string& thing);
/// Lines that begin with "tiermap: ".
std::string describe(const Statistics& statistics);
/// One line on the first setting that `tiermap tune` would try after such a run, and why.
std::string advise(const Statistics& statistics, std::uint64_t page_bytes);

}  // namespace tiermap::preload
