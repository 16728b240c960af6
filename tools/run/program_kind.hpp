// What `tiermap run` is asked to run, and whether a library can be put before it.
#pragma once

#include <string>

namespace tiermap {

struct ProgramKind {
  std::string path;      ///< Where it was found; empty if it was not.
  int error_number = 0;  ///< Why not: ENOENT or EACCES.
  std::string obstacle;  ///< Why it cannot be served, such as "is linked statically"; empty if it can.
  bool go = false;       ///< It calls the kernel itself: nothing of it is served, but what it starts.
};

/// Looks for `name` as a shell would, by PATH unless it has a slash. A script is what its interpreter is.
ProgramKind examine_program(const std::string& name);

}  // namespace tiermap
