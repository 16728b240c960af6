// Patterns that choose files: * and ? within one part of a path, ** over parts, [abc] as in a shell.
#pragma once

#include <string_view>

namespace tiermap::preload {

/// Whether the whole of `path` is what `pattern` means. Without a slash the pattern is for the name of the file alone.
bool matches(std::string_view pattern, std::string_view path);

}  // namespace tiermap::preload
