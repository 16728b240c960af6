// What a directory has in it, and putting a new file in an old one's place.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tiermap {

/// All names in the directory that is open as `directory`, in any order, but for "." and "..". Throws StoreError:
/// "PATH cannot be listed: ..."; not even a part of them is returned then.
std::vector<std::string> names_in(int directory, const std::string& path);

/// Makes `content` what the file `name` of the directory holds, in one step: written as `temporary_name`, synchronised,
/// renamed. That the new file bears the name is durable once the caller has synchronised the directory. Returns 0 or a
/// negative errno value; then the old file is there, and nothing beside it.
int replace_file(int directory, const char* name, const char* temporary_name,
                 std::span<const std::byte> content) noexcept;

}  // namespace tiermap
