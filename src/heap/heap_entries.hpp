// What the directory of a heap holds, by name, and what is asked of such entries.
#pragma once

#include <string>

namespace tiermap {

inline constexpr char journal_entry[] = "/journal";
inline constexpr char data_entry[] = "/data";
/// What `data` is called while it is copied, or brought up to date.
inline constexpr char copied_data_entry[] = "/data.incomplete";

/// Throws StoreError for a path that is empty, or that the kernel would take for another one.
void require_path(const std::string& path);
/// Also a symbolic link that leads nowhere.
bool is_there(const std::string& path);
bool is_directory(const std::string& path);

/// Of a directory: which entries it has. What a file system cannot do in this is left. Throws StoreError.
void make_durable(const std::string& path);

}  // namespace tiermap
