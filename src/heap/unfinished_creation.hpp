// What a program leaves that was killed, or whose machine stopped, while it made a heap.
#pragma once

#include <string>

namespace tiermap {

/// Whether this is all there is at a path: files in which a heap's creation may have stopped, and in which nobody's
/// block, name or checkpoint can be. Where a file system does not tell holes from data it is false of data that has its
/// length. Of a heap that somebody is making this is true as well: who relies on it holds both locks.
bool is_unfinished_creation(const std::string& path);

/// Takes such files away. The directory stays: it may have been there before, and is for who calls this to lock. Throws
/// StoreError, EBUSY if somebody is making that heap, and then, as when it is something else by now, nothing is gone.
void remove_unfinished_creation(const std::string& path);

}  // namespace tiermap
