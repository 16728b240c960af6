// Input that is compressed where plain text is read: said by the compression's name.
#pragma once

#include <string>
#include <string_view>

namespace tiermap {

/// Throws OptionError if a file that begins so is compressed; it names `path` and the program that unpacks it.
void refuse_compressed(const std::string& path, std::string_view first_bytes);

}  // namespace tiermap
