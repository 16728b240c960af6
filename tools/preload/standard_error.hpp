// Standard error is descriptor 2 of the program's, which may close it, and open a file that gets its number.
#pragma once

namespace tiermap::preload {

/// When the library begins: what standard error is.
void note_standard_error() noexcept;

/// Whether what is written there goes to somebody who reads it, and not among the program's data. Keeps `errno`.
bool standard_error_can_be_told() noexcept;

}  // namespace tiermap::preload
